"""Views of runs: status, logs, results, explain, list, doctor; the choice of run and job, and the order."""

import json
import re

from support import Case, main

TWO_RUNS = """
    name: sweep
    params: {scale: 1}
    steps:
      fit:
        matrix: {lr: [1, 2, 3]}
        run: 'echo "{\\"loss\\": $((DLFLOW_MATRIX_LR * DLFLOW_PARAM_SCALE))}" > $DLFLOW_SUMMARY; echo out $DLFLOW_MATRIX_LR; echo err >&2'
      last: {run: 'echo the last; exit 0', needs: [fit]}
"""
FAILS = """
    name: fails
    steps:
      good: {run: [echo, fine]}
      bad: {run: 'echo broken; exit 3', needs: [good]}
      never: {run: [echo, never], needs: [bad]}
"""


class Views(Case):
    def run_of(self, text, *args, status=0):
        self.write("w.yaml", text)
        return self.run_json("w.yaml", *args, status=status)["run"]

    def test_logs_show_the_failed_job_or_else_the_last_one(self):
        good = self.run_of(TWO_RUNS)
        self.assertEqual(self.dlflow("logs", good)[0], "the last\n")
        self.assertIn("lr=1 | out 1\nlr=1 | err\nlr=2 | out 2\n", self.dlflow("logs", good, "fit")[0])  # output, then errors
        self.assertEqual(self.dlflow("logs", good, "fit[lr=3]")[0], "out 3\nerr\n")
        self.assertEqual(self.dlflow("logs", good, "last", "--follow")[0], "the last\n")  # the job has ended
        bad = self.run_of(FAILS, status=1)
        self.assertEqual(self.dlflow("logs", bad)[0], "broken\n")
        self.assertEqual(self.dlflow("logs")[0], "broken\n")  # the newest run
        self.assertEqual(self.dlflow("logs", bad, "good"), ("fine\n", ""))
        self.assertRegex(self.dlflow("logs", bad, "never", status=2)[1], r"never has no output: it is blocked, .*bad")
        self.assertIn("has no step or job 'god'; did you mean 'good'", self.dlflow("logs", bad, "god", status=2)[1])

    def test_text_in_the_summary_and_curves_that_are_no_objects_are_named(self):
        run = self.run_of("""
            name: words
            steps:
              a: {run: 'echo "{\\"acc\\": 0.5, \\"kind\\": \\"small\\"}" > $DLFLOW_SUMMARY; echo loss 0.4 > $DLFLOW_METRICS'}
        """)
        self.assertEqual(self.dlflow("logs", run)[0], "warning: $DLFLOW_SUMMARY: 'kind' is the string 'small'; metrics are numbers, so it is left out\n"
                         "warning: $DLFLOW_METRICS: line 1 is not a JSON object, so it is left out: 'loss 0.4';"
                         ' write lines like {"epoch": 1, "loss": 0.4}\n')

    def test_a_pipe_in_place_of_the_curves_stops_nothing(self):
        run = self.run_of("""
            name: pipe
            steps:
              a: {run: 'rm -f "$DLFLOW_METRICS"; mkfifo "$DLFLOW_METRICS"'}
        """)
        self.assertIn("succeeded", self.dlflow("status", run)[0])
        self.dlflow("report", run, "-o", "r.html")

    def test_logs_follow_only_the_requested_job(self):
        self.write("w.yaml", f"""
            name: two
            steps:
              quick: {{run: echo done}}
              slow: {{run: 'until [ -e {self.folder}/go ]; do sleep 0.02; done', needs: [quick]}}
        """)
        engine = self.start("run", "w.yaml")
        self.wait_for(lambda: self.dlflow("status", "--quick", "--quiet")[0].split(), what="the run")
        run = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        self.wait_for(lambda: self.states(run) == {"quick": "succeeded", "slow": "running"}, what="the second job")
        self.assertEqual(self.dlflow("logs", run, "quick", "--follow")[0], "done\n")
        (self.folder / "go").touch()
        engine.communicate()

    def test_logs_follow_a_job_until_it_ends(self):
        self.write("w.yaml", """
            name: slow
            steps:
              a: {run: 'echo begun; while [ ! -e "$GO" ]; do sleep 0.02; done; echo done', env: {GO: "%s"}}
        """ % (self.folder / "go"))
        engine = self.start("run", "w.yaml")
        self.wait_for(lambda: self.dlflow("status", "--quick", "--quiet")[0].split(), what="the run")
        run = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        self.wait_for(lambda: self.states(run) == {"a": "running"}, what="the job")
        self.wait_for(lambda: self.dlflow("logs", run)[0] == "begun\n", what="its first line")
        follower = self.start("logs", run, "--follow")
        self.assertEqual(follower.stdout.readline(), "begun\n")
        self.assertIsNone(follower.poll())
        status = self.start("status", run, "--watch")
        self.assertIn("running", status.stdout.readline())
        (self.folder / "go").write_text("")
        self.assertEqual(follower.communicate(timeout=30)[0], "done\n")
        self.assertEqual(follower.returncode, 0)
        engine.communicate(timeout=30)
        self.assertIn("succeeded", status.communicate(timeout=30)[0])
        self.assertEqual(status.returncode, 0)

    def test_status_lists_all_runs_or_shows_one(self):
        self.assertEqual(self.dlflow("status")[0], "No runs yet. Start one with `dlflow run WORKFLOW`.\n")
        good, bad = self.run_of(TWO_RUNS), self.run_of(FAILS, status=1)
        lines = self.dlflow("status")[0].splitlines()
        self.assertEqual(lines[0].split(), ["RUN", "ON", "STATE", "STEPS", "AGE", "NOW"])
        self.assertEqual({line.split()[0]: line.split()[2] for line in lines[1:]}, {good: "succeeded", bad: "failed"})
        self.assertTrue(next(line for line in lines if line.startswith(bad)).endswith("bad failed"))
        self.assertEqual({run["run"] for run in json.loads(self.dlflow("status", "--json")[0])}, {good, bad})
        self.assertEqual([step["element"] for step in json.loads(self.dlflow("status", good, "--step", "fit", "--json")[0])["steps"]],
                         ["lr=1", "lr=2", "lr=3"])
        out, _ = self.dlflow("status", good, "--step", "fit[lr=2]", "--step", "last")
        self.assertEqual([line.split()[0] for line in out.splitlines()[3:]], ["fit[lr=2]", "last"])
        self.assertIn("has no step or job 'fitt'; did you mean 'fit'", self.dlflow("status", good, "--step", "fitt", status=2)[1])
        for option in (["--long"], ["--step", "fit"]):
            self.assertIn("--long and --step are about one run", self.dlflow("status", *option, status=2)[1])
        self.assertIn("CPU TIME", self.dlflow("status", good, "--long")[0])
        self.assertEqual(self.dlflow("status", good, "--watch")[0], self.dlflow("status", good)[0])

    def test_results_cover_one_run_or_all_of_a_workflow(self):
        first, second = self.run_of(TWO_RUNS), self.run_of(TWO_RUNS, "--set", "scale=10")

        def losses(*args):
            return [(result["run"], result["metrics"]["loss"])
                    for result in json.loads(self.dlflow("results", *args, "--json")[0])]

        self.assertEqual(losses(), [(second, 10), (second, 20), (second, 30)])
        all_of_them = [(first, 1), (first, 2), (first, 3), (second, 10), (second, 20), (second, 30)]
        self.assertEqual(losses("sweep"), all_of_them)  # the oldest first
        self.assertEqual(losses(second, first), all_of_them[3:] + all_of_them[:3])
        self.assertEqual([loss for _, loss in losses("sweep", "--sort", "loss")], [1, 2, 3, 10, 20, 30])
        self.assertEqual([loss for _, loss in losses("sweep", "--sort", "loss", "--reverse")], [30, 20, 10, 3, 2, 1])
        self.assertEqual(len(losses(first, "--step", "fit")), 3)
        self.run_of(TWO_RUNS, "--set", "scale=10")  # reuses all
        self.assertEqual(losses("sweep"), all_of_them)
        failed = self.run_of("name: f\nsteps: {a: {run: exit 3}}\n", status=1)
        self.assertIn(f"no job of {failed} has succeeded with metrics; `dlflow status {failed}` shows why", self.dlflow("results", failed, "--sort", "loss", status=2)[1])
        without = self.run_of(FAILS, status=1)
        self.assertIn("No step has written metrics yet", self.dlflow("results", without)[0])
        self.assertIn("--csv cannot be used with --json", self.dlflow("results", "--csv", "--json", status=2)[1])

    def test_explain_covers_a_run_or_a_workflow_or_one_of_their_steps(self):
        run = self.run_of(TWO_RUNS)
        self.assertEqual(re.sub(" +", " ", self.dlflow("explain", "w.yaml", "fit")[0]),
                         f"fit x3 reused from {run} nothing relevant changed\n")
        explained = json.loads(self.dlflow("explain", "w.yaml", "fit[lr=2]", "--json")[0])
        self.assertEqual([(each["job"], each["verdict"], each["from"]) for each in explained], [("fit[lr=2]", "reused", run)])
        self.assertEqual([each["job"] for each in json.loads(self.dlflow("explain", run, "--json")[0])],
                         ["fit[lr=1]", "fit[lr=2]", "fit[lr=3]", "last"])
        self.assertIn("parameter scale: 1 → 2", self.dlflow("explain", "w.yaml", "--set", "scale=2")[0])
        out = re.sub(" +", " ", self.dlflow("explain", run)[0])
        self.assertEqual(out, "fit x3 ran there is no earlier result\nlast ran there is no earlier result\n")
        again = self.run_json("w.yaml")["run"]
        self.assertIn(f"last reused from {run} nothing relevant changed", re.sub(" +", " ", self.dlflow("explain", again)[0]))
        self.assertIn("has no step 'fi'; did you mean 'fit'?", self.dlflow("explain", "w.yaml", "fi", status=2)[1])

    def test_the_index_is_rebuilt_from_the_named_folders(self):
        run = self.run_of(TWO_RUNS)
        folder = self.folder / "dlflow-runs" / run
        (self.folder / "dlflow-runs/.hidden").mkdir()
        (self.folder / "dlflow-runs/.hidden/plan.json").write_text("{}")
        for argument in ([], [folder], ["dlflow-runs"]):
            self.assertEqual(self.dlflow("doctor", "--rebuild", *argument), (f"{run}\n", ""))
        self.assertIn("nowhere: No such file", self.dlflow("doctor", "--rebuild", "nowhere", status=2)[1])
        self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], f"{run}\n")
        self.assertEqual(self.states(run)["last"], "succeeded")


if __name__ == "__main__":
    main()
