"""Steps that share some axes, allowed failures, and steps that always run, on a real SLURM."""

import cluster
from chains import Chain


class Axes(Chain):
    def squeue(self, form):
        return self.alpha.run(["squeue", "--me", "--noheader", f"--format={form}"]).stdout

    def test_an_element_waits_for_its_own_parent_and_joins_its_own_list(self):
        self.write_steps("sweep", f"""
            prep: {self.step("prep-$DLFLOW_MATRIX_D", ", matrix: {d: [x, y]}")}
            train:
              matrix: {{d: [x, y], lr: [1, 2]}}
              needs: [prep]
              run: |
                grep -q prep-$DLFLOW_MATRIX_D {self.folder}/trace
                echo train-$DLFLOW_MATRIX_D >> {self.folder}/trace
            best: {self.step("best-$DLFLOW_MATRIX_D", ", matrix: {d: [x, y]}, needs: [train]")}
        """)
        run = self.submit()
        names = self.squeue("%F %E")
        self.wait_for(run, {"best[d=x]": "succeeded", "best[d=y]": "succeeded"})
        trace = self.trace()
        self.assertEqual(trace.count("train-x"), 2)
        for d in "xy":
            last = max(i for i, word in enumerate(trace) if word == f"train-{d}")
            self.assertLess(last, trace.index(f"best-{d}"))
        ids = self.ids(run)
        self.assertEqual(ids["train[d=x,lr=1]"].split("_")[0], ids["train[d=x,lr=2]"].split("_")[0])
        self.assertNotEqual(ids["train[d=x,lr=1]"].split("_")[0], ids["train[d=y,lr=1]"].split("_")[0])
        self.assertNotIn("aftercorr", names)

    def test_a_job_submits_the_array_that_it_has_listed(self):
        self.write_steps("fan", f"""
            split: {{run: 'echo [1, 2, 3] > l', outputs: {{l: l}}}}
            work:
              matrix: {{n: "${{{{ steps.split.outputs.l }}}}"}}
              run: echo $DLFLOW_MATRIX_N | tee -a {self.folder}/trace > o
              outputs: {{o: o}}
            merge: {{run: [sh, -c, 'cat $0 > {self.folder}/all', "${{{{ join(steps.work.outputs.o, ' ') }}}}"]}}
        """)
        run = self.submit()
        cluster.wait_until(lambda: self.states(run).get("merge") == "succeeded", 90, "the job's own submission")
        self.assertEqual(sorted(self.trace()), ["1", "2", "3"])
        self.assertEqual((self.folder / "all").read_text().split(), ["1", "2", "3"])
        ids = self.ids(run)
        self.assertEqual(len({ids[f"work[n={n}]"].split("_")[0] for n in (1, 2, 3)}), 1)
        self.assertEqual(self.status(run)["state"], "succeeded")

    def test_packed_elements_share_a_task_and_each_has_its_own_end(self):
        """The second one fails, the third is cancelled while it runs, and then the fourth has its turn."""
        self.write_steps("packed", f"""
            score:
              matrix: {{n: [1, 2, 3, 4, 5], pack: 4}}
              resources: {{walltime: 1m}}
              run: |
                echo $DLFLOW_MATRIX_N >> {self.folder}/trace
                [ $DLFLOW_MATRIX_N != 2 ] || [ -e {self.folder}/mended ] || exit 3
                [ $DLFLOW_MATRIX_N != 3 ] || [ -e {self.folder}/mended ] || sleep 50
            last:
              matrix: {{n: [1, 2, 3, 4, 5], pack: 4}}
              resources: {{walltime: 1m}}
              needs: [score]
              run: 'true'
        """)
        run = self.submit()
        self.wait_for(run, {"score[n=2]": "failed", "score[n=3]": "running", "score[n=5]": "succeeded"}, timeout=90)
        self.assertEqual(self.states(run)["score[n=4]"], "queued")
        self.assertIn("waits for its turn in SLURM job", " ".join(self.dlflow("status", run).stdout.split()))
        self.dlflow("cancel", run, "--step", "score[n=3]")
        self.wait_for(run, {"score[n=3]": "cancelled", "score[n=4]": "succeeded", "last[n=4]": "succeeded",
                            "last[n=2]": "blocked", "last[n=3]": "blocked"}, timeout=90)
        ids = self.ids(run)
        self.assertEqual(len({ids[f"score[n={n}]"] for n in (1, 2, 3, 4)}), 1)
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run)
        self.wait_for(run, {job: "succeeded" for job in ids}, timeout=120)
        self.assertEqual(sorted(self.trace()), ["1", "2", "2", "3", "3", "4", "5"])

    def test_a_sweep_with_allowed_failures_goes_on_by_itself(self):
        self.write_steps("may", f"""
            train:
              matrix: {{n: [0, 1, 2]}}
              allow_failure: true
              run: '[ $DLFLOW_MATRIX_N != 1 ] && echo $DLFLOW_MATRIX_N > $DLFLOW_OUTPUTS/m'
              outputs: {{m: m}}
            eval:
              matrix: {{n: [0, 1, 2]}}
              run: cat $FROM > $DLFLOW_OUTPUTS/s
              env: {{FROM: "${{{{ steps.train.outputs.m }}}}"}}
              outputs: {{s: s}}
            best:
              run: 'cat $FROM >> {self.folder}/trace'
              env: {{FROM: "${{{{ join(steps.eval.outputs.s, ' ') }}}}"}}
        """)
        run = self.submit()
        self.wait_for(run, {"train[n=1]": "failed", "eval[n=1]": "skipped", "best": "succeeded"})
        self.assertEqual(self.trace(), ["0", "2"])
        self.assertEqual(self.status(run)["state"], "succeeded")

    def test_a_cleanup_runs_although_the_chain_broke_long_before_it(self):
        self.write_steps("clean", f"""
            data: {{run: '[ -e {self.folder}/mended ]'}}
            prep: {self.step("prep", ", needs: [data]")}
            train: {self.step("train", ", needs: [prep]")}
            cleanup:
              run: 'echo cleanup >> {self.folder}/trace'
              needs: [train]
              if: "${{{{ always() }}}}"
        """)
        run = self.submit()
        self.wait_for(run, {"data": "failed", "train": "blocked", "cleanup": "succeeded"}, timeout=150)
        self.assertEqual(self.trace(), ["cleanup"])
        self.assertEqual(self.status(run)["state"], "failed")
        (self.folder / "mended").touch()
        self.dlflow("resubmit", run)
        self.wait_for(run, {"train": "succeeded", "cleanup": "succeeded"}, timeout=150)
        self.assertEqual(self.trace(), ["cleanup", "prep", "train", "cleanup"])


if __name__ == "__main__":
    cluster.main()
