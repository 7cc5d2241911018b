"""Fan-out at run time: a step lists the values of another step's axis."""

import json
import os

from support import Case, main

# Where base/fault.h can kill the engine while it lays out a list.
EXTENSION_POINTS = ["list", "extension", "extended"]

PIPELINE = """
    name: fan
    steps:
      split:
        run: cat {folder}/list.json > parts.json
        inputs: [{{path: {folder}/list.json, hash: content}}]
        outputs: {{parts: parts.json}}
      work:
        matrix: {{part: "${{{{ steps.split.outputs.parts }}}}"}}
        run: echo $DLFLOW_MATRIX_PART >> {folder}/ran; echo "<$DLFLOW_MATRIX_PART>" > o
        outputs: {{o: o}}
      merge:
        run: [sh, -c, 'cat $0 > all', "${{{{ join(steps.work.outputs.o, ' ') }}}}"]
        outputs: {{all: all}}
      beside: {{run: 'true'}}
"""


class FanOut(Case):
    def pipeline(self, values, text=PIPELINE):
        self.list(values)
        self.write("fan.yaml", text.format(folder=self.folder))

    def list(self, values):
        (self.folder / "list.json").write_text(values if isinstance(values, str) else json.dumps(values))

    def ran(self):
        """The values that elements ran with since the last call."""
        file = self.folder / "ran"
        words = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return sorted(words)

    def work(self, run):
        return {job: state for job, state in self.states(run).items() if job.startswith("work")}

    def reason(self, run, job):
        name, _, element = job.rstrip("]").partition("[")
        return next(row["reason"] for row in self.status(run)["steps"] if (row["name"], row["element"] or "") == (name, element))

    def only_run(self):
        return self.dlflow("status", "--quick", "--quiet")[0].split()[0]

    def test_a_step_runs_once_for_each_value_that_another_lists(self):
        self.pipeline(["a", "b", 3, True])
        out, _ = self.dlflow("validate", "fan.yaml")
        out, _ = self.dlflow("run", "fan.yaml", "--dry-run")
        self.assertIn("work[part=?]", out)
        self.assertIn("3 jobs and as many as `split` lists", out)
        run = self.run_json("fan.yaml")["run"]
        self.assertEqual(self.work(run), {f"work[part={value}]": "succeeded" for value in ["a", "b", "3", "true"]})
        self.assertEqual(self.states(run)["merge"], "succeeded")
        self.assertEqual(self.ran(), ["3", "a", "b", "true"])
        self.dlflow("logs", run, "work")
        self.dlflow("results", run)
        self.dlflow("explain", run)
        self.dlflow("status", run)

    def test_the_index_rebuilt_from_the_folder_has_the_same_jobs(self):
        self.pipeline(["a", "b"])
        run = self.run_json("fan.yaml")["run"]
        before = self.status(run)["steps"]
        self.dlflow("doctor", "--rebuild")
        self.assertEqual(self.status(run)["steps"], before)

    def test_elements_are_reused_when_the_list_is_the_same(self):
        self.pipeline(["a", "b"])
        self.run_json("fan.yaml")
        self.ran()
        again = self.run_json("fan.yaml")["run"]
        self.assertEqual(set(self.states(again).values()) - {"cached"}, set())
        self.assertEqual(self.ran(), [])
        self.list(["a", "c"])
        changed = self.run_json("fan.yaml")["run"]
        self.assertEqual(self.ran(), ["a", "c"])  # both depend on the step that writes the list
        self.assertEqual(self.work(changed), {"work[part=a]": "succeeded", "work[part=c]": "succeeded"})

    def test_a_run_goes_on_after_a_kill_between_any_two_effects(self):
        for point in EXTENSION_POINTS:
            with self.subTest(point):
                self.pipeline(["a", "b"])
                (self.folder / "list.json").write_text(json.dumps([point, "b"]))
                self.dlflow("run", "fan.yaml", status=-9, env={"DLFLOW_CRASH_AT": f"{point}:1"})
                run = self.only_run()
                self.assertIn(self.status(run)["state"], ["interrupted", "running"])
                self.dlflow("run", "--resume", run)
                self.assertEqual(self.work(run), {f"work[part={point}]": "succeeded", "work[part=b]": "succeeded"})
                self.assertEqual(self.ran(), sorted([point, "b"]))
                self.assertEqual(sorted(os.listdir(self.folder / "dlflow-runs" / run / "extensions")), ["1.json"])

    def test_a_list_that_changes_in_the_run_replaces_the_earlier_one(self):
        self.pipeline(["a", "b"], PIPELINE.replace("echo $DLFLOW_MATRIX_PART >>",
                                                   "test $DLFLOW_MATRIX_PART != b || exit 1; echo $DLFLOW_MATRIX_PART >>"))
        run = self.run_json("fan.yaml", status=1)["run"]
        self.assertEqual(self.work(run), {"work[part=a]": "succeeded", "work[part=b]": "failed"})
        self.assertEqual(self.ran(), ["a"])
        self.list(["c", "a"])
        self.dlflow("resubmit", run, "--with-new-sources")
        self.assertEqual(self.work(run), {"work[part=c]": "succeeded", "work[part=a]": "succeeded"})
        self.assertEqual(self.ran(), ["a", "c"])
        everything = (self.folder / "dlflow-runs" / run / "steps" / "merge" / "outputs" / "all").read_text()
        self.assertEqual(everything.split(), ["<c>", "<a>"])
        before = self.status(run)["steps"]
        self.dlflow("doctor", "--rebuild")
        self.assertEqual(self.status(run)["steps"], before)
        self.list(["b", "a"])  # an element that was left out returns
        self.dlflow("resubmit", run, "--with-new-sources", status=1)
        self.assertEqual(self.work(run), {"work[part=b]": "failed", "work[part=a]": "succeeded"})

    def test_an_invalid_list_of_values_fails_its_step(self):
        for values, reason in [("[]", "output 'parts' is an empty list"),
                               ('["a", "b", "a"]', "output 'parts' holds a twice"),
                               ("nothing", "output 'parts' is not JSON"),
                               ('{"a": 1}', "output 'parts' is a mapping"),
                               ('["a", null]', "output 'parts' holds null as value 2"),
                               ('[["a"]]', "output 'parts' holds a list as value 1"),
                               ('["a", {"b": 1}]', "output 'parts' holds a string and a mapping"),
                               ('[{"a": 1}, {"b": 1}]', "output 'parts' holds mappings with different keys"),
                               (list(range(10001)), "output 'parts' lists 10,001 values")]:
            with self.subTest(reason):
                self.pipeline(values)
                run = self.run_json("fan.yaml", "--keep-going", status=1)["run"]
                states = self.states(run)
                self.assertIn(states.pop("beside"), ["succeeded", "cached"])
                self.assertEqual(states, {"split": "failed", "work[part=?]": "blocked", "merge": "blocked"})
                self.assertIn(reason, self.reason(run, "split"))
                self.assertEqual(self.reason(run, "work[part=?]"), "waits for split")

    def test_a_run_goes_on_with_a_corrected_list(self):
        self.pipeline("[]")
        run = self.run_json("fan.yaml", status=1)["run"]
        self.list(["a"])
        self.dlflow("resubmit", run, "--with-new-sources")
        self.assertEqual(self.work(run), {"work[part=a]": "succeeded"})
        self.assertEqual(self.states(run)["merge"], "succeeded")

    def test_an_impossible_job_blocks_the_elements_of_the_list(self):
        self.pipeline([1, 0], PIPELINE.replace("outputs: {{o: o}}", """outputs: {{o: o}}
        resources: {{cpus_per_rank: "${{{{ matrix.part }}}}"}}"""))
        run = self.run_json("fan.yaml", "--keep-going", status=1)["run"]
        self.assertEqual(self.states(run)["split"], "succeeded")
        self.assertEqual(self.work(run), {"work[part=?]": "blocked"})
        self.assertIn("work[part=0]", self.reason(run, "work[part=?]"))

    def test_mappings_combine_with_other_axes_and_from_step_to_step(self):
        self.pipeline([{"name": "x", "size": 1}, {"name": "y", "size": 2}])
        self.write("fan.yaml", f"""
            name: fan
            steps:
              split: {{run: cat {self.folder}/list.json > parts.json, outputs: {{parts: parts.json}}}}
              prep:
                matrix: {{case: "${{{{ steps.split.outputs.parts }}}}"}}
                run: echo $DLFLOW_MATRIX_CASE_NAME $DLFLOW_MATRIX_CASE_SIZE > o
                outputs: {{o: o}}
              train:
                matrix: {{case: "${{{{ steps.split.outputs.parts }}}}", lr: [1, 2]}}
                env: {{FROM: "${{{{ steps.prep.outputs.o }}}}", SIZE: "${{{{ matrix.case.size + 1 }}}}"}}
                run: echo $(cat $FROM) $SIZE $DLFLOW_MATRIX_LR > o
                outputs: {{o: o}}
        """)
        run = self.run_json("fan.yaml")["run"]
        read = lambda element: (self.folder / "dlflow-runs" / run / "steps" / "train" / element / "outputs/o").read_text()
        self.assertEqual(read("case=y,lr=2").split(), ["y", "2", "3", "2"])
        self.assertEqual(read("case=x,lr=1").split(), ["x", "1", "2", "1"])

    def test_a_list_of_a_list_makes_one_extension_after_the_other(self):
        self.write("fan.yaml", """
            name: fan
            steps:
              first: {run: 'echo [1, 2] > l', outputs: {l: l}}
              mid: {matrix: {a: "${{ steps.first.outputs.l }}"}, run: 'true'}
              second: {needs: [mid], run: 'echo [3] > l', outputs: {l: l}}
              last: {matrix: {a: "${{ steps.first.outputs.l }}", b: "${{ steps.second.outputs.l }}"}, run: 'true'}
              end: {needs: [last, mid], run: 'true'}
        """)
        run = self.run_json("fan.yaml")["run"]
        self.assertEqual(list(self.states(run)), ["first", "mid[a=1]", "mid[a=2]", "second", "last[a=1,b=3]", "last[a=2,b=3]", "end"])
        self.assertEqual(set(self.states(run).values()), {"succeeded"})

    def test_other_steps_are_not_disturbed_by_a_list(self):
        go = self.folder / "go"
        self.write("fan.yaml", f"""
            name: fan
            steps:
              split: {{run: 'echo [1, 2] > l', outputs: {{l: l}}}}
              work: {{matrix: {{a: "${{{{ steps.split.outputs.l }}}}"}}, run: 'touch {go}'}}
              long: {{run: 'echo >> {self.folder}/long; while [ ! -e {go} ]; do sleep 0.05; done'}}
              after: {{needs: [long], run: 'true'}}
        """)
        run = self.run_json("fan.yaml")["run"]
        self.assertEqual(set(self.states(run).values()), {"succeeded"})
        self.assertEqual((self.folder / "long").read_text(), "\n")

    def test_a_list_that_was_edited_by_hand_is_refused(self):
        self.pipeline(["a"])
        self.dlflow("run", "fan.yaml", status=-9, env={"DLFLOW_CRASH_AT": "list:1"})
        run = self.only_run()
        parts = self.folder / "dlflow-runs" / run / "steps" / "split" / "outputs" / "parts.json"
        parts.chmod(0o600)
        parts.write_text('["b"]')
        self.dlflow("run", "--resume", run, status=1)
        self.assertEqual(self.work(run), {"work[part=?]": "blocked"})
        self.assertIn("was changed after its step had ended", self.reason(run, "work[part=?]"))

    def test_a_step_that_was_skipped_lists_nothing(self):
        self.pipeline(["a"], PIPELINE.replace("inputs: [", "if: false\n        inputs: ["))
        run = self.run_json("fan.yaml")["run"]
        self.assertEqual(self.states(run), {"split": "skipped", "work[part=?]": "skipped", "merge": "skipped",
                                            "beside": "succeeded"})


if __name__ == "__main__":
    main()
