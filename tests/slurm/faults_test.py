"""What breaks under a chain on a real SLURM: its controller, nodes, time limits, and what users delete."""

import pathlib
import shutil
import sys

import cluster
from chains import Chain
from cluster import STAGED, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import pictures  # noqa: E402


class Faults(Chain):
    clusters = (cluster.Case.gamma,)
    profile = "gamma"

    def setUp(self):
        super().setUp()
        (self.folder / "cluster-profiles").unlink()
        (self.folder / "cluster-profiles").mkdir()
        self.write_profile()

    def write_profile(self, options=""):
        self.write("cluster-profiles/gamma.yaml",
                   f"scheduler: slurm\nslurm: {{partition: batch, options: [{options}]}}\npaths: {{runs: runs}}\n")

    def until_told(self, name):
        """A command that leaves `name` in `trace` and ends once the file `go` is there."""
        return f"echo {name} >> {self.folder}/trace; until [ -e {self.folder}/go ]; do sleep 0.05; done"

    def go(self):
        (self.folder / "go").touch()

    def node_of(self, run, step):
        return {step["name"]: step["node"] for step in self.status(run)["steps"]}[step]

    def take_away(self, node, seconds=3):
        """A job that others have to make room for: each core of `node`."""
        return self.gamma.sbatch(f"sleep {seconds}", "--partition=urgent", "--exclusive", "-w", node)

    def test_a_controller_that_restarts_mid_chain_loses_nothing(self):
        self.write("w.yaml", f"""
            name: restart
            steps:
              a: {{run: '{self.until_told("a")}'}}
              b: {self.step("b-$DLFLOW_MATRIX_N", ", needs: [a], matrix: {n: [0, 1]}")}
              c: {self.step("c", ", needs: [b]")}
        """)
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        before = self.ids(run)
        self.gamma.stop_controller()
        self.go()  # a ends while nobody listens
        wait_until(lambda: '"succeeded"' in self.read(f"runs/{run}/steps/a/attempt-1/events.jsonl"), 20, "the record of a")
        self.gamma.start_controller()
        self.wait_for(run, {"c": "succeeded"})
        self.assertEqual(sorted(self.trace()), ["a", "b-0", "b-1", "c"])
        self.assertEqual(self.ids(run), before)

    def test_training_through_time_limits_a_dead_node_and_preemption_gives_the_same_bits(self):
        sources = ", ".join(f"{{url: 'file://{file}', unpack: gzip}}" for file in pictures.write(self.folder))
        (self.folder / "models").symlink_to(STAGED / "workflows/models")

        def train(limit):
            self.write("w.yaml", f"""
                name: train
                params: {{limit: {limit}}}
                steps:
                  data: {{uses: stage, with: {{sources: [{sources}]}}}}
                  train:
                    uses: train
                    resources: {{walltime: {limit}}}
                    with: {{model: models/lenet.yaml, data: '${{{{ steps.data.outputs.path }}}}', epochs: 24, lr: 0.05, validation: 200}}
                    checkpoint: {{every: 5 steps, keep: 2}}
                    retry: {{attempts: 9, on: [node-failure, preempted]}}
                  best: {{uses: checkpoint, with: {{from: '${{{{ steps.train.outputs.checkpoints }}}}', export: safetensors}}}}
            """)
            return self.submit("--force", "train", "--force", "best")

        def passes(run):
            return len(list((self.folder / "runs" / run / "steps/train/attempt-1").glob("claim-*")))

        def runs_in_pass(run, number):
            """Once it has trained in that pass: the node it is on."""
            metrics = self.folder / "runs" / run / "steps/train/attempt-1/metrics.jsonl"
            wait_until(lambda: passes(run) >= number, 90, f"pass {number}")
            self.wait_for(run, {"train": "running"})
            size = metrics.stat().st_size if metrics.exists() else 0
            wait_until(lambda: metrics.exists() and metrics.stat().st_size > size, 60, "training to go on")
            return self.node_of(run, "train")

        def exported(run):
            return next((self.folder / "runs" / run / "steps/best/outputs").glob("*.safetensors")).read_bytes()

        whole = train("10m")
        run = train("12s")
        node = runs_in_pass(run, 2)  # the first one reached its time limit
        number = int(node[-1])
        self.addCleanup(self.gamma.start_node, number)
        self.gamma.kill_node(number)
        other = runs_in_pass(run, 3)
        self.assertNotEqual(other, node)
        self.gamma.start_node(number)
        self.take_away(other)
        self.wait_for(run, {"best": "succeeded"}, timeout=240)
        self.wait_for(whole, {"best": "succeeded"}, timeout=240)
        self.assertGreaterEqual(passes(run), 4)
        self.assertEqual(passes(whole), 1)
        self.assertEqual(exported(run), exported(whole))

    def test_what_is_preempted_is_tried_again_as_retry_says(self):
        self.write("w.yaml", f"""
            name: preempted
            steps:
              again: {{run: 'echo again >> {self.folder}/trace; sleep 5', retry: {{attempts: 2, on: [preempted]}}}}
              never: {{run: 'sleep 60', retry: {{attempts: 2, on: [node-failure]}}}}
              once: {{run: 'sleep 60'}}
              after: {self.step("after", ", needs: [again]")}
        """)
        run = self.submit()
        self.wait_for(run, {"again": "running", "never": "running", "once": "running"})
        for number in (1, 2):
            self.take_away(self.gamma.node(number), seconds=1)
        self.wait_for(run, {"after": "succeeded", "never": "lost", "once": "lost"}, timeout=60)
        self.assertEqual(self.trace(), ["again", "again", "after"])
        reasons = {step["name"]: step["reason"] for step in self.status(run)["steps"]}
        self.assertIn("taken away", reasons["never"])
        self.assertIn("preempted", reasons["once"])

    def test_a_site_that_removes_what_can_never_start_is_repaired_with_new_jobs(self):
        self.write_profile("'--kill-on-invalid-dep=yes'")
        self.write("w.yaml", f"""
            name: removed
            steps:
              a: {{run: '[ -e {self.folder}/mended ]'}}
              b: {self.step("b", ", needs: [a]")}
              c: {self.step("c", ", needs: [b]")}
        """)
        run = self.submit()
        before = self.ids(run)
        self.wait_for(run, {"a": "failed", "b": "blocked", "c": "blocked"})
        wait_until(lambda: self.gamma.state(before["c"]) == "CANCELLED", 20, "SLURM to remove c")
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run)
        self.wait_for(run, {"c": "succeeded"})
        self.assertEqual(self.trace(), ["b", "c"])
        self.assertEqual(set(before.values()) & set(self.ids(run).values()), set())

    def test_a_second_job_of_an_attempt_comes_back_until_the_first_has_ended(self):
        self.write("w.yaml", f"name: twice\nsteps:\n  a: {{run: '{self.until_told('a')}'}}\n")
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        batch = next((self.folder / "runs" / run / "batches").glob("*.jsonl"))
        copy = self.gamma.sbatch(f"exec {self.folder}/runs/{run}/bin/dlflow job-exec {batch} 0", "--no-requeue", cwd=self.folder)
        child = self.gamma.sbatch(f"echo child >> {self.folder}/trace", f"--dependency=afterok:{copy}")
        wait_until(lambda: self.gamma.jobs(copy)[copy] == ("PENDING", "BeginTime"), 20, "the copy to be requeued")
        self.go()
        self.gamma.wait_for_state(child, "COMPLETED")
        self.assertEqual(self.gamma.state(copy), "COMPLETED")
        self.assertEqual(self.trace(), ["a", "child"])

    def test_a_run_directory_deleted_under_a_chain_is_said_and_its_jobs_are_cancelled(self):
        self.write("w.yaml", f"""
            name: deleted
            steps:
              a: {{run: '{self.until_told("a")}'}}
              b: {self.step("b", ", needs: [a]")}
        """)
        kept = self.submit()
        cancelled = self.submit("--force", "a", "--force", "b")
        jobs = {run: self.ids(run) for run in (kept, cancelled)}
        for run in jobs:
            self.wait_for(run, {"a": "running"})
            shutil.rmtree(self.folder / "runs" / run)
            self.assertIn("is gone", self.dlflow("status", run).stdout)
            self.assertIn("is gone", self.dlflow("resubmit", run, status=2).stderr)
        self.assertIn("2 jobs of it in SLURM cancelled", self.dlflow("cancel", cancelled).stdout)
        self.gamma.wait_for_state(jobs[cancelled]["a"], "CANCELLED")
        self.gamma.wait_for_state(jobs[cancelled]["b"], "CANCELLED")
        self.go()  # what was left alone fails, and what waits for it never runs
        self.gamma.wait_for_state(jobs[kept]["a"], "FAILED")
        wait_until(lambda: self.gamma.jobs(jobs[kept]["b"])[jobs[kept]["b"]] == ("PENDING", "DependencyNeverSatisfied"), 20, "b")
        self.assertEqual(self.trace(), ["a", "a"])

    def test_an_index_deleted_mid_chain_is_made_again_from_another_shell(self):
        self.write("w.yaml", f"""
            name: rebuilt
            steps:
              a: {{run: '{self.until_told("a")}'}}
              b: {self.step("b", ", needs: [a]")}
        """)
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        before = self.status(run)
        shutil.rmtree(self.folder / "state")

        def elsewhere(*arguments):
            return self.gamma.run([STAGED / "bin/dlflow", *arguments], cwd="/", env=self.env).stdout
        self.assertEqual(elsewhere("doctor", "--rebuild", self.folder / "runs").split(), [run])
        self.assertEqual(elsewhere("status", run, "--json"), self.dlflow("status", run, "--json").stdout)
        self.assertEqual(self.status(run), before)
        self.go()
        self.wait_for(run, {"b": "succeeded"})
        self.assertEqual(self.trace(), ["a", "b"])


if __name__ == "__main__":
    cluster.main()
