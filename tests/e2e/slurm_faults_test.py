"""Faults around a chain of SLURM jobs, on the fake tools; docs/contributor/failures.md lists the reactions."""

import json

import support
from slurm_support import INVALID, UNAVAILABLE, ChainCase, fake_slurm


class SlurmFaults(ChainCase):
    def until_told(self, name, then=""):
        """A command that leaves `name` in `trace` and ends once the file `go` is there."""
        return f"run: 'echo {name} >> {self.folder}/trace; until [ -e {self.folder}/go ]; do sleep 0.05; done{then}'"

    def go(self):
        (self.folder / "go").touch()

    def queue(self):
        """The states of all jobs that SLURM was given, by step."""
        return {job["request"]["name"].split(".")[2]: task["state"]
                for job in self.slurm.jobs().values() for task in job["tasks"]}

    # Two clusters, one home directory

    def test_another_cluster_is_not_asked_about_a_run_and_changes_none_of_it(self):
        self.nothing_runs()
        self.workflow(a="run: 'true'", b="run: 'true', needs: [a]")
        run = self.submit()
        before = self.status(run)["steps"]
        self.slurm.set(cluster="elsewhere")
        after = self.status(run)
        self.assertEqual(after["steps"], before)
        self.assertIn("is on the cluster 'alpha', but this is 'elsewhere'", after["problem"])
        for command in ("resubmit", "cancel"):
            _, err = self.dlflow(command, run, status=2)
            self.assertIn("repeat this command there", err)
        self.assertEqual(len(self.slurm.calls("sbatch")), 2)
        self.assertEqual(self.slurm.calls("scancel"), [])

    # Dependencies on results

    def test_a_condition_on_results_is_decided_on_the_node(self):
        self.workflow(
            a="""run: 'echo "{\\"loss\\": 3}" > $DLFLOW_SUMMARY'""",
            high=f"run: 'echo high >> {self.folder}/trace', if: '${{{{ steps.a.metrics.loss > 2 }}}}'",
            low=f"run: 'echo low >> {self.folder}/trace', outputs: {{x: x}}, if: '${{{{ steps.a.metrics.loss < 2 }}}}'",
            after=f"run: 'echo after >> {self.folder}/trace', needs: [low]",
            uses="run: [echo, '${{ steps.low.outputs.x }}']")
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"a": "succeeded", "high": "succeeded", "low": "skipped",
                                            "after": "succeeded", "uses": "skipped"})
        self.assertEqual(sorted(self.trace()), ["after", "high"])
        self.assertEqual(set(self.queue().values()), {"COMPLETED"})

    # Dependencies

    def test_many_parents_are_one_dependency_each_and_too_many_are_refused_before_the_first(self):
        parents = [f"p{n}" for n in range(12)]
        self.workflow(**{name: "run: 'true'" for name in parents}, m=f"run: 'true', matrix: {{n: {list(range(8))}}}",
                      best=f"run: 'echo best >> {self.folder}/trace', needs: [{', '.join(parents)}, m]")
        self.profile("limits: {dependencies: 12}\n")
        run, err = self.refused(INVALID)
        self.assertIn("lets a job wait for 12 others, but step 'best' waits for 13", err)
        self.assertIn("Nothing was submitted", err)
        self.assertIsNone(run)
        self.assertEqual(self.slurm.jobs(), {})
        self.profile("limits: {dependencies: 13}\n")
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run)["best"], "succeeded")
        self.assertEqual(self.trace(), ["best"])

    # Cancelled

    def test_a_cancel_that_does_not_arrive_is_not_recorded(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        self.slurm.fault("scancel", "before", "timeout", 9)
        self.dlflow("cancel", run, status=UNAVAILABLE)
        self.assertEqual(set(self.states(run).values()), {"queued"})

    def test_a_cancel_that_slurm_refuses_is_reported_and_waiting_jobs_still_run_nothing(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        self.slurm.fault("scancel", "before", "Access/permission denied")
        _, err = self.dlflow("cancel", run, status=INVALID)
        self.assertIn("SLURM refuses to cancel 2 of 2 jobs", err)
        self.assertIn("Access/permission denied", err)
        self.assertEqual(set(self.states(run).values()), {"queued"})
        before = self.ids(run)
        self.slurm.mode("background")
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), [])
        self.assertEqual(self.states(run), {"a": "cancelled", "b": "blocked"})
        self.dlflow("run", "--resume", run)
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b"])
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "succeeded"})
        self.assertEqual(self.ids(run)["b"], before["b"])

    def test_a_cancel_during_a_submission_ends_it_and_its_submitted_jobs(self):
        self.nothing_runs()
        self.profile("limits: {submit_interval: 1s}\n")
        self.workflow(**{name: "run: 'true'" for name in "abcdefghij"})
        submission = self.start("run", "w.yaml", "--profile", "alpha")
        self.wait_for(lambda: len(self.slurm.jobs()) > 0, what="the first job")
        run = json.loads(self.dlflow("status", "--quick", "--json")[0])[0]["run"]
        self.dlflow("cancel", run)
        _, err = submission.communicate(timeout=60)
        self.assertEqual(submission.returncode, UNAVAILABLE)
        self.assertIn("stopped by `dlflow cancel`", err)
        submitted = self.slurm.jobs()
        self.assertLess(len(submitted), 10)
        self.assertEqual({task["state"] for job in submitted.values() for task in job["tasks"]}, {"CANCELLED"})
        self.profile()
        self.dlflow("run", "--resume", run)
        self.assertEqual(set(self.states(run).values()), {"queued"})

    def test_a_job_whose_answer_was_lost_is_cancelled(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        self.dlflow("run", "w.yaml", "--profile", "alpha", env={"DLFLOW_CRASH_AT": "accepted:1"}, status=-9)
        run = json.loads(self.dlflow("status", "--quick", "--json")[0])[0]["run"]
        self.dlflow("cancel", run)
        states = [task["state"] for job in self.slurm.jobs().values() for task in job["tasks"]]
        self.assertEqual(set(states), {"CANCELLED"})

    def test_each_job_is_asked_once_to_save_and_killed_when_it_is_asked_again(self):
        def deaf(name):
            return (f"checkpoint: {{}}, run: 'trap \"echo saves >> {self.folder}/trace\" USR1; "
                    f"echo {name} >> {self.folder}/trace; while :; do sleep 0.05; done'")
        self.workflow(a=deaf("a"), b=deaf("b"))
        run = self.submit()
        self.slurm.wait(lambda: set(self.trace()) == {"a", "b"}, what="both to begin")
        for step in ("a", "b"):
            self.assertIn("1 job asked to save", self.dlflow("cancel", run, "--step", step)[0])
        self.slurm.wait(lambda: self.trace().count("saves") == 2, what="both to save")
        self.assertIn("1 job cancelled.", self.dlflow("cancel", run, "--step", "a")[0])
        self.assertIn("CANCELLED", self.queue()["a"])
        self.assertNotIn("CANCELLED", self.queue()["b"])
        self.dlflow("cancel", run, "--step", "b")
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"a": "cancelled", "b": "cancelled"})

    # Two calls at the same time

    def test_a_simultaneous_cancel_and_resubmit_leave_one_of_the_two_results(self):
        for number in range(4):
            self.env["DLFLOW_HOME"] = str(self.folder / f"state{number}")  # no earlier result is known
            run = self.failed_chain()
            calls = [self.start("cancel", run), self.start("resubmit", run)]
            cancel, resubmit = [call.communicate(timeout=60) for call in calls]
            self.assertEqual(calls[0].returncode, 0, cancel)
            if calls[1].returncode != 0:  # the cancel arrived during the submission
                self.assertIn("stopped by `dlflow cancel`", resubmit[1])
            self.slurm.wait_until_idle()
            states = set(self.states(run).values())
            self.assertTrue(states <= {"succeeded", "cancelled", "blocked"}, states)
            self.dlflow("run", "--resume", run)
            self.slurm.wait_until_idle()
            self.assertEqual(self.states(run), dict.fromkeys("abc", "succeeded"))
            self.assertEqual(sorted(set(self.trace())), ["a", "b", "c"])  # stopped jobs ran again
            for file in ("trace", "mended"):
                (self.folder / file).unlink()

    def test_a_record_of_a_job_outweighs_the_answer_of_slurm(self):
        self.nothing_runs()
        self.workflow(a="run: 'true'")
        run = self.submit()
        attempt = self.folder / "runs" / run / "steps/a/attempt-1"
        self.slurm.advance(1)
        self.slurm.end(self.ids(run)["a"], "TIMEOUT")
        squeue = self.write("late/squeue", f"""\
            #!/bin/sh
            mkdir -p {attempt}/outputs
            for state in running succeeded; do
              echo "{{\\"at\\":\\"2026-11-22T08:00:00.000Z\\",\\"state\\":\\"$state\\"}}" >> {attempt}/events.jsonl
            done
            exec {fake_slurm.TOOLS}/squeue "$@"
            """)
        squeue.chmod(0o755)
        self.env["PATH"] = f"{squeue.parent}:{self.env['PATH']}"
        self.assertEqual(self.states(run), {"a": "succeeded"})
        self.assertEqual(self.status(run)["state"], "succeeded")

    # Answers of accounting

    def test_a_job_that_only_accounting_shows_as_running_is_left_until_the_run_goes_on(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        self.slurm.advance(1)
        self.controller_denies_jobs()
        self.slurm.fault("squeue", "output", "empty", "always")
        self.assertEqual(self.states(run), {"a": "queued", "b": "queued"})
        self.assertEqual(self.states(run), {"a": "queued", "b": "queued"})
        self.dlflow("run", "--resume", run)
        self.slurm.clear_faults()
        self.assertEqual(self.steps_in_slurm(), ["a", "a", "b", "b"])

    # Lost jobs

    def test_only_the_tasks_of_an_array_that_the_controller_denies_are_lost(self):
        self.nothing_runs()
        self.slurm.set(accounting="off")
        self.workflow(many="run: 'true', matrix: {n: [0, 1, 2]}", after="run: 'true', needs: [many]")
        run = self.submit()
        array = self.job_ids(run)["many[n=0]"].split("_")[0]
        self.slurm.end(f"{array}_1", "CANCELLED")
        self.slurm.purge()
        self.slurm.fault("squeue", "output", "empty", "always")
        before = len(self.slurm.calls("scontrol"))
        self.assertEqual(self.states(run), {"many[n=0]": "queued", "many[n=1]": "lost", "many[n=2]": "queued",
                                            "after": "blocked"})
        asked = [call["argv"] for call in self.slurm.calls("scontrol")[before:] if "job" in call["argv"]]
        self.assertEqual(len(asked), 2)  # one for the array, one for the job behind it

    def test_a_lost_job_that_reappears_is_believed_and_so_are_its_dependents(self):
        self.workflow(a=self.until_told("a"), b=f"run: 'echo b >> {self.folder}/trace', needs: [a]")
        run = self.submit()
        self.slurm.wait(lambda: self.trace() == ["a"], what="a to begin")
        self.controller_denies_jobs()
        self.queue_and_accounting_say_nothing()
        self.assertEqual(self.states(run), {"a": "lost", "b": "blocked"})
        self.slurm.clear_faults()
        self.assertEqual(self.states(run), {"a": "running", "b": "queued"})
        before = self.status(run)
        self.dlflow("doctor", "--rebuild", self.folder / "runs")
        self.assertEqual(self.status(run), before)
        self.dlflow("resubmit", run)
        self.go()
        self.check_all_ran_once(run, "a", "b")


if __name__ == "__main__":
    support.main()
