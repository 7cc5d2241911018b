"""A chain of SLURM jobs on a fake cluster that misbehaves on request; tests/slurm/chain_test.py uses a real one."""

import json
import os
import pathlib
import time

import support
from slurm_support import INVALID, UNAVAILABLE, ChainCase


class ChainTest(ChainCase):
    # Environment of programs

    def test_setup_lines_find_the_functions_that_the_shell_exports(self):
        self.profile("setup: [module load cuda]\n")
        self.workflow(show="run: 'echo $COMPILER > o', outputs: {o: o}")
        run = self.submit(env={"BASH_FUNC_module%%": '() { [ "$*" = "load cuda" ] && export COMPILER=nvcc; }'})
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"show": "succeeded"}, self.status(run))
        self.assertEqual((self.folder / "runs" / run / "steps/show/outputs/o").read_text(), "nvcc\n")

    def test_jobs_have_the_variables_of_the_calling_shell_and_are_reused_by_them(self):
        self.profile("inherit: [WANDB_MODE, 'HF_*', 'WANDB_API_KEY']\n")
        self.workflow(show="run: 'echo $WANDB_MODE $HF_HUB_OFFLINE $SCRATCH $HF_HOME $VIRTUAL_ENV $WANDB_API_KEY > o', outputs: {o: o}",
                      mods="run: 'echo $LOADEDMODULES > o', outputs: {o: o}, reuse: {environment: [LOADEDMODULES]}")
        shell = {"WANDB_MODE": "offline", "HF_HOME": "/scratch/hf", "HF_HUB_OFFLINE": "1", "SCRATCH": "/scratch/me",
                 "VIRTUAL_ENV": "/venv", "LOADEDMODULES": "gcc/12", "WANDB_API_KEY": "not-to-be-told"}
        run = self.submit(env=shell)
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"show": "succeeded", "mods": "succeeded"})
        left = lambda step: (self.folder / "runs" / run / f"steps/{step}/outputs/o").read_text()
        self.assertEqual(left("show"), "offline 1 /scratch/me /scratch/hf /venv not-to-be-told\n")
        self.assertEqual(left("mods"), "gcc/12\n")
        self.assertEqual(self.states(self.submit(env=shell)), {"show": "cached", "mods": "cached"})
        self.assertIn("All jobs are done, so nothing was submitted: dlflow results w-", self.dlflow("run", "w.yaml", "--profile", "alpha", env=shell)[0])
        other = self.submit(env={**shell, "WANDB_MODE": "online", "LOADEDMODULES": "gcc/13"})
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(other), {"show": "succeeded", "mods": "succeeded"})

    # Kills during submission

    def test_six_submissions_submit_each_job_once_after_a_kill_at_any_point(self):
        """Three arms of two steps: some wait for each other, some are in sbatch together."""
        self.nothing_runs()
        names = [f"{arm}{n}" for arm in "abc" for n in range(2)]
        self.workflow(**{name: "run: 'true'" + (f", needs: [{name[0]}{int(name[1]) - 1}]" if name[1] != "0" else "")
                         for name in names})
        points = ["batches:1", "intents:1"] + [f"{point}:{n + 1}" for point in ("submit", "accepted", "recorded")
                                              for n in range(len(names))]
        known = set()
        for point in points:
            with self.subTest(point=point):
                self.dlflow("run", "w.yaml", "--profile", "alpha", env={"DLFLOW_CRASH_AT": point},
                            status=-9)
                run = json.loads(self.dlflow("status", "--quick", "--json")[0])[0]["run"]
                self.dlflow("run", "--resume", run)
                jobs = {id: job for id, job in self.slurm.jobs().items() if id not in known}
                self.assertEqual(sorted(job["request"]["name"].split(".")[2] for job in jobs.values()), names)
                self.assertEqual({int(id) for id in self.ids(run).values()}, set(jobs))
                self.assertEqual(set(self.states(run).values()), {"queued"})
                known |= set(jobs)

    # Answers of sbatch

    def test_a_job_that_appears_late_is_found(self):
        self.chain_of("a", "b")
        self.slurm.fault("sbatch", "late:3", "timeout")
        self.check_all_ran_once(self.submit(), "a", "b")

    def test_a_job_that_appears_after_its_resubmission_runs_nothing(self):
        self.chain_of("a", "b")
        run = self.give_up_on_a_late_job()
        self.dlflow("run", "--resume", run)
        self.slurm.wait_until_idle()
        self.wait_for_the_late_job(["a", "a", "b"])
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b"])
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "succeeded"})

    def test_a_permanent_refusal_is_reported_in_the_words_of_sbatch(self):
        self.chain_of("a", "b")
        self.slurm.set(accounts="physics")
        self.write("cluster-profiles/alpha.yaml",
                   "scheduler: slurm\nslurm: {partition: batch, account: chemistry}\npaths: {runs: runs}\n")
        _, err = self.refused(INVALID)
        self.assertIn("Invalid account", err)
        self.assertEqual(len(self.slurm.calls("sbatch")), 1)
        self.assertEqual(self.slurm.jobs(), {})

    def test_a_site_that_demands_a_second_between_two_sbatch_gets_it(self):
        self.nothing_runs()
        self.profile("limits: {submit_interval: 1s}\n")
        self.workflow(a="run: 'true'", b="run: 'true'", sweep="run: 'true', matrix: {n: [0, 1, 2, 3]}")
        began = time.monotonic()
        self.submit()
        self.assertGreaterEqual(time.monotonic() - began, 2)
        self.assertEqual(len(self.slurm.calls("sbatch")), 3)

    def test_no_run_is_made_if_no_cluster_answers(self):
        self.workflow(a="run: 'true'")
        scontrol = self.write("bin/scontrol", "#!/bin/sh\necho 'scontrol: fatal: Could not establish a configuration source' >&2; exit 1\n")
        scontrol.chmod(0o755)
        self.env["PATH"] = f"{scontrol.parent}:{self.env['PATH']}"
        run, err = self.refused(UNAVAILABLE)
        self.assertIn("scontrol failed: Could not establish a configuration source; run dlflow where SLURM's tools work", err)
        self.assertIsNone(run)
        self.assertFalse((self.folder / "runs").exists())

    def test_a_matrix_larger_than_the_array_limit_is_split(self):
        self.nothing_runs()
        self.slurm.set(max_array_size=11)
        self.workflow(many=f"run: 'true', matrix: {{n: {list(range(25))}}}")
        run = self.submit()
        self.assertEqual(len(self.slurm.calls("sbatch")), 3)
        self.assertEqual(sum(len(job["tasks"]) for job in self.slurm.jobs().values()), 25)
        self.assertEqual(set(self.states(run).values()), {"queued"})

    # More jobs than may be submitted at a time

    def test_jobs_above_the_profiles_limit_wait_for_a_later_call(self):
        self.nothing_runs()
        self.profile("limits: {jobs: 3}\n")
        self.workflow(many="run: 'true', matrix: {n: [0, 1, 2, 3, 4]}", after="run: 'true', needs: [many]")
        out, _ = self.dlflow("run", "w.yaml", "--profile", "alpha", status=UNAVAILABLE)
        run = json.loads(self.dlflow("status", "--quick", "--json")[0])[0]["run"]
        self.assertIn("3 jobs not submitted yet: alpha allows 3 at a time", out)
        self.assertIn(f"run --resume {run}", out)
        first = {f"many[n={n}]": "queued" for n in (0, 1, 2)}
        self.assertEqual(self.states(run), {**first, "many[n=3]": "planned", "many[n=4]": "planned", "after": "planned"})
        self.assertIn("not submitted yet", self.dlflow("status", run)[0])

        self.dlflow("run", "--resume", run, status=UNAVAILABLE)  # the limit is still reached
        self.assertEqual(len(self.slurm.calls("sbatch")), 1)

        self.slurm.mode("background")
        self.slurm.wait_until_idle()
        self.nothing_runs()
        self.dlflow("run", "--resume", run)
        self.assertEqual(self.states(run), {**dict.fromkeys(first, "succeeded"), "many[n=3]": "queued",
                                            "many[n=4]": "queued", "after": "queued"})
        self.slurm.mode("background")
        self.slurm.wait_until_idle()
        self.assertEqual(set(self.states(run).values()), {"succeeded"})
        self.assertEqual(self.status(run)["state"], "succeeded")

    def test_the_jobs_of_other_runs_count_for_the_limit(self):
        self.nothing_runs()
        self.profile("limits: {jobs: 3}\n")
        self.workflow(a="run: 'true'", b="run: 'true'")
        self.submit()
        self.dlflow("run", "w.yaml", "--profile", "alpha", status=UNAVAILABLE)
        self.assertEqual(self.steps_in_slurm(), ["a", "a", "b"])

    def test_an_array_above_a_limit_that_only_slurm_has_is_submitted_in_part(self):
        self.nothing_runs()
        self.slurm.set(max_submit=20)
        self.workflow(many=f"run: 'true', matrix: {{n: {list(range(50))}}}", last="run: 'true', needs: [many]")
        run, err = self.refused(UNAVAILABLE)
        self.assertIn("SLURM refuses step 'many'", err)
        self.assertIn("QOS", err)
        self.assertIn("20 of 51 jobs are submitted", err)
        self.assertIn(f"run --resume {run}", err)
        self.assertIn("`limits: {jobs: N}` in cluster-profiles/alpha.yaml", err)
        self.slurm.set(max_submit=100)
        self.dlflow("run", "--resume", run)
        self.assertEqual(len(set(self.job_ids(run).values())), 51)
        self.assertEqual(sum(len(job["tasks"]) for job in self.slurm.jobs().values()), 51)

    # The supervisor on its node

    def test_the_supervisor_is_small_and_sleeps_while_its_program_runs(self):
        os.mkfifo(self.folder / "end")
        self.workflow(a=f"run: 'echo $PPID > {self.folder}/pid.new; mv {self.folder}/pid.new {self.folder}/pid; "
                        f"cat {self.folder}/end'")
        run = self.submit()
        self.slurm.wait(lambda: (self.folder / "pid").exists(), what="the program")

        def supervisor():
            text = pathlib.Path("/proc", (self.folder / "pid").read_text().strip(), "status").read_text()
            return dict(line.split(":\t", 1) for line in text.splitlines())
        self.assertEqual(supervisor()["Name"], "dlflow")

        def sleeps_a_second():
            before = supervisor()["voluntary_ctxt_switches"]
            time.sleep(1)
            return supervisor()["voluntary_ctxt_switches"] == before
        self.wait_for(sleeps_a_second, what="a second without a wake-up")
        # Jobs of a node share the pages of the program, and the kernel chooses how many it maps at a time.
        peak, program = (int(supervisor()[key].split()[0]) for key in ("VmHWM", "RssFile"))
        self.assertLess(peak - program, 1024)
        (self.folder / "end").write_text("")
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"a": "succeeded"})

    # Continuing

    def check_freed(self, end, *verb, says):
        """`a` ended well by its record, and by `end` for SLURM; `verb` lets what waits for it run. `status` says so before."""
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        ids = self.ids(run)
        self.dlflow("job-exec", self.folder / "runs" / run / "batches/1-2.jsonl", "1", "0", env={"SLURM_JOB_ID": ids["a"]})
        self.slurm.end(ids["a"], end)
        self.slurm.advance(1)
        self.assertEqual(self.slurm.task(ids["b"])["reason"], "DependencyNeverSatisfied")
        if says:
            self.assertEqual(self.states(run), {"a": "succeeded", "b": "queued"})
            self.assertIn(says + run, " ".join(self.dlflow("status", run)[0].split()))
        self.slurm.mode("background")
        self.dlflow(*verb, run)
        self.slurm.wait_until_idle()
        self.assertEqual((self.trace(), self.ids(run)), (["a", "b"], ids))
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "succeeded"})

    def test_resume_frees_dependents_of_a_job_that_only_slurm_counts_as_failed(self):
        self.check_freed("FAILED", "run", "--resume", says=None)  # for example, its node died after the record was written

    def test_a_success_that_slurm_counts_as_out_of_memory_is_reported_and_resubmit_frees_its_dependents(self):
        self.check_freed("OUT_OF_MEMORY", "resubmit", says="never starts: SLURM considers a job that it waits for failed; dlflow resubmit ")

    def test_a_failed_chain_is_repaired_in_place(self):
        run = self.failed_chain()
        before = self.ids(run)
        self.assertIn(f"Nothing was submitted. What failed is repeated with\n  dlflow resubmit {run}\n", self.dlflow("run", "--resume", run)[0])
        out, _ = self.dlflow("resubmit", run)
        self.assertIn("  b 2 now waits for the new jobs\n", out)
        self.assertNotIn(" more\n", out)
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b", "c"])
        self.assertEqual(self.states(run), dict.fromkeys("abc", "succeeded"))
        self.assertEqual([job for job, id in self.ids(run).items() if id != before[job]], ["a"])

    def test_dependents_of_one_job_are_repointed_an_array_at_a_time(self):
        self.nothing_runs()
        sweep = f"matrix: {{n: {list(range(40))}}}"
        self.workflow(a="run: 'true'", many=f"run: 'true', {sweep}, needs: [a]", each=f"run: 'true', {sweep}, needs: [many]",
                      last="run: 'true', needs: [each]")
        run = self.submit()
        before = self.job_ids(run)
        self.slurm.end(before["a"], "TIMEOUT")
        self.slurm.advance(1)
        self.assertEqual(self.states(run)["many[n=7]"], "blocked")
        out, _ = self.dlflow("resubmit", run)
        self.assertEqual(out.count("now waits for the new jobs\n"), 10)
        self.assertIn("  and 71 jobs more\n", out)
        updates = [call["argv"] for call in self.slurm.calls("scontrol") if call["argv"][1:2] == ["update"] or call["argv"][:1] == ["update"]]
        self.assertEqual(len(updates), 3, updates)
        after = self.job_ids(run)
        self.assertEqual([job for job in after if after[job] != before[job]], ["a"])
        self.assertEqual(set(self.states(run).values()), {"queued"})
        for id in (before["many[n=39]"], before["each[n=3]"]):
            self.assertEqual(self.slurm.task(id)["reason"], "Dependency")

    # Submitted again with changes

    def test_an_impossible_setting_changes_nothing(self):
        self.profile("limits: {walltime: 1h}\nnode: {memory: 4GiB}\n")
        self.workflow(a="run: exit 3, resources: {walltime: 20m}")
        text = (self.folder / "w.yaml").read_text()
        self.write("w.yaml", text.replace("steps:", "params: {epochs: 3}\nsteps:"))
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"a": "failed"})
        before = self.status(run)
        for setting, words in {"waltime=40m": "did you mean 'walltime'?", "epochs=5": "is a parameter",
                               "walltime=soon": "soon", "walltime=2h": "allows 1 h per job", "walltime": "KEY=VALUE",
                               "memory=8GiB": "offers 4.0 GiB of memory"}.items():
            _, err = self.dlflow("resubmit", run, "--set", setting, status=INVALID)
            self.assertIn(words, err)
        self.assertEqual(self.status(run), before)
        self.assertEqual(len(self.slurm.calls("sbatch")), 1)

    def test_from_scratch_moves_the_checkpoints_aside(self):
        self.workflow(a="checkpoint: {}, run: 'cat $DLFLOW_CHECKPOINTS/n || true; echo 1 > $DLFLOW_CHECKPOINTS/n; exit 3'")
        run = self.submit()
        for options in ((), ("--from-scratch",)):
            self.slurm.wait_until_idle()
            self.dlflow("resubmit", run, *options)
        self.slurm.wait_until_idle()
        attempts = [self.folder / "runs" / run / f"steps/a/attempt-{n}" for n in (1, 2, 3)]
        self.assertEqual([(attempt / "stdout").read_text() for attempt in attempts], ["", "1\n", ""])
        self.assertEqual((attempts[1] / "checkpoints/n").read_text(), "1\n")


if __name__ == "__main__":
    support.main()
