"""Faults under a chain on a real SLURM: in its controller, nodes and time limits, and deletions by users."""

import contextlib
import datetime
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import time

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

    def write_profile(self, options="", more=""):
        self.write("cluster-profiles/gamma.yaml",
                   f"scheduler: slurm\nslurm: {{partition: batch, options: [{options}]}}\npaths: {{runs: runs}}\n{more}")

    def until_told(self, name):
        """A command that writes `name` to `trace` and ends once the file `go` exists."""
        return f"echo {name} >> {self.folder}/trace; until [ -e {self.folder}/go ]; do sleep 0.05; done"

    def two_steps(self):
        """b waits for a, which waits for the file `go`."""
        self.write_steps("two", f"""
            a: {{run: '{self.until_told("a")}'}}
            b: {self.step("b", ", needs: [a]")}
        """)

    def go(self):
        (self.folder / "go").touch()

    def node_of(self, run, step):
        return {step["name"]: step["node"] for step in self.status(run)["steps"]}[step]

    def take_away(self, node, seconds=3):
        """A job that preempts others: it takes all cores of `node`."""
        return self.gamma.sbatch(f"sleep {seconds}", "--partition=urgent", "--exclusive", "-w", node)

    def as_root(self, *argv):
        subprocess.run(argv, check=True, env={**os.environ, "SLURM_CONF": str(self.gamma.conf)}, timeout=60)

    def test_a_job_held_by_an_administrator_or_an_epilog_is_reported_and_cancelled_at_once(self):
        for hold in (["State=SpecialExit"], []):
            self.write_steps("held", f"""
                a: {{run: '{self.until_told("a")}', retry: {{attempts: 2, on: [node-failure]}}}}
            """)
            run = self.submit("--no-cache")
            self.wait_for(run, {"a": "running"})
            id = self.ids(run)["a"]
            self.as_root("scontrol", "requeuehold", *hold, id)
            wait_until(lambda: f"held: scontrol release {id}" in str(self.status(run)), 30, "the hold in status")
            self.assertEqual(self.states(run), {"a": "queued"})
            begin = time.monotonic()
            self.dlflow("cancel", run)
            self.assertLess(time.monotonic() - begin, 15)
            self.wait_for(run, {"a": "cancelled"})
            wait_until(lambda: self.gamma.state(id) in ("CANCELLED", "GONE"), 20, f"{id} to leave the queue")

    def test_a_node_whose_prolog_fails_has_failed_and_its_unstarted_job_never_began(self):
        conf = self.gamma.conf.read_text()
        prolog = self.folder / "prolog.sh"
        prolog.write_text("#!/bin/sh\nexit 1\n")
        prolog.chmod(0o755)

        def configure(text):
            self.gamma.conf.write_text(text)
            self.as_root("scontrol", "reconfigure")

        def repair():
            configure(conf)
            for node, state in self.node_states().items():
                if "drain" in state:
                    self.as_root("scontrol", "update", f"nodename={node}", "state=resume")
        self.addCleanup(repair)
        configure(conf + f"\nProlog={prolog}\n")
        self.write_steps("prolog", f"""
            plain: {{run: 'true'}}
            tries: {{run: 'true', retry: {{attempts: 2, on: [node-failure]}}}}
        """)
        run = self.submit("--no-cache")
        wait_until(lambda: "Prolog error" in str(self.status(run)), 60, "the drained node in status")
        steps = {step["name"]: step for step in self.status(run)["steps"]}
        self.assertIn("held: a node could not start it", steps["tries"]["reason"])
        self.assertIn(f"scontrol release {steps['tries']['backend_id']}", steps["tries"]["reason"])
        self.wait_for(run, {"plain": "lost"})
        self.assertIn("could not start it", {step["name"]: step for step in self.status(run)["steps"]}["plain"]["reason"])

    def node_states(self):
        out = self.gamma.run(["sinfo", "--noheader", "--Node", "--format=%N %T"]).stdout
        return dict(line.split() for line in out.splitlines())

    def test_a_controller_that_restarts_mid_chain_loses_nothing(self):
        self.write_steps("restart", f"""
            a: {{run: '{self.until_told("a")}'}}
            b: {self.step("b-$DLFLOW_MATRIX_N", ", needs: [a], matrix: {n: [0, 1]}")}
            c: {self.step("c", ", needs: [b]")}
        """)
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        before = self.ids(run)
        self.gamma.stop_controller()
        self.go()  # a ends while the controller is down
        wait_until(lambda: '"succeeded"' in self.read(f"runs/{run}/steps/a/attempt-1/events.jsonl"), 20, "the record of a")
        self.gamma.start_controller()
        self.wait_for(run, {"c": "succeeded"})
        self.assertEqual(sorted(self.trace()), ["a", "b-0", "b-1", "c"])
        self.assertEqual(self.ids(run), before)

    def training(self, epochs, settings):
        """A workflow with one training with `settings`, and an export of its result."""
        if not (self.folder / "models").exists():
            self.pictures = ", ".join(f"{{url: 'file://{file}', unpack: gzip}}" for file in pictures.write(self.folder))
            (self.folder / "models").symlink_to(STAGED / "workflows/models")
        self.write_steps("train", f"""
            data: {{uses: stage, with: {{sources: [{self.pictures}]}}}}
            train:
              uses: train
              with: {{model: models/lenet.yaml, data: '${{{{ steps.data.outputs.path }}}}', epochs: {epochs}, lr: 0.05, validation: 200}}
              {settings}
            best: {{uses: checkpoint, with: {{from: '${{{{ steps.train.outputs.checkpoints }}}}', export: safetensors}}}}
        """)

    def start_here(self):
        """Starts the same workflow on the login node, undisturbed."""
        return self.gamma.start([STAGED / "bin/dlflow", "run", "w.yaml", "--json"], cwd=self.folder,
                                env={**self.env, "DLFLOW_HOME": self.folder / "state-here"})

    def wait_here(self, here):
        """Waits until `here` has succeeded; returns its seconds of training."""
        _, err = here.communicate(timeout=600)
        self.assertEqual(here.returncode, 0, err)
        events = next(self.folder.glob("dlflow-runs/*/steps/train/attempt-1/events.jsonl")).read_text().splitlines()
        began, ended = (datetime.datetime.fromisoformat(json.loads(line)["at"]) for line in (events[0], events[-1]))
        return (ended - began).total_seconds()

    def check_same_bits(self):
        """The chain's result has the same bits as the local one."""
        exported = [next(folder.glob("*/steps/best/outputs/*.safetensors")).read_bytes()
                    for folder in (self.folder / "runs", self.folder / "dlflow-runs")]
        self.assertEqual(*exported)

    def test_training_through_time_limits_a_dead_node_and_preemption_gives_the_same_bits(self):
        self.training(12, "checkpoint: {every: 5 steps, keep: 2}\n              retry: {attempts: 3, on: [node-failure, preempted]}")
        here = self.start_here()
        run = self.submit()
        attempt = self.folder / "runs" / run / "steps/train/attempt-1"

        def node_of_pass(number):
            """Returns its node, once it has trained in that pass."""
            wait_until(lambda: (attempt / f"claim-{number}").is_symlink(), 90, f"pass {number}")
            self.wait_for(run, {"train": "running"})
            metrics = attempt / "metrics.jsonl"
            size = metrics.stat().st_size if metrics.exists() else 0
            wait_until(lambda: metrics.exists() and metrics.stat().st_size > size, 60, "training to go on")
            return self.node_of(run, "train")

        id = self.ids(run)["train"]
        for number in (1, 2, 3):
            node_of_pass(number)
            self.gamma.run(["scancel", "--batch", "--signal=USR1", id])  # as SLURM does a minute before the time limit
        node = node_of_pass(4)
        self.addCleanup(self.gamma.start_node, int(node[-1]))
        self.gamma.kill_node(int(node[-1]))
        other = node_of_pass(5)
        self.assertNotEqual(other, node)
        self.gamma.start_node(int(node[-1]))
        self.take_away(other)
        self.wait_for(run, {"best": "succeeded"}, timeout=240)
        self.assertTrue((attempt / "claim-6").is_symlink())
        self.assertEqual(self.ids(run)["train"], id)
        self.wait_here(here)
        self.check_same_bits()

    def test_one_of_two_nodes_that_fails_and_returns_at_once_changes_no_bit_under_any_launcher(self):
        self.training(12, "checkpoint: {every: 100 steps, keep: 2}\n              resources: {nodes: 2, ranks_per_node: 1}\n"
                          "              retry: {attempts: 3, on: [node-failure]}")
        self.wait_here(self.start_here())
        for launcher, has_saved in ("srun, arguments: [--mpi=pmix]", False), ("srun, arguments: [--mpi=pmix]", True), ("mpirun", False):
            with self.subTest(launcher=launcher, has_saved=has_saved):
                self.write_profile(more=f"exclude_nodes: 0\nlauncher: {{program: {launcher}}}\n")
                run = self.submit("--no-cache")
                train = self.folder / "runs" / run / "steps/train"
                sign = "checkpoints/step-*" if has_saved else "attempt-1/metrics.jsonl"
                wait_until(lambda: any(file.stat().st_size for file in train.glob(sign)), 90, sign)
                self.gamma.kill_node(2, "silent")
                time.sleep(4)
                with contextlib.suppress(subprocess.CalledProcessError):  # SLURM may clean up after the job for more than a minute
                    self.gamma.start_node(2)
                self.wait_for(run, {"best": "succeeded"}, timeout=240)
                self.assertTrue((train / "attempt-1/claim-2").is_symlink())
                self.check_same_bits()
                shutil.rmtree(self.folder / "runs")

    def test_training_with_a_third_of_its_needed_walltime_ends_with_the_same_bits(self):
        self.training(15, "checkpoint: {every: 1 epoch}")
        seconds = self.wait_here(self.start_here())
        self.training(15, f"checkpoint: {{every: 1 epoch}}\n              resources: {{walltime: {math.ceil(seconds / 3)}s}}")
        run = self.submit()
        before = self.ids(run)
        self.wait_for(run, {"best": "succeeded"}, timeout=600)
        self.assertEqual(self.ids(run), before)
        # Three passes, or two if the machine was busier when the walltime was measured.
        self.assertTrue((self.folder / "runs" / run / "steps/train/attempt-1/claim-2").is_symlink())
        self.check_same_bits()

    def test_a_preempted_job_is_tried_again_according_to_retry(self):
        self.write_steps("preempted", f"""
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
        self.assertIn("preempted", reasons["never"])
        self.assertIn("preempted", reasons["once"])

    def test_jobs_that_a_site_removes_because_they_can_never_start_are_replaced(self):
        self.write_profile("'--kill-on-invalid-dep=yes'")
        self.write_steps("removed", f"""
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

    def test_a_second_job_of_an_attempt_requeues_itself_until_the_first_has_ended(self):
        self.write("w.yaml", f"name: twice\nsteps:\n  a: {{run: '{self.until_told('a')}'}}\n")
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        batch = next((self.folder / "runs" / run / "batches").glob("*.jsonl"))
        copy = self.gamma.sbatch(f"exec {self.folder}/runs/{run}/bin/dlflow job-exec {batch} 1 0", "--no-requeue", cwd=self.folder)
        child = self.gamma.sbatch(f"echo child >> {self.folder}/trace", f"--dependency=afterok:{copy}")
        wait_until(lambda: self.gamma.jobs(copy)[copy] == ("PENDING", "BeginTime"), 20, "the copy to be requeued")
        self.go()
        self.gamma.wait_for_state(child, "COMPLETED")
        self.assertEqual(self.gamma.state(copy), "COMPLETED")
        self.assertEqual(self.trace(), ["a", "child"])

    def test_an_attempt_that_scancel_ended_never_runs_beside_or_after_its_successor(self):
        self.write("w.yaml", f"name: requeued\nsteps:\n  a: {{run: '{self.until_told('$SLURM_JOB_ID')}', retry: {{attempts: 2}}}}\n")
        run = self.submit()
        wait_until(self.trace, 30, "a to begin")
        old = self.ids(run)["a"]
        self.gamma.run(["scancel", old])
        self.wait_for(run, {"a": "cancelled"})
        self.dlflow("run", "--resume", run)
        new = self.ids(run)["a"]
        wait_until(lambda: len(self.trace()) == 2, 90, "its successor to begin")
        self.gamma.run(["scontrol", "requeue", old])
        self.gamma.wait_for_state(old, "COMPLETED", "FAILED", "CANCELLED", timeout=90)
        self.go()
        self.wait_for(run, {"a": "succeeded"})
        self.gamma.run(["scontrol", "requeue", old])
        self.gamma.wait_for_state(old, "COMPLETED", "FAILED", "CANCELLED", timeout=90)
        self.assertEqual(self.trace(), [old, new])

    def test_a_run_directory_deleted_under_a_chain_is_reported_and_its_jobs_are_cancelled(self):
        self.two_steps()
        kept = self.submit()
        cancelled = self.submit("--force", "a", "--force", "b")
        jobs = {run: self.ids(run) for run in (kept, cancelled)}
        for run in jobs:
            self.wait_for(run, {"a": "running"})
            shutil.rmtree(self.folder / "runs" / run)
            self.assertIn("is gone", " ".join(self.dlflow("status", run).stdout.split()))
            self.assertIn("is gone", self.dlflow("resubmit", run, status=2).stderr)
        self.assertIn("2 jobs of the run cancelled in the queue", self.dlflow("cancel", cancelled).stdout)
        self.gamma.wait_for_state(jobs[cancelled]["a"], "CANCELLED")
        self.gamma.wait_for_state(jobs[cancelled]["b"], "CANCELLED")
        self.go()  # the job that was not cancelled fails, and its dependent never runs
        self.gamma.wait_for_state(jobs[kept]["a"], "FAILED")
        wait_until(lambda: self.gamma.jobs(jobs[kept]["b"])[jobs[kept]["b"]] == ("PENDING", "DependencyNeverSatisfied"), 20, "b")
        self.assertEqual(self.trace(), ["a", "a"])

    def test_an_index_deleted_mid_chain_is_rebuilt_from_another_shell(self):
        self.two_steps()
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
