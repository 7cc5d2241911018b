"""Steps whose axes differ from their parents'; mappings and zip as axes; arithmetic."""

import json
import pathlib

from support import Case, main


class Axes(Case):
    def output(self, run, job, name="o"):
        step, _, element = job.rstrip("]").partition("[")
        return (self.folder / "dlflow-runs" / run / "steps" / step / element / "outputs" / name).read_text().split()

    def sweep(self):
        self.write("sweep.yaml", """
            name: sweep
            params: {sets: [x, y]}
            steps:
              prep:
                matrix: {data: "${{ params.sets }}"}
                run: echo prep $DLFLOW_MATRIX_DATA > $DLFLOW_OUTPUTS/o
                outputs: {o: o}
              train:
                matrix: {data: "${{ params.sets }}", lr: [1, 2]}
                run: echo $(cat $FROM) $DLFLOW_MATRIX_LR > $DLFLOW_OUTPUTS/o
                env: {FROM: "${{ steps.prep.outputs.o }}"}
                outputs: {o: o}
              best:
                matrix: {data: "${{ params.sets }}"}
                run: cat $FROM > $DLFLOW_OUTPUTS/o
                env: {FROM: "${{ join(steps.train.outputs.o, ' ') }}"}
                outputs: {o: o}
        """)

    def test_each_element_gets_its_own_parent_and_joins_its_own_list(self):
        self.sweep()
        run = self.run_json("sweep.yaml")["run"]
        self.assertEqual(self.output(run, "train[data=y,lr=1]"), ["prep", "y", "1"])
        self.assertEqual(self.output(run, "best[data=x]"), ["prep", "x", "1", "prep", "x", "2"])
        out, _ = self.dlflow("run", "sweep.yaml", "--dry-run", "--json")
        needs = {job["job"]: job["needs"] for job in json.loads(out)["jobs"]}
        self.assertEqual(needs["train[data=x,lr=2]"], ["prep[data=x]"])
        self.assertEqual(needs["best[data=y]"], ["train[data=y,lr=1]", "train[data=y,lr=2]"])

    def test_a_new_element_runs_alone_and_the_others_are_reused(self):
        self.sweep()
        self.run_json("sweep.yaml")
        again = self.run_json("sweep.yaml", "--set", "sets=[x, y, z]")["run"]
        states = self.states(again)
        self.assertEqual({job for job, state in states.items() if state == "succeeded"},
                         {"prep[data=z]", "train[data=z,lr=1]", "train[data=z,lr=2]", "best[data=z]"})

    def test_a_failed_element_blocks_only_elements_with_its_values(self):
        self.write_steps("""
            prep: {matrix: {data: [x, y]}, run: '[ $DLFLOW_MATRIX_DATA != x ]'}
            train: {matrix: {data: [x, y], lr: [1, 2]}, run: 'true', needs: [prep]}
        """)
        run = self.run_json("w.yaml", "--keep-going", status=1)["run"]
        self.assertEqual({job for job, state in self.states(run).items() if state == "blocked"},
                         {"train[data=x,lr=1]", "train[data=x,lr=2]"})

    def test_mappings_advance_together_and_their_values_reach_the_program(self):
        self.write_steps("""
            t:
              matrix:
                case:
                  - {model: lenet, batch: 64}
                  - {model: mlp, batch: 128}
              run: echo $DLFLOW_MATRIX_CASE_MODEL $TWICE $DLFLOW_MATRIX_CASE > $DLFLOW_OUTPUTS/o
              env: {TWICE: "${{ matrix.case.batch * 2 }}"}
              resources: {memory: "${{ matrix.case.batch * 2 }}MiB"}
              outputs: {o: o}
        """)
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.output(run, "t[case.batch=64,case.model=lenet]"),
                         ["lenet", "128", '{"batch":64,"model":"lenet"}'])

    def test_the_name_of_a_mapping_names_its_element(self):
        self.write_steps("""
            t:
              matrix: {case: [{name: small, n: 1}, {name: large, n: 2}], lr: [1]}
              run: 'true'
        """)
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(set(self.states(run)), {"t[case=small,lr=1]", "t[case=large,lr=1]"})
        self.dlflow("results", run)

    def test_zipped_axes_make_pairs(self):
        self.write_steps("""
            t:
              matrix: {net: "${{ params.nets }}", width: "${{ params.widths }}", seed: [1, 2], zip: [net, width]}
              run: 'true'
        """, "params: {nets: [a, b], widths: [8, 16]}")
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(list(self.states(run)),
                         ["t[net=a,seed=1,width=8]", "t[net=a,seed=2,width=8]",
                          "t[net=b,seed=1,width=16]", "t[net=b,seed=2,width=16]"])

    def test_a_sweep_with_allowed_failures_ends_well_and_uses_the_successful_elements(self):
        self.write_steps(f"""
            train:
              matrix: {{n: [0, 1, 2]}}
              allow_failure: true
              run: '[ $DLFLOW_MATRIX_N != 1 ] || [ -e {self.folder}/mended ]; echo $DLFLOW_MATRIX_N > $DLFLOW_OUTPUTS/o'
              outputs: {{o: o}}
            best:
              run: cat $FROM > $DLFLOW_OUTPUTS/o
              env: {{FROM: "${{{{ join(steps.train.outputs.o, ' ') }}}}"}}
              outputs: {{o: o}}
        """)
        result = self.run_json("w.yaml")  # exit status 0
        run = result["run"]
        self.assertEqual(result["state"], "succeeded")
        self.assertEqual(self.output(run, "best"), ["0", "2"])
        out, _ = self.dlflow("status", run)
        self.assertIn("exit 1; which is allowed", " ".join(out.split()))
        self.assertNotIn("Again:", out)
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run, "--step", "train")
        self.assertEqual(self.output(run, "best"), ["0", "1", "2"])
        # A result of fewer elements does not stand for a result of all, nor the other way round.
        again = self.run_json("w.yaml")["run"]
        self.assertEqual(self.states(again)["best"], "cached")
        self.dlflow("doctor", "--rebuild", "dlflow-runs")
        self.assertEqual(self.status(run)["state"], "succeeded")

    def test_a_result_of_fewer_parents_differs_from_one_of_all(self):
        self.write_steps("""
            train:
              matrix: {n: [0, 1]}
              allow_failure: true
              run: '[ $DLFLOW_MATRIX_N != $BAD ]; echo $DLFLOW_MATRIX_N > $DLFLOW_OUTPUTS/o'
              env: {BAD: "${{ params.bad }}"}
              outputs: {o: o}
            best:
              run: echo $FROM | wc -w > $DLFLOW_OUTPUTS/o
              env: {FROM: "${{ join(steps.train.outputs.o, ' ') }}"}
              outputs: {o: o}
        """, "params: {bad: 1}")
        self.assertEqual(self.output(self.run_json("w.yaml")["run"], "best"), ["1"])
        self.assertEqual(self.output(self.run_json("w.yaml", "--set", "bad=7")["run"], "best"), ["2"])
        third = self.status(self.run_json("w.yaml")["run"])["steps"][-1]  # train[n=1] has failed again
        self.assertEqual((third["name"], third["state"]), ("best", "cached"))
        self.assertEqual(pathlib.Path(third["outputs"]["o"]).read_text().split(), ["1"])

    def test_a_cleanup_runs_after_a_failure_in_each_run(self):
        self.write_steps(f"""
            data: {{run: 'exit 3'}}
            train: {{run: 'true', needs: [data]}}
            cleanup: {{run: 'echo clean >> {self.folder}/trace', needs: [train], if: "${{{{ always() }}}}"}}
        """)
        for count in (1, 2):
            run = self.run_json("w.yaml", status=1)["run"]
            self.assertEqual(self.states(run), {"data": "failed", "train": "blocked", "cleanup": "succeeded"})
            self.assertEqual(len((self.folder / "trace").read_text().split()), count)

    def test_a_number_that_is_not_an_integer_is_refused_if_one_is_needed(self):
        self.write_steps("""
            t: {run: 'true', resources: {ranks: "${{ params.n / 2 }}"}}
        """, "params: {n: 6}")
        _, err = self.dlflow("validate", "w.yaml", status=2)
        self.assertIn("resources.ranks of step 't' must be a positive integer or auto, not 3.0", err)


if __name__ == "__main__":
    main()
