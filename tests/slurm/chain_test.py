"""A chain on a real SLURM, beyond what tests/contract/batch_system_test.py asks of every batch system."""

import json
import pathlib
import re
import sys

import cluster
from chains import Chain
from cluster import STAGED, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import pictures  # noqa: E402


class Chains(Chain):
    def test_arrays_behind_a_failed_job_are_repaired_in_place(self):
        sweep = "matrix: {n: [0, 1, 2, 3]}"
        self.write_steps("arrays", f"""
            data: {{run: '[ -e {self.folder}/mended ]'}}
            many: {{{sweep}, needs: [data], run: 'echo m >> {self.folder}/trace'}}
            each: {{{sweep}, needs: [many], run: 'echo e >> {self.folder}/trace'}}
        """)
        run = self.submit()
        self.wait_for(run, {"data": "failed", "many[n=3]": "blocked", "each[n=3]": "blocked"})
        before = self.ids(run)
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run)
        self.wait_for(run, {job: "succeeded" for job in before}, timeout=90)
        after = self.ids(run)
        self.assertEqual({job for job in before if before[job] != after[job]}, {"data"})
        self.assertEqual(sorted(self.trace()), ["e"] * 4 + ["m"] * 4)

    def test_a_chain_deeper_than_slurms_search_for_cycles_is_repaired(self):
        """max_depend_depth is 10: SLURM neither refuses deeper chains nor finds their cycles."""
        names = [f"s{number}" for number in range(12)]
        steps = [f"  {name}: " + self.step(name, f", needs: [{before}]") for before, name in zip(names, names[1:])]
        self.write("w.yaml", "name: deep\nsteps:\n" + f"  s0: {{run: '[ -e {self.folder}/mended ]'}}\n" + "\n".join(steps) + "\n")
        run = self.submit()
        self.wait_for(run, {"s0": "failed", "s11": "blocked"})
        before = self.ids(run)
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run)
        self.wait_for(run, {"s11": "succeeded"}, timeout=90)
        self.assertEqual(self.trace(), names[1:])
        self.assertEqual({name: id for name, id in self.ids(run).items() if name != "s0"},
                         {name: id for name, id in before.items() if name != "s0"})

    def test_a_child_never_runs_on_a_failed_parent_whatever_slurm_reports(self):
        self.write_steps("guard", f"""
            a: {{run: exit 3}}
            b: {self.step("b", ", needs: [a]")}
        """)
        run = self.submit()
        self.wait_for(run, {"a": "failed"})
        id = self.ids(run)["b"]
        self.alpha.run(["scontrol", "update", f"jobid={id}", "dependency="])  # as if the parent had been purged
        self.alpha.wait_for_state(id, "FAILED")
        self.assertEqual(self.trace(), [])
        self.assertEqual(self.states(run)["b"], "blocked")

    def test_a_try_after_running_out_of_memory_has_twice_the_memory(self):
        self.write_steps("memory", f"""
            greedy:
              run: 'echo $SLURM_MEM_PER_NODE >> {self.folder}/trace; [ $SLURM_MEM_PER_NODE -ge 300 ] || kill -9 $$'
              matrix: {{n: [0, 1]}}
              resources: {{memory: 150MiB}}
              retry: {{attempts: 3, on: [out-of-memory]}}
            after: {{run: 'true', needs: [greedy]}}
        """)
        run = self.submit()
        before = self.ids(run)
        self.wait_for(run, {"after": "succeeded"}, timeout=60)
        self.assertEqual(sorted(self.trace()), ["150", "150", "300", "300"])
        self.assertEqual(self.ids(run), before)

    def test_a_job_with_too_little_is_submitted_with_more_and_usage_is_shown(self):
        self.write_steps("short", f"""
            busy:
              run: 'timeout 6 sh -c "while :; do :; done" || true; echo busy >> {self.folder}/trace'
              resources: {{walltime: 2s, memory: 200MiB}}
            after: {self.step("after", ", needs: [busy]")}
        """)
        run = self.submit()
        self.wait_for(run, {"busy": "timed-out", "after": "blocked"})
        before = self.ids(run)
        self.assertIn(f"dlflow resubmit {run} --set walltime=1m", self.dlflow("status", run).stdout)
        self.dlflow("resubmit", run, "--set", "walltime=40s")
        self.wait_for(run, {"after": "succeeded"})
        self.assertEqual((self.trace(), self.ids(run)["after"]), (["busy", "after"], before["after"]))

        def accounted():  # records appear some seconds late
            status = json.loads(self.dlflow("status", run, "--long", "--json").stdout)
            used = status["steps"][0]["used"]
            return used["memory_bytes"] and used["cpu_s"] and used["elapsed_s"] and used
        used = wait_until(accounted, 20, "sacct to know what was used")
        self.assertAlmostEqual(used["cpu_efficiency"], used["cpu_s"] / used["elapsed_s"])  # on one core
        self.assertLess(used["memory_efficiency"], 1)
        self.assertLessEqual(max(map(len, self.dlflow("status", run, "--long").stdout.splitlines())), 80)

    def test_a_missing_controller_is_reported_and_nothing_is_lost(self):
        self.write("w.yaml", f"name: away\nsteps:\n  a: {{run: sleep 8}}\n  b: {self.step('b', ', needs: [a]')}\n")
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        self.write("slurm.conf", self.alpha.conf.read_text().replace("MessageTimeout=5", "MessageTimeout=2"))  # each client tries for so long
        away = {"SLURM_CONF": self.folder / "slurm.conf"}
        self.alpha.stop_controller()
        try:
            out = self.dlflow("status", run, timeout=120, env=away).stdout
            self.assertIn("SLURM could not be asked now", out)
            self.assertIn("running", out)
            self.dlflow("run", "w.yaml", "--profile", "alpha", status=3, timeout=120, env=away)
        finally:
            self.alpha.start_controller()
        self.wait_for(run, {"b": "succeeded"})

    def test_two_simultaneous_calls_submit_each_job_once(self):
        self.counting(10, "checkpoint: {}")
        self.dlflow("run", "w.yaml", "--profile", "alpha", env={"DLFLOW_CRASH_AT": "intents:1"}, status=-9)
        run = json.loads(self.dlflow("status", "--quick", "--json").stdout)[0]["run"]
        self.assertEqual(set(self.states(run).values()), {"submitting"})  # so that each call must do everything
        calls = [self.alpha.start([STAGED / "bin/dlflow", "run", "--resume", run], cwd=self.folder, env=self.env)
                 for _ in range(3)]
        for call in calls:
            call.communicate(timeout=60)
        self.wait_for(run, {"after": "succeeded"})
        self.assertEqual(self.trace(), [str(n) for n in range(1, 11)] + ["after"])
        jobs = self.alpha.run(["squeue", "--me", "--noheader", "--states=all", "--format=%j"]).stdout.split()
        self.assertEqual(sorted(name.split(".")[2] for name in jobs if name.startswith(run)), ["after", "count"])

    def trained(self, profile, on):
        """The weights of each training of small.yaml, run to its end on a cluster."""
        self.dlflow("run", "small.yaml", "--profile", profile, "--force", "train", "--set", "epochs=2", on=on)
        run = json.loads(self.dlflow("status", "--quick", "--json").stdout)[0]["run"]

        def ended():
            status = json.loads(self.dlflow("status", run, "--json", on=on).stdout)
            return status["state"] != "running" and status
        status = wait_until(ended, 600, f"{run} on {profile} to end")
        self.assertEqual(status["state"], "succeeded", self.dlflow("status", run, on=on).stdout)
        steps = [step for step in status["steps"] if step["name"] == "train"]
        return [(pathlib.Path(step["outputs"]["model"]) / "model.safetensors").read_bytes() for step in steps]

    def test_the_same_workflow_trains_the_same_weights_on_two_nodes_by_srun_and_on_one_by_mpirun(self):
        pictures.write(self.folder, 840)  # with the names of the data set's files
        (self.folder / "models").symlink_to(STAGED / "workflows/models")
        text = (STAGED / "workflows/fashion-mnist.yaml").read_text().replace("/usr/share/datasets/fashion-mnist", str(self.folder))
        self.write("small.yaml", re.sub(" *sha256:.*\n", "", text).replace("[mlp, lenet]", "[mlp, lenet, resnet20]"))
        on_two_nodes = self.trained("alpha", self.alpha)
        self.assertEqual(len(on_two_nodes), 3)
        self.assertEqual(self.trained("beta", self.beta), on_two_nodes)

    def test_a_dead_node_leads_to_another_try_on_another_node(self):
        self.counting(80, "checkpoint: {every: 5 steps}\n              retry: {attempts: 3, on: [node-failure]}")
        run = self.submit()
        wait_until(lambda: len(self.trace()) > 3, 20, "the step to count")
        node = {step["name"]: step["node"] for step in self.status(run)["steps"]}["count"]
        number = int(node[-1])
        self.addCleanup(self.alpha.start_node, number)
        self.alpha.kill_node(number)
        (self.folder / "trace").unlink()
        self.wait_for(run, {"after": "succeeded"}, timeout=120)
        status = {step["name"]: step for step in self.status(run)["steps"]}
        self.assertNotEqual(status["count"]["node"], node)
        self.assertEqual(self.trace()[-2:], ["80", "after"])


if __name__ == "__main__":
    cluster.main()
