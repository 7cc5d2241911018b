"""The test clusters behave like SLURM, in all that the tests of dlflow rely on."""

import unittest

from cluster import Case, STAGED, main, wait_until

HOSTS = STAGED / "bin/hosts"


class Jobs(Case):
    def submit(self, script, *options):
        return self.alpha.sbatch(script, *options, cwd=self.folder)

    def succeeds(self, id):
        self.alpha.wait_for_state(id, "COMPLETED")

    def test_jobs_of_an_ordinary_user_run_on_each_node(self):
        ids = [self.submit("echo $(hostname) $(id -un) $(pwd) > $SLURM_JOB_ID", "-w", self.alpha.node(i)) for i in (1, 2)]
        for number, id in enumerate(ids, 1):
            self.succeeds(id)
            self.assertEqual(self.read(id).split(), [self.alpha.node(number), "dlflow", str(self.folder)])

    def test_the_staged_program_runs_on_a_node(self):
        self.succeeds(self.submit(f"{STAGED}/bin/dlflow --version > version"))
        self.assertRegex(self.read("version"), r"\d+\.\d+\.\d+")

    def test_each_node_has_a_tmp_of_its_own(self):
        self.succeeds(self.submit("touch /tmp/here", "-w", self.alpha.node(1)))
        self.succeeds(self.submit("test ! -e /tmp/here", "-w", self.alpha.node(2)))
        self.succeeds(self.submit("test -e /tmp/here; rm /tmp/here", "-w", self.alpha.node(1)))

    @unittest.skipUnless(HOSTS.exists(), "built without MPI")
    def test_srun_starts_the_ranks_of_one_program_on_two_nodes(self):
        out = self.alpha.run(["srun", "-N2", "-n2", "--mpi=pmix", HOSTS]).stdout
        self.assertEqual(out.splitlines(), [f"rank {rank} of 2 on {self.alpha.node(rank + 1)}" for rank in (0, 1)])

    @unittest.skipUnless(HOSTS.exists(), "built without MPI")
    def test_mpirun_starts_ranks_inside_an_allocation(self):
        self.succeeds(self.submit(f"mpirun {HOSTS} > hosts", "-N2", "-n2"))
        self.assertEqual(set(self.read("hosts").splitlines()),
                         {f"rank {rank} of 2 on {self.alpha.node(rank + 1)}" for rank in (0, 1)})

    def test_a_chain_runs_in_order_and_stops_at_a_failure(self):
        first = self.submit("sleep 0.2; echo first >> trace")
        second = self.submit("echo second >> trace; exit 3", f"--dependency=afterok:{first}")
        third = self.submit("echo third >> trace", f"--dependency=afterok:{second}")
        self.alpha.wait_for_state(second, "FAILED")
        wait_until(lambda: self.alpha.jobs(third)[third] == ("PENDING", "DependencyNeverSatisfied"), 10, "the third job")
        self.assertEqual(self.read("trace").split(), ["first", "second"])

    def test_a_requeued_job_keeps_its_id_and_its_dependents(self):
        first = self.submit("""
            echo pass ${SLURM_RESTART_COUNT:-0} >> trace
            [ -n "$SLURM_RESTART_COUNT" ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }
        """, "--requeue", "--open-mode=append")
        second = self.submit("echo child >> trace", f"--dependency=afterok:{first}")
        self.succeeds(second)
        self.assertEqual(self.alpha.state(first), "COMPLETED")
        self.assertEqual(self.read("trace").splitlines(), ["pass 0", "pass 1", "child"])

    def test_array_tasks_are_jobs_of_one_id(self):
        id = self.submit("echo $SLURM_ARRAY_TASK_ID > task.$SLURM_ARRAY_TASK_ID", "--array=0-3")
        for task in range(4):
            self.succeeds(f"{id}_{task}")
            self.assertEqual(self.read(f"task.{task}"), f"{task}\n")

    def test_accounting_shows_a_job_that_has_ended(self):
        id = self.submit("exit 3")
        self.alpha.wait_for_state(id, "FAILED")
        def record():
            return self.alpha.run(["sacct", "-XnP", "-j", id, "-o", "State,ExitCode"]).stdout.strip()
        wait_until(lambda: record() == "FAILED|3:0", 20, f"sacct to know job {id}")


class Clusters(Case):
    def test_two_clusters_are_independent(self):
        here = self.alpha.sbatch("sleep 60", "--partition=batch")
        there = self.beta.sbatch("sleep 60", "--partition=main")
        self.alpha.wait_for_state(here, "RUNNING")
        self.beta.wait_for_state(there, "RUNNING")
        for cluster, id in (self.alpha, here), (self.beta, there):
            self.assertEqual([id for id, (state, _) in cluster.jobs().items() if state == "RUNNING"], [id])
        refusal = self.beta.run(["sbatch", "--partition=batch", "--wrap=true"], status=1).stderr
        self.assertIn("invalid partition", refusal)


class Faults(Case):
    def test_a_dead_node_ends_its_jobs_or_has_them_run_again(self):
        on_node = ("-n1", "-w", self.alpha.node(2))
        ends = self.alpha.sbatch("sleep 60", "--no-requeue", *on_node)
        again = self.alpha.sbatch("echo pass >> passes; [ -n \"$SLURM_RESTART_COUNT\" ] || sleep 60", "--requeue",
                                  *on_node, cwd=self.folder)
        self.alpha.wait_for_state(ends, "RUNNING")
        wait_until((self.folder / "passes").exists, 20, "the first pass")
        self.addCleanup(self.alpha.start_node, 2)
        self.alpha.kill_node(2)
        self.alpha.wait_for_state(ends, "NODE_FAIL")
        self.alpha.wait_for_state(again, "PENDING")
        self.alpha.start_node(2)
        self.alpha.wait_for_state(again, "COMPLETED")
        self.assertEqual(self.read("passes"), "pass\n" * 2)

    def test_the_queue_is_kept_while_the_controller_is_down(self):
        running = self.alpha.sbatch("while [ ! -e go ]; do sleep 0.1; done", cwd=self.folder)
        waiting = self.alpha.sbatch("true", f"--dependency=afterok:{running}")
        self.alpha.wait_for_state(running, "RUNNING")
        self.addCleanup(self.alpha.start_controller)
        self.alpha.stop_controller()
        self.assertIn("Unable to contact slurm controller", self.alpha.run(["squeue", "--me"], status=1).stderr)
        self.alpha.start_controller()
        self.assertEqual([self.alpha.state(id) for id in (running, waiting)], ["RUNNING", "PENDING"])
        (self.folder / "go").touch()
        self.alpha.wait_for_state(waiting, "COMPLETED")


if __name__ == "__main__":
    main()
