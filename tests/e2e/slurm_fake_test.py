"""A chain of SLURM jobs on a cluster that misbehaves on request; tests/slurm/chain_test.py has a real one."""

import json
import os
import pathlib
import time

import support
from slurm_support import INVALID, UNAVAILABLE, ChainCase


class ChainTest(ChainCase):
    # What programs see

    def test_setup_lines_find_the_functions_that_the_shell_exports(self):
        self.profile("setup: [module load cuda]\n")
        self.workflow(show="run: 'echo $COMPILER > o', outputs: {o: o}")
        run = self.submit(env={"BASH_FUNC_module%%": '() { [ "$*" = "load cuda" ] && export COMPILER=nvcc; }'})
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"show": "succeeded"}, self.status(run))
        self.assertEqual((self.folder / "runs" / run / "steps/show/outputs/o").read_text(), "nvcc\n")

    def test_jobs_have_the_variables_of_the_shell_that_called_dlflow_and_are_reused_by_them(self):
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
        other = self.submit(env={**shell, "WANDB_MODE": "online", "LOADEDMODULES": "gcc/13"})
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(other), {"show": "succeeded", "mods": "succeeded"})

    # Killed on the way

    def test_killed_at_any_point_of_twelve_submissions_each_job_is_submitted_once(self):
        """Three arms of four steps: some wait for each other, some are in sbatch together."""
        self.nothing_runs()
        names = [f"{arm}{n}" for arm in "abc" for n in range(4)]
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

    def test_a_resume_that_is_killed_too_changes_nothing(self):
        self.nothing_runs()
        self.workflow(**{name: "run: 'true'" for name in "abcdefgh"})
        self.dlflow("run", "w.yaml", "--profile", "alpha", env={"DLFLOW_CRASH_AT": "accepted:2"}, status=-9)
        run = json.loads(self.dlflow("status", "--quick", "--json")[0])[0]["run"]
        self.dlflow("run", "--resume", run, env={"DLFLOW_CRASH_AT": "intents:1"}, status=-9)
        self.dlflow("run", "--resume", run)
        self.assertEqual(self.steps_in_slurm(), list("abcdefgh"))
        self.assertEqual(set(self.states(run).values()), {"queued"})

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
        self.slurm.fault("sbatch", "late:3", "timeout")
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
        self.assertIn("SLURM refuses step 'c'", err)
        self.assertIn("QOS", err)
        self.assertIn("2 of 3 jobs are submitted", err)
        self.assertIn(f"run --resume {run}", err)
        self.assertEqual(self.steps_in_slurm(), ["a", "b"])
        self.slurm.set(max_submit=100)
        self.dlflow("run", "--resume", run)
        self.assertEqual(self.steps_in_slurm(), ["a", "b", "c"])

    def test_after_a_refusal_what_was_in_sbatch_already_is_kept(self):
        self.nothing_runs()
        self.workflow(**{name: "run: 'true'" for name in "abcdefgh"})
        self.slurm.set(max_submit=3)
        run, err = self.refused(UNAVAILABLE)
        self.assertIn("3 of 8 jobs are submitted", err)
        self.slurm.set(max_submit=100)
        self.dlflow("run", "--resume", run)
        self.assertEqual(self.steps_in_slurm(), list("abcdefgh"))
        self.assertEqual(set(self.states(run).values()), {"queued"})

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

    def test_a_site_that_wants_a_second_between_two_sbatch_has_it(self):
        self.nothing_runs()
        self.profile("limits: {submit_interval: 1s}\n")
        self.workflow(a="run: 'true'", b="run: 'true'", sweep="run: 'true', matrix: {n: [0, 1, 2, 3]}")
        began = time.monotonic()
        self.submit()
        self.assertGreaterEqual(time.monotonic() - began, 2)
        self.assertEqual(len(self.slurm.calls("sbatch")), 3)

    def test_where_no_cluster_answers_no_run_is_made(self):
        self.workflow(a="run: 'true'")
        scontrol = self.write("bin/scontrol", "#!/bin/sh\necho 'scontrol: fatal: Could not establish a configuration source' >&2; exit 1\n")
        scontrol.chmod(0o755)
        self.env["PATH"] = f"{scontrol.parent}:{self.env['PATH']}"
        run, err = self.refused(UNAVAILABLE)
        self.assertIn("scontrol failed: Could not establish a configuration source; call dlflow where SLURM's tools work", err)
        self.assertIsNone(run)
        self.assertFalse((self.folder / "runs").exists())

    def test_a_matrix_larger_than_an_array_may_be_is_split(self):
        self.nothing_runs()
        self.slurm.set(max_array_size=1001)
        self.workflow(many=f"run: 'true', matrix: {{n: {list(range(2500))}}}")
        run = self.submit()
        self.assertEqual(len(self.slurm.calls("sbatch")), 3)
        self.assertEqual(sum(len(job["tasks"]) for job in self.slurm.jobs().values()), 2500)
        self.assertEqual(set(self.states(run).values()), {"queued"})

    # More jobs than may be submitted at a time

    def test_what_exceeds_the_profiles_limit_waits_for_a_later_call(self):
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

        self.dlflow("run", "--resume", run, status=UNAVAILABLE)  # there is no room yet
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

    def test_of_a_matrix_with_max_parallel_no_more_run_at_a_time(self):
        self.nothing_runs()
        self.workflow(many="run: 'true', matrix: {n: [0, 1, 2], max_parallel: 2}")
        self.submit()
        self.assertEqual(self.slurm.jobs()[1]["request"]["array"], "0-2%2")

    def test_packed_elements_are_one_task_with_a_record_each(self):
        self.workflow(many="run: '[ $DLFLOW_MATRIX_N != 1 ] && echo $DLFLOW_MATRIX_N', matrix: {n: [0, 1, 2], pack: 2}, "
                           "resources: {walltime: 1m}",
                      each="run: 'true', matrix: {n: [0, 1, 2], pack: 2}, needs: [many], resources: {walltime: 1m}")
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"many[n=0]": "succeeded", "many[n=1]": "failed", "many[n=2]": "succeeded",
                                            "each[n=0]": "succeeded", "each[n=1]": "blocked", "each[n=2]": "succeeded"})
        ids = self.job_ids(run)
        self.assertEqual(ids["many[n=0]"], ids["many[n=1]"])
        self.assertEqual(len({id for job, id in ids.items() if job.startswith("many")}), 2)
        self.assertEqual(self.dlflow("logs", run, "many[n=2]")[0].strip(), "2")

    def test_packed_elements_have_to_say_how_long_each_takes(self):
        self.workflow(many="run: 'true', matrix: {n: [0, 1, 2], pack: 2}")
        self.assertIn("does not say how long each takes", self.dlflow("run", "w.yaml", "--profile", "alpha", status=INVALID)[1])

    def test_of_a_matrix_in_several_arrays_no_more_run_at_a_time_either(self):
        self.nothing_runs()
        self.workflow(many="run: 'true', matrix: {n: [1, 2, 3, 4], max_parallel: 1}, "
                           "resources: {cpus_per_rank: '${{ matrix.n }}'}")
        self.submit()
        self.assertEqual(len(self.slurm.jobs()), 4)
        for _ in range(4):
            self.slurm.advance(1)
            states = {id: job["tasks"][0]["state"] for id, job in self.slurm.jobs().items()}
            running = [id for id, state in states.items() if state == "RUNNING"]
            self.assertEqual(len(running), 1, states)
            self.slurm.end(f"{running[0]}_{running[0] - 1}", "FAILED")

    def test_of_an_array_above_a_limit_that_only_slurm_knows_as_much_as_fits_is_submitted(self):
        self.nothing_runs()
        self.slurm.set(max_submit=20)
        self.workflow(many=f"run: 'true', matrix: {{n: {list(range(50))}}}", last="run: 'true', needs: [many]")
        run, err = self.refused(UNAVAILABLE)
        self.assertIn("20 of 51 jobs are submitted", err)
        self.assertIn("`limits: {jobs: N}` in cluster-profiles/alpha.yaml", err)
        for _ in range(3):
            for id in self.job_ids(run).values():
                if id and self.slurm.task(id)["state"] in ("PENDING", "RUNNING"):
                    self.slurm.end(id, "COMPLETED")
            steps = self.folder / "runs" / run / "steps"
            for n in range(50):  # as their supervisors would
                if self.job_ids(run)[f"many[n={n}]"] and not (steps / f"many/n={n}").exists():
                    attempt = steps / f"many/n={n}/attempt-1"
                    (attempt / "outputs").mkdir(parents=True)
                    (steps / f"many/n={n}/outputs").symlink_to("attempt-1/outputs")
                    (attempt / "events.jsonl").write_text("".join(
                        f'{{"at":"2026-11-22T08:00:00.000Z","state":"{state}"}}\n' for state in ("running", "succeeded")))
            self.start("run", "--resume", run).communicate(timeout=60)
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
        # Pages of the program are shared by the jobs of a node, and the kernel maps them in pieces of a size that it chooses.
        peak, program = (int(supervisor()[key].split()[0]) for key in ("VmHWM", "RssFile"))
        self.assertLess(peak - program, 1024)
        (self.folder / "end").write_text("")
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"a": "succeeded"})

    # Going on

    def test_resume_frees_what_waits_for_a_job_that_only_slurm_takes_for_failed(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        ids = self.ids(run)
        batches = self.folder / "runs" / run / "batches/1-2.jsonl"
        self.dlflow("job-exec", batches, "1", "0", env={"SLURM_JOB_ID": ids["a"]})
        self.slurm.end(ids["a"], "FAILED")  # its node died after the record was written, say
        self.slurm.advance(1)
        self.assertEqual(self.slurm.task(ids["b"])["reason"], "DependencyNeverSatisfied")
        self.slurm.mode("background")
        self.dlflow("run", "--resume", run)
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b"])
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "succeeded"})

    def test_a_job_that_ended_well_but_slurm_takes_as_out_of_memory_is_told_and_resubmit_frees_what_waits(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        ids = self.ids(run)
        self.dlflow("job-exec", self.folder / "runs" / run / "batches/1-2.jsonl", "1", "0",
                    env={"SLURM_JOB_ID": ids["a"]})
        self.slurm.end(ids["a"], "OUT_OF_MEMORY")
        self.slurm.advance(1)
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "queued"})
        out = " ".join(self.dlflow("status", run)[0].split())
        self.assertIn(f"never starts: SLURM takes what it waits for as failed; dlflow resubmit {run}", out)
        self.slurm.mode("background")
        self.dlflow("resubmit", run)
        self.slurm.wait_until_idle()
        self.assertEqual((self.trace(), self.ids(run)), (["a", "b"], ids))
        self.assertEqual(self.states(run), {"a": "succeeded", "b": "succeeded"})

    def test_a_failed_chain_is_repaired_in_place(self):
        run = self.failed_chain()
        before = self.ids(run)
        out, _ = self.dlflow("resubmit", run)
        self.assertIn("  b 2 waits for the new jobs now\n", out)
        self.assertNotIn(" more\n", out)
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b", "c"])
        self.assertEqual(self.states(run), dict.fromkeys("abc", "succeeded"))
        self.assertEqual([job for job, id in self.ids(run).items() if id != before[job]], ["a"])

    def test_what_waits_for_one_job_is_repointed_an_array_at_a_time(self):
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
        self.assertEqual(out.count("waits for the new jobs now\n"), 10)
        self.assertIn("  and 71 jobs more\n", out)
        updates = [call["argv"] for call in self.slurm.calls("scontrol") if call["argv"][1:2] == ["update"] or call["argv"][:1] == ["update"]]
        self.assertEqual(len(updates), 3, updates)
        after = self.job_ids(run)
        self.assertEqual([job for job in after if after[job] != before[job]], ["a"])
        self.assertEqual(set(self.states(run).values()), {"queued"})
        for id in (before["many[n=39]"], before["each[n=3]"]):
            self.assertEqual(self.slurm.task(id)["reason"], "Dependency")

    def test_a_repair_goes_on_if_slurm_has_dropped_what_waits(self):
        run = self.failed_chain()
        self.slurm.fault("scontrol", "before", "Invalid job id specified")  # b
        self.dlflow("resubmit", run)
        self.slurm.wait_until_idle()
        self.assertEqual(self.trace(), ["a", "b", "c"])
        self.assertEqual(self.states(run), dict.fromkeys("abc", "succeeded"))

    # Submitted again, but not as before

    def asked(self, run):
        return {step["name"]: (step["resources"]["walltime_s"], step["resources"]["memory_bytes"])
                for step in self.status(run)["steps"]}

    def test_what_failed_is_submitted_with_other_resources_and_they_stay(self):
        self.profile("node: {memory: 4GiB}\n")
        self.workflow(a="run: 'true', resources: {walltime: 20m}",
                      b=f"run: '[ -e {self.folder}/mended ]', needs: [a], resources: {{walltime: 20m, memory: 1GiB}}",
                      c="run: 'true', needs: [b], resources: {walltime: 20m}")
        run = self.submit()
        self.slurm.wait_until_idle()
        before = self.ids(run)
        self.dlflow("resubmit", run, "--step", "b", "--set", "walltime=40m", "--set", "memory=2GiB")
        self.slurm.wait_until_idle()
        request = self.slurm.jobs()[int(self.ids(run)["b"])]["request"]
        self.assertEqual((request["minutes"], request["memory_mb"]), (41, 2048))
        self.assertEqual(self.asked(run), {"a": (1200, None), "b": (2400, 2 << 30), "c": (1200, None)})
        self.assertIn("walltime 20:00 → 40:00, memory 1.0 GiB → 2.0 GiB",
                      " ".join(self.dlflow("explain", run, "b")[0].split()))
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run)
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), dict.fromkeys("abc", "succeeded"))
        request = self.slurm.jobs()[int(self.ids(run)["b"])]["request"]
        self.assertEqual((request["minutes"], request["memory_mb"]), (41, 2048))
        self.assertEqual([job for job, id in self.ids(run).items() if id != before[job]], ["b"])

    def test_a_setting_that_cannot_be_changes_nothing(self):
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

    def test_from_scratch_leaves_the_checkpoints_aside(self):
        self.workflow(a="checkpoint: {}, run: 'cat $DLFLOW_CHECKPOINTS/n || true; echo 1 > $DLFLOW_CHECKPOINTS/n; exit 3'")
        run = self.submit()
        for options in ((), ("--from-scratch",)):
            self.slurm.wait_until_idle()
            self.dlflow("resubmit", run, *options)
        self.slurm.wait_until_idle()
        attempts = [self.folder / "runs" / run / f"steps/a/attempt-{n}" for n in (1, 2, 3)]
        self.assertEqual([(attempt / "stdout").read_text() for attempt in attempts], ["", "1\n", ""])
        self.assertEqual((attempts[1] / "checkpoints/n").read_text(), "1\n")

    def test_a_job_out_of_memory_is_tried_again_with_twice_as_much_up_to_what_a_node_has(self):
        self.slurm.set(requeue_delay=3)
        self.profile("node: {memory: 3GiB}\n")
        self.workflow(a="run: 'echo $SLURM_MEM_PER_NODE; kill -9 $$', resources: {memory: 1GiB}, "
                        "retry: {attempts: 3, on: [out-of-memory]}")
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"a": "failed"})
        updates = [call["argv"][-1] for call in self.slurm.calls("scontrol") if "MinMemory" in call["argv"][-1]]
        self.assertEqual(updates, ["MinMemoryNode=2048", "MinMemoryNode=3072"])
        events = (self.folder / "runs" / run / "steps/a/attempt-1/events.jsonl").read_text()
        reasons = [json.loads(line).get("reason", "") for line in events.splitlines()]
        self.assertEqual([reason.split(";")[0] for reason in reasons if "follows" in reason],
                         ["try 2 of 3 follows with 2.0 GiB", "try 3 of 3 follows with 3.0 GiB"])


if __name__ == "__main__":
    support.main()
