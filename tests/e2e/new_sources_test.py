"""`resubmit --with-new-sources`: a run takes its current sources, and only affected steps run again."""

import json
import os

import support
from slurm_support import ChainCase
from support import Case, main


class NewSources(Case):
    def setUp(self):
        super().setUp()
        self.write("good.py", "import pathlib, os\n"
                              "print('good')\n"
                              "pathlib.Path(os.environ['DLFLOW_OUTPUTS'], 'good.txt').write_text('good')\n")
        self.write("bad.py", "raise SystemExit('broken')\n")
        self.write("end.py", "print('end of', open('in.txt').read() if False else 'all')\n")
        self.write("w.yaml", """
            name: w
            steps:
              other: {run: 'echo other >> %(t)s', inputs: []}
              good: {run: 'echo good >> %(t)s; python3 good.py', inputs: [good.py], outputs: {text: good.txt}}
              bad: {run: 'echo bad >> %(t)s; python3 bad.py', inputs: [bad.py], needs: [good]}
              end: {run: 'echo end >> %(t)s; python3 end.py', inputs: [end.py], needs: [bad]}
        """ % {"t": self.folder / "trace"})

    def trace(self):
        """What ran since the last look."""
        file = self.folder / "trace"
        words = file.read_text().split() if file.exists() else []
        file.write_text("")
        return sorted(words)

    def failed_run(self):
        run = self.run_json("w.yaml", status=1)["run"]
        self.assertEqual(self.trace(), ["bad", "good", "other"])
        return run

    def plan(self, run):
        return json.loads((self.folder / "dlflow-runs" / run / "plan.json").read_text())

    def test_a_resubmit_keeps_the_frozen_copies_and_names_changed_files(self):
        run = self.failed_run()
        self.write("bad.py", "print('corrected')\n")
        before = self.plan(run)
        _, err = self.dlflow("resubmit", run, status=1)
        self.assertIn("Changed since the run was made: bad.py; the run keeps its own copies.", err)
        self.assertIn("--with-new-sources", err)
        self.assertEqual(self.plan(run), before)  # P6
        self.assertEqual(self.trace(), ["bad"])

    def test_corrected_sources_are_taken_and_only_their_readers_run_again(self):
        run = self.failed_run()
        self.write("bad.py", "print('corrected')\n")
        before = self.plan(run)
        _, err = self.dlflow("resubmit", run, "--with-new-sources")
        self.assertIn("Changed since the run was made: bad.py\n", err)
        self.assertEqual(self.trace(), ["bad", "end"])
        self.assertEqual(set(self.states(run).values()), {"succeeded"})
        self.assertIn("corrected", self.dlflow("logs", run, "bad")[0])
        folder = self.folder / "dlflow-runs" / run
        after = self.plan(run)
        self.assertEqual((before["sources"], after["sources"]), ("sources", "sources-2"))
        self.assertIn("broken", (folder / "sources/bad.py").read_text())  # the source that the first attempt read
        self.assertIn("corrected", (folder / "sources-2/bad.py").read_text())
        self.assertNotEqual(before["files"]["bad.py"], after["files"]["bad.py"])
        self.assertEqual(before["files"]["good.py"], after["files"]["good.py"])

    def test_a_successful_step_and_its_dependents_run_again_if_its_sources_changed(self):
        self.write("bad.py", "print('fine')\n")
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.trace(), ["bad", "end", "good", "other"])
        self.write("good.py", (self.folder / "good.py").read_text().replace("'good')\n", "'better')\n"))
        self.dlflow("resubmit", run, "--with-new-sources")
        self.assertEqual(self.trace(), ["bad", "end", "good"])
        status = self.status(run)
        text = {s["name"]: s for s in status["steps"]}["good"]["outputs"]["text"]
        self.assertEqual(open(text).read(), "better")
        self.assertEqual({s["name"]: s["attempt"] for s in status["steps"]}, {"other": 1, "good": 2, "bad": 2, "end": 2})

    def test_a_named_step_needs_no_failure_if_its_sources_changed(self):
        self.write("bad.py", "print('fine')\n")
        run = self.run_json("w.yaml")["run"]
        self.trace()
        self.write("bad.py", "print('better')\n")
        before = self.plan(run)
        _, err = self.dlflow("resubmit", run, "--step", "good", "--with-new-sources", status=2)
        self.assertIn("no job of 'good' failed", err)
        self.assertEqual((self.plan(run), self.trace()), (before, []))
        self.assertIn("no job of 'bad' failed", self.dlflow("resubmit", run, "--step", "bad", status=2)[1])
        self.dlflow("resubmit", run, "--step", "bad", "--with-new-sources")
        self.assertEqual(self.trace(), ["bad", "end"])
        self.assertIn("better", self.dlflow("logs", run, "bad")[0])

    def test_reuse_distinguishes_results_of_old_and_new_sources(self):
        """P11: a result on record is what the current sources make."""
        self.write("bad.py", "print('fine')\n")
        old = (self.folder / "good.py").read_text()
        run = self.run_json("w.yaml")["run"]
        self.trace()
        self.write("good.py", old.replace("'good')\n", "'better')\n"))
        self.dlflow("resubmit", run, "--with-new-sources")
        self.trace()
        again = self.run_json("w.yaml")["run"]  # with the new sources, all results are known
        self.assertEqual(self.trace(), [])
        self.assertEqual(self.states(again)["good"], "cached")
        self.write("good.py", old)
        self.run_json("w.yaml")
        self.assertIn("good", self.trace())  # with the old ones, the result is gone

    def test_unchanged_sources_are_reported(self):
        run = self.failed_run()
        _, err = self.dlflow("resubmit", run, "--with-new-sources", status=2)
        self.assertIn("nothing that the steps read has changed since the run was made; correct it first", err)
        self.assertEqual(self.plan(run)["sources"], "sources")
        self.assertNotIn("w.yaml has changed", err)

    def test_a_changed_workflow_is_named_with_the_command(self):
        text = (self.folder / "w.yaml").read_text()
        text = text.replace("steps:", "params: {note: none}\nsteps:", 1)
        self.write("w.yaml", text)
        run = self.run_json("w.yaml", "--set", "note=a word", status=1)["run"]
        self.write("w.yaml", text + "# a comment\n")
        _, err = self.dlflow("resubmit", run, "--with-new-sources", status=2)
        self.assertIn("w.yaml has: type `dlflow run w.yaml --set 'note=a word'`", err)
        _, err = self.dlflow("resubmit", run, status=1)
        self.assertIn("w.yaml has changed since, and this run keeps its old text; `dlflow run w.yaml --set 'note=a word'` runs the new text and reuses what is still valid", err)

    def test_a_result_that_another_run_uses_stays(self):
        self.write("bad.py", "print('fine')\n")
        run = self.run_json("w.yaml")["run"]
        other = self.run_json("w.yaml", "--until", "good")["run"]
        self.assertEqual(self.states(other), {"good": "cached"})
        self.trace()
        self.write("good.py", "print('other')\n")
        before = self.plan(run)
        _, err = self.dlflow("resubmit", run, "--with-new-sources", status=2)
        self.assertIn(f"the result of good is used by {other}", err)
        self.assertIn("dlflow run", err)
        self.assertEqual(self.plan(run), before)
        self.assertEqual((self.trace(), set(self.states(run).values())), ([], {"succeeded"}))

    def test_a_checkpoint_of_the_old_sources_is_not_used(self):
        self.write("train.sh", "ls $DLFLOW_CHECKPOINTS; echo old > $DLFLOW_CHECKPOINTS/n; exit 1\n")
        self.write("c.yaml", "name: c\nsteps:\n  a: {run: 'sh train.sh', inputs: [train.sh], checkpoint: {}}\n")
        run = self.run_json("c.yaml", status=1)["run"]
        self.write("train.sh", "ls $DLFLOW_CHECKPOINTS; echo end\n")
        self.dlflow("resubmit", run, "--with-new-sources")
        self.assertEqual(self.dlflow("logs", run, "a")[0], "end\n")
        self.assertTrue((self.folder / "dlflow-runs" / run / "steps/a/attempt-1/checkpoints/n").exists())

    def test_a_kill_leaves_only_results_of_the_sources_that_the_plan_names(self):
        """After a kill the same command completes the work; until then no result of the old sources counts as new."""
        for point in ("withdrawn-results:1", "planned-anew:1"):
            with self.subTest(point):
                self.write("bad.py", "print('fine')\n")
                self.write("good.py", "import pathlib, os\npathlib.Path(os.environ['DLFLOW_OUTPUTS'], 'good.txt').write_text('%s 1')\n" % point)
                run = self.run_json("w.yaml", "--no-cache")["run"]
                self.write("good.py", (self.folder / "good.py").read_text().replace(" 1'", " 2'"))
                self.dlflow("resubmit", run, "--with-new-sources", env={"DLFLOW_CRASH_AT": point}, status=-9)
                self.assertEqual(self.plan(run)["sources"], "sources")
                self.assertFalse(os.path.lexists(self.folder / "dlflow-runs" / run / "steps/good/outputs"))
                self.trace()
                self.dlflow("resubmit", run, "--with-new-sources")
                self.assertEqual(self.trace(), ["bad", "end", "good"])
                text = {s["name"]: s for s in self.status(run)["steps"]}["good"]["outputs"]["text"]
                self.assertEqual(open(text).read(), f"{point} 2")


