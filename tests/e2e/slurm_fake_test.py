"""A chain of SLURM jobs on a cluster that misbehaves on request; tests/slurm/chain_test.py has a real one."""

import json

import support
from slurm_support import INVALID, UNAVAILABLE, ChainCase


class ChainTest(ChainCase):
    # What sbatch says

    def test_an_accepted_job_whose_answer_was_lost_is_adopted(self):
        self.chain_of("a", "b", "c")
        self.slurm.fault("sbatch", "after", "timeout", 2)
        self.check_all_ran_once(self.submit(), "a", "b", "c")

    def test_a_job_that_never_arrived_is_an_error_and_resume_submits_it(self):
        self.chain_of("a", "b")
        self.slurm.fault("sbatch", "before", "timeout")
        run, err = self.refused(UNAVAILABLE)
        self.assertIn("Socket timed out", err)
        self.assertIn(f"run --resume {run}", err)
        self.assertEqual(self.steps_in_slurm(), [])
        self.dlflow("run", "--resume", run)
        self.check_all_ran_once(run, "a", "b")

    def test_a_job_that_shows_late_is_found(self):
        self.chain_of("a", "b")
        self.slurm.fault("sbatch", "late:3calls", "timeout")
        self.check_all_ran_once(self.submit(), "a", "b")

    def test_a_job_that_shows_after_we_gave_up_is_adopted_by_resume(self):
        self.chain_of("a", "b")
        run = self.give_up_on_a_late_job()
        self.wait_for_the_late_job(["a"])
        self.dlflow("run", "--resume", run)
        self.check_all_ran_once(run, "a", "b")

    def test_a_job_that_shows_after_it_was_submitted_again_runs_nothing(self):
        self.chain_of("a", "b")
        run = self.give_up_on_a_late_job()
        self.dlflow("run", "--resume", run)
        self.slurm.wait_until_idle()
        self.wait_for_the_late_job(["a", "a", "b"])
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b"])
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "succeeded"})

    def test_banners_around_the_id_do_no_harm(self):
        self.chain_of("a", "b", "c")
        for effect in ("banner", "banner-after", "banner-stderr"):
            self.slurm.fault("sbatch", "output", effect)
        run = self.submit()
        self.assertEqual(self.ids(run), {"a": "1", "b": "2", "c": "3"})
        self.check_all_ran_once(run, "a", "b", "c")

    def test_a_garbled_answer_is_not_taken_for_an_id(self):
        for effect in ("empty", "garbage"):
            with self.subTest(effect=effect):
                (self.folder / "trace").unlink(missing_ok=True)
                before = len(self.slurm.jobs())
                self.workflow(a=f"run: 'echo {effect} >> {self.folder}/trace'")
                self.slurm.fault("sbatch", "output", effect)
                run = self.submit()
                self.slurm.wait_until_idle()
                self.assertEqual((len(self.slurm.jobs()) - before, self.trace()), (1, [effect]))
                self.assertEqual(self.states(run), {"a": "succeeded"})

    def test_a_limit_on_submitted_jobs_is_told_and_nothing_is_lost(self):
        self.nothing_runs()
        self.chain_of("a", "b", "c")
        self.slurm.set(max_submit=2)
        run, err = self.refused(UNAVAILABLE)
        self.assertIn("sbatch refuses step 'c'", err)
        self.assertIn("QOS", err)
        self.assertIn("2 of 3 jobs are submitted", err)
        self.assertIn(f"run --resume {run}", err)
        self.assertEqual(self.steps_in_slurm(), ["a", "b"])
        self.slurm.set(max_submit=100)
        self.dlflow("run", "--resume", run)
        self.assertEqual(self.steps_in_slurm(), ["a", "b", "c"])

    def test_a_refusal_for_good_is_told_in_the_words_of_sbatch(self):
        self.chain_of("a", "b")
        self.slurm.set(accounts="physics")
        self.write("cluster-profiles/alpha.yaml",
                   "scheduler: slurm\nslurm: {partition: batch, account: chemistry}\npaths: {runs: runs}\n")
        _, err = self.refused(INVALID)
        self.assertIn("Invalid account", err)
        self.assertEqual(len(self.slurm.calls("sbatch")), 1)
        self.assertEqual(self.slurm.jobs(), {})

    def test_a_walltime_above_the_limit_is_refused_before_the_first_sbatch(self):
        self.profile("limits: {walltime: 1h}\n")
        self.workflow(a="run: 'true'", b="run: 'true', needs: [a], resources: {walltime: 2h}")
        run, err = self.refused(INVALID)
        self.assertIn("alpha.yaml allows 1 h per job, step 'b' asks for 2 h", err)
        self.assertIn("Nothing was submitted", err)
        self.assertIsNone(run)
        self.assertEqual(self.slurm.calls("sbatch"), [])

    def test_a_matrix_larger_than_an_array_may_be_is_split(self):
        self.nothing_runs()
        self.slurm.set(max_array_size=1001)
        self.workflow(many=f"run: 'true', matrix: {{n: {list(range(2500))}}}")
        run = self.submit()
        self.assertEqual(len(self.slurm.calls("sbatch")), 3)
        self.assertEqual(sum(len(job["tasks"]) for job in self.slurm.jobs().values()), 2500)
        self.assertEqual(set(self.states(run).values()), {"queued"})

    # Going on

    def test_resume_frees_what_waits_for_a_job_that_only_slurm_takes_for_failed(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        ids = self.ids(run)
        batch = next((self.folder / "runs" / run / "batches").glob("*.a.*.jsonl"))
        self.dlflow("job-exec", batch, "0", env={"SLURM_JOB_ID": ids["a"]})
        self.slurm.end(ids["a"], "FAILED")  # its node died after the record was written, say
        self.slurm.advance(1)
        self.assertEqual(self.slurm.task(ids["b"])["reason"], "DependencyNeverSatisfied")
        self.slurm.mode("run background")
        self.dlflow("run", "--resume", run)
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b"])
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "succeeded"})

    def test_a_failed_chain_is_repaired_in_place(self):
        run = self.failed_chain()
        before = self.ids(run)
        self.dlflow("resubmit", run)
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b", "c"])
        self.assertEqual(self.states(run), dict.fromkeys("abc", "succeeded"))
        self.assertEqual([job for job, id in self.ids(run).items() if id != before[job]], ["a"])

    def test_a_repair_goes_on_if_slurm_has_dropped_what_waits(self):
        run = self.failed_chain()
        self.slurm.fault("scontrol", "before", "Invalid job id specified")  # b
        self.dlflow("resubmit", run)
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b", "c"])
        self.assertEqual(self.states(run), dict.fromkeys("abc", "succeeded"))

    # What squeue and sacct say

    def test_without_squeue_status_tells_what_was_known(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        before = self.states(run)
        self.slurm.end(self.ids(run)["a"], "CANCELLED")
        self.slurm.fault("squeue", "before", "connect", "always")
        out, _ = self.dlflow("status", run)
        self.assertIn("SLURM could not be asked now", out)
        self.assertEqual(self.states(run), before)
        self.slurm.clear_faults()
        self.assertEqual(self.states(run), {"a": "cancelled", "b": "blocked"})

    def test_without_accounting_a_run_is_told_all_the_same(self):
        self.slurm.set(accounting="off")
        self.chain_of("a", "b")
        self.check_all_ran_once(self.submit(), "a", "b")

    def test_without_accounting_what_slurm_has_forgotten_is_lost(self):
        self.slurm.set(accounting="off")
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        self.slurm.end(self.ids(run)["a"], "CANCELLED")
        self.slurm.purge()
        self.assertEqual(self.states(run), {"a": "lost", "b": "blocked"})

    def test_an_accounting_that_is_away_loses_nothing(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        self.slurm.end(self.ids(run)["a"], "CANCELLED")
        self.slurm.purge()
        self.slurm.fault("sacct", "before", "connect")
        self.assertEqual(self.states(run)["a"], "queued")
        self.assertEqual(self.states(run), {"a": "cancelled", "b": "blocked"})

    def test_what_the_controller_has_forgotten_is_still_told(self):
        self.workflow(a="run: 'true'", b="run: exit 3, needs: [a]", c="run: 'true', needs: [b]")
        run = self.submit()
        self.slurm.wait_until_idle()
        self.slurm.purge()
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "failed", "c": "blocked"})
        self.assertEqual(self.status(run)["state"], "failed")

    def test_a_status_asks_squeue_once_and_sacct_at_most_once(self):
        self.nothing_runs()
        self.workflow(train=f"run: 'true', matrix: {{n: {list(range(100))}}}",
                      eval=f"run: 'true', matrix: {{n: {list(range(100))}}}, needs: [train]",
                      best="run: 'true', needs: [eval]")
        run = self.submit()
        array = self.ids(run)["train"].split("_")[0]
        for task in (3, 50, 99):
            self.slurm.end(f"{array}_{task}", "CANCELLED")
        for _ in range(2):
            before = len(self.slurm.calls())
            states = self.states(run)
            asked = [call["command"] for call in self.slurm.calls()[before:]]
            self.assertEqual(asked.count("squeue"), 1)
            self.assertLessEqual(asked.count("sacct"), 1)
            self.assertLessEqual(len(asked), 2)
            self.assertEqual(states["train[n=50]"], "cancelled")
            self.assertEqual(states["eval[n=50]"], "blocked")
            self.assertEqual(states["eval[n=51]"], "queued")


if __name__ == "__main__":
    support.main()
