"""A chain on a real Grid Engine, beyond what tests/contract/batch_system_test.py asks of every batch system."""

import pathlib
import sys

import cluster
from cluster import wait_until

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "slurm"))
from chains import Chain  # noqa: E402


class Chains(Chain):
    profile = "ge"

    def test_arrays_that_differ_wait_for_each_other_as_a_whole(self):
        self.write_steps("differ", f"""
            train: {self.step("train-$DLFLOW_MATRIX_N", ", matrix: {n: [0, 1, 2]}")}
            eval: {self.step("eval-$DLFLOW_MATRIX_N", ", matrix: {n: [2, 0]}, needs: [train]")}
        """)
        run = self.submit()
        self.wait_for(run, {"eval[n=2]": "succeeded", "eval[n=0]": "succeeded"})
        self.assertEqual(sorted(self.trace()[:3]), ["train-0", "train-1", "train-2"])

    def test_exit_statuses_with_a_meaning_for_grid_engine_are_failures(self):
        self.write_steps("odd", f"""
            again: {{run: 'echo x >> {self.folder}/trace; exit 99'}}
            error: {{run: 'exit 100'}}
            killed: {{run: 'kill -9 $$'}}
        """)
        run = self.submit()
        self.wait_for(run, dict.fromkeys(["again", "error", "killed"], "failed"))
        wait_until(lambda: not self.ge.jobs(), 30, "no job to be left")
        self.assertEqual(self.trace(), ["x"])
        exits = {step["name"]: step["exit"] for step in self.status(run)["steps"]}
        self.assertEqual((exits["again"], exits["error"]), (99, 100))

    def test_a_job_killed_without_a_record_is_known_from_accounting(self):
        self.write("w.yaml", "name: killed\nsteps:\n  a: {run: sleep 60}\n  b: {run: 'true', needs: [a]}\n")
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        self.ge.run(["pkill", "-KILL", "-u", "dlflow", "-f", "job-exec"], as_whom="as-root")
        # Its record may show for a minute; so long waits also what waits for it.
        self.wait_for(run, {"a": "failed", "b": "blocked"}, timeout=150)
        self.assertIn("killed by signal 9", self.dlflow("status", run).stdout)

    def test_ranks_get_slots_of_the_parallel_environment(self):
        self.write_steps("ranks", f"""
            wide:
              resources: {{ranks: 2, memory: 2GiB}}
              run: 'echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE with $NSLOTS, $RANK of $WORLD_SIZE on $NODE_RANK >> {self.folder}/ranks'
        """)
        run = self.submit()
        self.wait_for(run, {"wide": "succeeded"})
        self.assertEqual(sorted(self.read("ranks").splitlines()), ["0 of 2 with 2, 0 of 2 on 0", "1 of 2 with 2, 1 of 2 on 0"])

    def test_waiting_jobs_show_the_reason_and_a_missing_qmaster_is_reported(self):
        self.write("w.yaml", "name: waits\nsteps:\n  a: {run: sleep 20}\n  b: {run: 'true', needs: [a]}\n")
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        away = {"SGE_QMASTER_PORT": "6449"}
        out = self.dlflow("status", run, env=away).stdout
        self.assertIn("Grid Engine could not be asked now", out)
        self.assertIn("running", out)
        self.dlflow("run", "w.yaml", "--profile", "ge", env=away, status=3)
        self.dlflow("cancel", run)

    def test_the_cluster_describes_itself_and_is_checked(self):
        tools = self.folder / "bin"  # this machine may have SLURM's tools, too
        tools.mkdir()
        for program in ("sh", "id"):
            (tools / program).symlink_to(f"/usr/bin/{program}")
        text = self.dlflow("profile", "detect", env={"PATH": f"/usr/lib/gridengine:{tools}"}).stdout
        self.assertIn("scheduler: gridengine", text)
        self.assertIn("parallel_environment: mpi", text)
        (self.folder / "detected.yaml").write_text(text)
        self.assertIn("started 2 ranks on ge-n1", self.dlflow("profile", "check", "./detected.yaml", timeout=120).stdout)

    def test_a_request_that_no_queue_has_is_refused_before_submission(self):
        self.write("w.yaml", "name: much\nsteps:\n  a: {run: 'true', resources: {walltime: 2-00:00:00, memory: 4TiB}}\n")
        (self.folder / "q.yaml").write_text("scheduler: gridengine\ngridengine: {queue: all.q}\n")
        refusal = self.dlflow("run", "w.yaml", "--profile", "./q.yaml", status=None)
        self.assertNotEqual(refusal.returncode, 0)
        self.assertIn("all.q", refusal.stderr)
        (self.folder / "q.yaml").write_text("scheduler: gridengine\ngridengine: {queue: all.qq}\n")
        refusal = self.dlflow("run", "w.yaml", "--profile", "./q.yaml", status=None)
        self.assertIn("did you mean 'all.q'?", refusal.stderr)


if __name__ == "__main__":
    cluster.main()