class NewSourcesOfAChain(ChainCase):
    def test_a_chain_takes_corrected_sources(self):
        self.write("bad.sh", "exit 3\n")
        self.workflow(good=f"run: 'echo good >> {self.folder}/trace'",
                      bad=f"run: 'echo bad >> {self.folder}/trace; sh bad.sh', inputs: [bad.sh], needs: [good]",
                      end=f"run: 'echo end >> {self.folder}/trace', needs: [bad]")
        run = self.submit()
        self.wait_for(lambda: self.states(run).get("bad") == "failed", what="the failure")
        self.write("bad.sh", "exit 0\n")
        self.dlflow("resubmit", run, "--with-new-sources")
        self.wait_for(lambda: set(self.states(run).values()) == {"succeeded"}, what="the end")
        self.assertEqual(sorted(self.trace()), ["bad", "bad", "end", "good"])

    def test_a_named_step_of_a_chain_needs_no_failure_if_its_sources_changed(self):
        self.write("a.sh", "exit 0\n")
        self.workflow(a=f"run: 'echo a >> {self.folder}/trace; sh a.sh', inputs: [a.sh]")
        run = self.submit()
        self.wait_for(lambda: self.states(run).get("a") == "succeeded", what="the end")
        self.write("a.sh", "true\n")
        self.dlflow("resubmit", run, "--step", "a", "--with-new-sources")
        self.wait_for(lambda: self.trace() == ["a", "a"] and self.states(run)["a"] == "succeeded", what="the second end")

    def test_a_job_that_waits_with_the_old_sources_is_named(self):
        self.nothing_runs()
        self.write("a.sh", "exit 3\n")
        self.workflow(a="run: 'sh a.sh', inputs: [a.sh]")
        run = self.submit()
        self.write("a.sh", "exit 0\n")
        _, err = self.dlflow("resubmit", run, "--with-new-sources", status=2)
        self.assertIn(f"type `dlflow cancel {run} --step a`, then repeat", err)


if __name__ == "__main__":
    main()
