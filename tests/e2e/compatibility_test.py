"""Files of dlflow 0.9.0 opened by the current dlflow: a workflow, a run, a bundle, a data set and a checkpoint (docs/operator/upgrades.md).

The folder written_by_0.9.0 must not change. `@HERE@` in the files of the run stands for the folder of the workflow."""

import shutil
import subprocess

from support import BIN, ROOT, Case, main

WRITTEN = ROOT / "tests/e2e/written_by_0.9.0"
RUN = "kept-55482797"


class Compatibility(Case):
    def setUp(self):
        super().setUp()
        for file in WRITTEN.iterdir():
            shutil.copy(file, self.folder)
        (self.folder / "dlflow-runs").mkdir()
        subprocess.run(["tar", "-C", "dlflow-runs", "-xzf", "run.tar.gz"], cwd=self.folder, check=True)
        self.run_folder = self.folder / "dlflow-runs" / RUN
        for file in self.run_folder.rglob("*"):
            if file.is_file() and not file.is_symlink() and b"@HERE@" in (content := file.read_bytes()):
                file.write_bytes(content.replace(b"@HERE@", str(self.folder).encode()))

    def test_the_workflow_is_valid(self):
        self.assertEqual(self.dlflow("validate", "workflow.yaml"), ("", ""))

    def test_the_run_is_shown(self):
        self.assertIn(RUN, self.dlflow("doctor", "--rebuild", "dlflow-runs")[0])
        self.assertEqual(self.states(RUN), {name: "succeeded" for name in ("data", "train[lr=0.1]", "train[lr=0.05]", "best")})
        self.assertIn("best: train[lr=0.05], accuracy 0.625", " ".join(self.dlflow("results", RUN, "--sort", "accuracy")[0].split()))
        self.assertIn("samples", self.dlflow("logs", RUN, "data")[0])
        self.dlflow("report", RUN, "-o", "run.html")
        self.assertIn(RUN, (self.folder / "run.html").read_text())

    def test_the_run_goes_on(self):
        self.dlflow("doctor", "--rebuild", "dlflow-runs")
        if not (BIN / "dlflow-train").exists():
            self.skipTest("dlflow-train was not built")
        (self.run_folder / "bin").mkdir()  # the place of the programs of 0.9.0
        for program in ("dlflow", "dlflow-train"):
            shutil.copy(BIN / program, self.run_folder / "bin")
        with open(self.folder / "points.csv", "a") as points:
            points.write("0.1,0.2,0\n")
        self.dlflow("resubmit", RUN, "--with-new-sources")
        self.assertEqual(set(self.states(RUN).values()), {"succeeded"})
        self.assertEqual({step["attempt"] for step in self.status(RUN)["steps"]}, {2})

    def test_the_bundle_is_unpacked_and_run(self):
        self.assertIn("by dlflow 0.9.0", self.dlflow("unpack", "--list", "kept.dlflow")[0])
        run = self.run_json("kept.dlflow", "--until", "data")["run"]
        self.assertEqual(self.states(run)["data"], "succeeded")

    def test_data_and_checkpoints_are_read(self):
        points, = self.run_folder.glob("steps/data/attempt-*/pass-*/outputs/points")
        self.dlflow("data", "verify", str(points))
        self.write_steps(f"""
            best: {{uses: checkpoint, with: {{from: {self.run_folder}/steps/train/lr=0.1/checkpoints, select: latest, export: safetensors}}}}
        """)
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.states(run), {"best": "succeeded"})


if __name__ == "__main__":
    main()
