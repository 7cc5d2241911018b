"""`dlflow rm`: runs are removed, results that others use stay, and nothing breaks; damaged runs."""

import json
import os
import pathlib
import shutil

from slurm_support import INVALID, UNAVAILABLE, ChainCase
from support import Case, main


class Removal(Case):
    def pipeline(self, extra=""):
        """data makes a file of 1 MiB; use reads it, and its result depends on `extra`."""
        return self.write_steps(f"""
            data: {{run: 'head -c 1M /dev/zero > $DLFLOW_OUTPUTS/d', outputs: {{d: d}}}}
            use:
              run: [sh, -c, 'cat "$1" > $DLFLOW_OUTPUTS/u; {extra}:', sh, "${{{{ steps.data.outputs.d }}}}"]
              outputs: {{u: u}}
        """)

    def test_a_run_missing_in_the_index_is_shown_goes_on_and_is_removed(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: 'true'}}\n")
        run = self.run_json("w.yaml")["run"]
        for verb in (["status"], ["run", "--resume"], ["rm"]):
            for file in (self.folder / "state").iterdir():
                file.unlink()
            self.dlflow(*verb, run)
        self.assertFalse(self.run_folder(run).exists())

    def run_folder(self, run):
        return self.folder / "dlflow-runs" / run

    def known(self):
        out, _ = self.dlflow("status", "--quick", "--quiet")
        return set(out.split())

    def test_a_run_is_removed_with_its_folder_and_the_freed_space_is_shown(self):
        self.pipeline()
        run = self.run_json("w.yaml")["run"]
        out, _ = self.dlflow("rm", run, "--dry-run")
        self.assertRegex(out, rf"^{run}  2\.\d MiB would be removed\n2\.\d MiB in all; nothing was removed\.\n$")
        self.assertTrue(self.run_folder(run).exists())
        out, _ = self.dlflow("rm", run[-8:-4])
        self.assertRegex(out, rf"^{run}  2\.\d MiB removed\n2\.\d MiB freed\.\n$")
        self.assertEqual(self.known(), set())
        self.assertFalse(self.run_folder(run).exists())
        self.assertEqual(list((self.folder / "dlflow-runs/.programs").iterdir()), [])

    def test_shared_results_stay_are_reused_and_are_removed_with_their_last_user(self):
        self.pipeline()
        first = self.run_json("w.yaml")["run"]
        self.pipeline(extra="echo;")
        second = self.run_json("w.yaml")["run"]
        self.assertEqual(self.states(second), {"data": "cached", "use": "succeeded"})
        out, _ = self.dlflow("rm", first)
        self.assertIn(f"data (1.0 MiB) stays, used by {second}", out)
        self.assertFalse((self.run_folder(first) / "steps/use").exists())
        self.pipeline(extra="echo; echo;")
        third = self.run_json("w.yaml")["run"]
        self.assertEqual(self.states(third), {"data": "cached", "use": "succeeded"})
        self.dlflow("rm", second, third, first)
        self.assertEqual(self.known(), set())
        self.assertFalse(self.run_folder(first).exists())

    def test_link_targets_of_a_remaining_result_stay(self):
        workflow = self.write_steps("""
            p: {run: 'echo data > d', outputs: {d: d}}
            s: {run: [sh, -c, 'ln -s "$0" $DLFLOW_OUTPUTS/l', "${{ steps.p.outputs.d }}"], outputs: {l: l}}
        """)
        first = self.run_json("w.yaml")["run"]
        workflow.write_text(workflow.read_text().replace("ln -s", "ln  -s"))
        second = self.run_json("w.yaml")["run"]
        self.assertEqual(self.states(second), {"p": "cached", "s": "succeeded"})
        self.run_json("w.yaml", "--force", "p")
        last = self.run_json("w.yaml")["run"]  # has p of the third, s of the second, and a link to the first
        self.dlflow("rm", first, second)
        for step in self.status(last)["steps"]:
            if step["name"] == "s":
                self.assertEqual((pathlib.Path(step["directory"]) / "outputs/l").read_text(), "data\n")
        self.assertEqual(set(self.states(self.run_json("w.yaml")["run"]).values()), {"cached"})

    def test_link_targets_of_a_remaining_result_in_its_own_run_stay(self):
        self.write_steps("""
            p: {run: 'echo data > d', outputs: {d: d}}
            other: {run: 'echo data > d', outputs: {d: d}}
            s: {run: [sh, -c, 'ln -s "$0" $DLFLOW_OUTPUTS/l', "${{ steps.p.outputs.d }}"], outputs: {l: l}}
        """)
        first = self.run_json("w.yaml")["run"]
        second = self.run_json("w.yaml", "--force", "p", "--force", "other")["run"]
        self.assertEqual(self.states(second), {"p": "succeeded", "other": "succeeded", "s": "cached"})
        self.assertIn("p, s", self.dlflow("rm", first)[0])
        steps = self.run_folder(first) / "steps"
        self.assertEqual(sorted(step.name for step in steps.iterdir()), ["p", "s"])
        self.assertEqual((steps / "s/outputs/l").read_text(), "data\n")

    def test_results_used_by_a_run_that_was_killed_before_recording_it_stay(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: 'echo 1 > o', outputs: {o: o}}, b: {run: [cp, '${{ steps.a.outputs.o }}', o], outputs: {o: o}}}\n")
        first = self.run_json("w.yaml")["run"]
        self.start("run", "w.yaml", "--force", "b", env={"DLFLOW_CRASH_AT": "intent"}).communicate(timeout=30)
        (second,) = self.known() - {first}
        self.assertIn("a (", self.dlflow("rm", first)[0])
        self.dlflow("run", "--resume", second)
        self.assertEqual(self.states(second), {"a": "cached", "b": "succeeded"})

    def test_a_run_that_reused_from_a_deleted_one_is_repaired(self):
        self.pipeline()
        first = self.run_json("w.yaml")["run"]
        self.pipeline(extra="exit 3;")
        second = self.run_json("w.yaml", status=1)["run"]
        self.assertEqual(self.states(second), {"data": "cached", "use": "failed"})
        shutil.rmtree(self.run_folder(first))
        out, _ = self.dlflow("resubmit", second, status=1)
        self.assertEqual(self.states(second), {"data": "succeeded", "use": "failed"}, out)
        self.assertEqual(self.status(second)["steps"][1]["reason"], "exit 3")
        self.dlflow("rm", first)
        self.assertEqual(self.known(), {second})

    def test_a_run_at_work_is_not_removed(self):
        self.write("w.yaml", f"""
            name: w
            steps: {{a: {{run: 'touch {self.folder}/began; while [ ! -e {self.folder}/go ]; do sleep 0.01; done'}}}}
        """)
        engine = self.start("run", "w.yaml")
        self.wait_for((self.folder / "began").exists, what="the step")
        run = self.known().pop()
        for verb in (["rm", run], ["rm", run, "--dry-run"]):
            _, err = self.dlflow(*verb, status=2)
            self.assertIn(f"{run} is at work; end it first: dlflow cancel {run}", err)
        out, _ = self.dlflow("rm", "--keep", 0)
        self.assertEqual(out, "0 B freed.\n")
        engine.kill()  # the job continues without it
        engine.wait()
        _, err = self.dlflow("rm", run, status=2)
        self.assertIn(f"{run} has active jobs", err)
        (self.folder / "go").touch()
        self.wait_for(lambda: self.status(run)["state"] != "running", what="the end of the step")
        self.dlflow("rm", run)
        self.assertEqual(self.known(), set())

    def test_prune_keeps_the_newest_run_of_each_workflow_and_young_ones(self):
        runs = []
        for name in ("a", "b"):
            self.write(f"{name}.yaml", f"name: {name}\nsteps: {{s: {{run: 'true'}}}}\n")
            runs.append([self.run_json(f"{name}.yaml", "--no-cache")["run"] for _ in range(3)])
        out, _ = self.dlflow("rm", "--keep", 1, "--older-than", "1h")
        self.assertEqual(out, "0 B freed.\n")
        self.dlflow("rm", "--keep", 1, "--dry-run")
        self.assertEqual(len(self.known()), 6)
        self.dlflow("rm", "--keep", 2)
        self.assertEqual(self.known(), {run for three in runs for run in three[1:]})
        _, err = self.dlflow("rm", status=2)
        self.assertIn("--keep 5", err)

    def test_a_killed_removal_is_finished_by_the_next(self):
        self.pipeline()
        run = self.run_json("w.yaml")["run"]
        self.dlflow("rm", run, env={"DLFLOW_CRASH_AT": "renamed"}, status=-9)
        self.assertFalse(self.run_folder(run).exists())
        self.assertEqual(self.known(), {run})
        self.dlflow("rm", run)
        self.assertEqual(self.known(), set())
        self.assertEqual([entry.name for entry in (self.folder / "dlflow-runs").iterdir()], [".programs"])

    def test_read_only_results_are_removed(self):
        self.write("w.yaml", "name: w\nsteps: {a: {run: 'mkdir $DLFLOW_OUTPUTS/x; touch $DLFLOW_OUTPUTS/x/y; "
                             "chmod -R a-w $DLFLOW_OUTPUTS/x'}}\n")
        run = self.run_json("w.yaml")["run"]
        self.dlflow("rm", run)
        self.assertFalse(self.run_folder(run).exists())

    def test_folders_deeper_than_the_number_of_descriptors_are_removed(self):
        self.write("deep.py", """
            import os
            for _ in range(1200):
                os.mkdir("d")
                os.chdir("d")
        """)
        self.write("w.yaml", """
            name: w
            steps: {deep: {run: [python3, deep.py], inputs: [deep.py]}}
        """)
        run = self.run_json("w.yaml")["run"]
        self.dlflow("rm", run)
        self.assertFalse(self.run_folder(run).exists())

    def test_runs_share_one_copy_of_the_program_and_none_breaks_another(self):
        self.pipeline()
        first = self.run_json("w.yaml")["run"]
        second = self.run_json("w.yaml", "--no-cache")["run"]
        program = self.run_folder(second) / "bin/dlflow"
        self.assertTrue(os.path.samefile(self.run_folder(first) / "bin/dlflow", program))
        self.dlflow("rm", first)
        self.assertTrue(os.access(program, os.X_OK))

    def test_a_damaged_run_is_shown_as_such_beside_the_others(self):
        self.pipeline()
        good = self.run_json("w.yaml")["run"]
        self.pipeline(extra="exit 3;")
        damaged = self.run_json("w.yaml", status=1)["run"]
        (self.run_folder(damaged) / "plan.json").unlink()
        out, _ = self.dlflow("status")
        lines = {line.split()[0]: line for line in out.splitlines()}
        self.assertIn("succeeded", lines[good])
        below = " ".join(out[out.index(damaged):].split())  # the reason may be printed below its run
        self.assertRegex(below, r"^\S+ local failed .* damaged: .* it has no plan.json")
        out, _ = self.dlflow("status", damaged)
        self.assertIn("no plan.json", out)
        self.assertIn("plan.json", json.loads(self.dlflow("status", damaged, "--json")[0])["problem"])
        (self.run_folder(damaged) / "plan.json").write_text("{")
        self.assertIn("plan.json: not JSON", self.dlflow("status")[0])
        out, err = self.dlflow("doctor", "--rebuild", status=2)
        self.assertEqual(out, good + "\n")
        self.assertIn("plan.json: not JSON", err)
        self.dlflow("rm", damaged)
        self.assertEqual(self.known(), {good})

    def test_a_run_whose_workflow_is_no_longer_valid_is_shown_with_the_command_that_goes_on(self):
        self.pipeline(extra="exit 3;")
        run = self.run_json("w.yaml", status=1)["run"]
        frozen = self.run_folder(run) / "workflow.yaml"
        frozen.write_text(frozen.read_text() + "an-older-dlflow-knew: this\n")
        out, _ = self.dlflow("status", run)
        self.assertIn("use", out)
        self.assertIn("this dlflow does not accept the workflow", " ".join(out.split()))
        for verb in (["run", "--resume"], ["resubmit"]):
            _, err = self.dlflow(*verb, run, status=INVALID)
            self.assertIn(f"{self.run_folder(run)}/bin/dlflow run --resume {run}", err)

    def test_external_effects_of_a_removed_run_count_after_a_rebuild(self):
        there = self.folder / "there"
        self.write_steps(f"""
            put: {{run: 'echo $DLFLOW_PARAM_V > {there}'}}
        """, "params: {v: one}")
        first = self.run_json("w.yaml")["run"]
        self.dlflow("rm", self.run_json("w.yaml", "--set", "v=two")["run"])
        shutil.rmtree(self.folder / "state")
        self.assertEqual(self.dlflow("doctor", "--rebuild")[0], first + "\n")
        for put in ("succeeded", "cached"):
            run = self.run_json("w.yaml")["run"]
            self.assertEqual((self.states(run)["put"], there.read_text()), (put, "one\n"))

    def test_two_runs_of_one_name_are_both_kept_by_a_rebuild(self):
        self.pipeline()
        run = self.run_json("w.yaml")["run"]
        shutil.copytree(self.run_folder(run), self.folder / "elsewhere" / run, symlinks=True)
        for _ in range(2):
            self.dlflow("doctor", "--rebuild", "dlflow-runs", "elsewhere")
            self.assertEqual(self.known(), {run, run + ".2"})
        self.assertEqual(self.status(run + ".2")["directory"], str(self.folder / "elsewhere" / run))
        self.assertEqual(self.status("elsewhere/" + run)["run"], run + ".2")


