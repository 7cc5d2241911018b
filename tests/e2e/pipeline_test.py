"""A whole pipeline with the real programs: stage, train on two ranks, choose, evaluate; interrupted and resumed."""

import os
import signal
import sys

from support import ROOT, Case, main

sys.path.insert(0, str(ROOT / "tests/support"))
import pictures  # noqa: E402


class Pipeline(Case):
    """Uses pictures that any network learns: class k has a bright block at place k."""

    def setUp(self):
        super().setUp()
        names = [file.name for file in pictures.write(self.folder)]
        sources = "\n".join(f"                  - {{url: 'file://{self.folder}/{n}', unpack: gzip}}" for n in names)
        (self.folder / "models").symlink_to(ROOT / "workflows" / "models")
        self.write("w.yaml", f"""
            name: w
            params: {{epochs: 2, ranks: 2, model: mlp}}
            steps:
              data:
                uses: stage
                with:
                  sources:
{sources}
              train:
                uses: train
                resources: {{ranks: '${{{{ params.ranks }}}}'}}
                with:
                  model: models/${{{{ params.model }}}}.yaml
                  data: ${{{{ steps.data.outputs.path }}}}
                  epochs: ${{{{ params.epochs }}}}
                  lr: 0.05
                  validation: 200
                checkpoint: {{every: 5 steps, keep: 2}}
              best:
                uses: checkpoint
                with: {{from: '${{{{ steps.train.outputs.checkpoints }}}}', select: max accuracy, export: safetensors}}
              evaluate:
                uses: evaluate
                with:
                  checkpoint: ${{{{ steps.best.outputs.checkpoint }}}}
                  data: ${{{{ steps.data.outputs.path }}}}
                require: {{accuracy: '>= 0.9'}}
        """)

    def exported(self, run):
        folder = self.folder / "dlflow-runs" / run / "steps" / "best" / "outputs"
        return next(folder.glob("*.safetensors")).read_bytes()

    def test_archives_become_a_tested_network(self):
        run = self.run_json("w.yaml", timeout=120)["run"]
        steps = {step["name"]: step for step in self.status(run)["steps"]}
        self.assertGreaterEqual(steps["evaluate"]["metrics"]["accuracy"], 0.9)
        self.assertEqual(steps["train"]["metrics"]["ranks"], 2)
        self.assertGreater(len(self.exported(run)), 1000)
        again = self.run_json("w.yaml")["run"]
        self.assertEqual(set(self.states(again).values()), {"cached"})

    def test_steps_after_a_selection_see_the_parameters_of_the_selected_element(self):
        text = (self.folder / "w.yaml").read_text().replace("lr: 0.05", "lr: ${{ matrix.lr }}")
        text = text.replace("uses: train\n", "uses: train\n    matrix: {lr: '${{ params.rates }}'}\n")
        tell = """
  tell:
    run: [sh, -c, 'echo $0 > $DLFLOW_OUTPUTS/lr', "${{ steps.best.matrix.lr }}"]
    outputs: {lr: lr}
"""
        self.write("sweep.yaml", text.replace("epochs: 2", "epochs: 1, rates: [0.05, 1e-7]").rstrip() + tell)
        first = self.run_json("sweep.yaml", timeout=150)["run"]
        again = self.run_json("sweep.yaml", "--force", "tell")["run"]
        self.assertEqual(self.states(again)["best"], "cached")
        for run in (first, again):
            told = self.folder / "dlflow-runs" / run / "steps/tell/outputs/lr"
            self.assertEqual(told.read_text(), "0.05\n")

    def test_ctrl_c_during_training_and_resume_gives_the_same_bits(self):
        arguments = ["--set", "model=lenet", "--set", "epochs=3"]
        whole = self.run_json("w.yaml", *arguments, "--force", "train", timeout=150)["run"]
        process = self.start("run", "w.yaml", *arguments, "--force", "train", "--force", "best")
        self.wait_for(lambda: len(self.dlflow("status", "--quick", "--quiet")[0].split()) == 2, what="the second run")
        run = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        metrics = self.folder / "dlflow-runs" / run / "steps" / "train" / "attempt-1" / "metrics.jsonl"
        self.wait_for(lambda: metrics.exists() and metrics.read_text(), what="training to begin")
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, out + err)
        train = {s["name"]: s for s in self.status(run)["steps"]}["train"]
        self.assertIn("checkpoint", train["reason"], [train, self.dlflow("logs", run, "train")[0][-6000:]])
        self.dlflow("run", "--resume", run, timeout=150)
        self.assertEqual(self.exported(run), self.exported(whole))

    def test_a_model_that_does_not_fit_is_refused_before_a_job_starts(self):
        self.write("other/m.yaml", "not: a model\n")
        self.write("w2.yaml", (self.folder / "w.yaml").read_text().replace("models/${{ params.model }}.yaml", "other/m.yaml"))
        for verb in (["validate", "w2.yaml"], ["run", "w2.yaml"]):
            self.assertIn("m.yaml:1:1:", self.dlflow(*verb, status=2)[1])
        self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], "")


if __name__ == "__main__":
    main()