class RemovalOnSlurm(ChainCase):
    def test_a_run_with_jobs_in_the_queue_is_not_removed(self):
        run = self.failed_chain()  # two jobs wait forever
        _, err = self.dlflow("rm", run, status=INVALID)
        self.assertIn(f"{run} has jobs in the queue of SLURM; end it first: dlflow cancel {run}", err)
        out, err = self.dlflow("rm", "--keep", 0)
        self.assertEqual((out, err.count("in the queue of SLURM")), ("0 B freed.\n", 1))
        self.dlflow("cancel", run)
        self.dlflow("rm", run)
        self.assertFalse((self.folder / "runs" / run).exists())

    def test_a_run_is_not_removed_while_slurm_does_not_answer(self):
        self.nothing_runs()
        self.chain_of("a")
        run = self.submit()
        self.dlflow("rm", run, status=INVALID)
        self.slurm.end(self.ids(run)["a"], "CANCELLED")
        self.states(run)
        self.slurm.fault("squeue", "before", "connect", "always")
        self.dlflow("rm", run, status=UNAVAILABLE)
        before = len(self.slurm.calls())
        self.assertIn(run, self.dlflow("status", "--quick")[0])
        self.assertEqual(len(self.slurm.calls()), before)
        self.assertTrue((self.folder / "runs" / run).exists())

    def test_a_run_of_a_cluster_that_is_gone_is_removed_at_the_users_request(self):
        self.nothing_runs()
        self.chain_of("a")
        run = self.submit()
        (self.folder / "runs" / run / "cluster").write_text("older")
        for verb in ("cancel", "resubmit"):
            _, err = self.dlflow(verb, run, status=INVALID)
            self.assertIn(f"`dlflow rm {run} --gone older` removes the run", err)
        self.dlflow("rm", run, status=INVALID)
        self.dlflow("rm", run, "--gone", "other", status=INVALID)
        self.dlflow("rm", run, "--gone", "older")
        self.assertFalse((self.folder / "runs" / run).exists())

    def test_a_missing_reused_result_is_submitted_again(self):
        steps = {"data": "run: 'echo x > $DLFLOW_OUTPUTS/d', outputs: {d: d}"}
        use = f"run: [sh, -c, '[ -e {self.folder}/go ]', sh, \"${{{{ steps.data.outputs.d }}}}\"]"
        self.workflow(**steps)
        first = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(first), {"data": "succeeded"})
        self.workflow(**steps, use=use)
        second = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(second), {"data": "cached", "use": "failed"})
        shutil.rmtree(self.folder / "runs" / first)
        (self.folder / "go").touch()
        self.dlflow("resubmit", second)
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(second), {"data": "succeeded", "use": "succeeded"})


if __name__ == "__main__":
    main()
