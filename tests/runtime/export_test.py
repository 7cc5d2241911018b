"""The use of a trained network outside of dlflow-train: predictions, and files for PyTorch and onnxruntime, loaded as in
docs/user/model-format.md."""

import csv
import json
import pathlib
import re
import subprocess
import sys
import unittest

from training_case import BIN, ROOT, TrainingCase, main

PAGE = ROOT / "docs/user/model-format.md"
VENV = BIN.parent / "venv"  # made by tests/python/make_venv
ONNX = VENV / "bin/python"
# Debian's Python has PyTorch and its own NumPy; safetensors is in VENV.
WITH_SAFETENSORS = f"import sys\nsys.path += {[str(path) for path in VENV.glob('lib/python3.*/site-packages')]}\n"


def code_of(heading):
    """The Python code that PAGE shows after `heading`."""
    text = PAGE.read_text()
    return re.search(r"```python\n(.*?)```", text[text.index(f"**{heading}**"):], re.DOTALL)[1]


def can_run(python, code):
    return pathlib.Path(python).exists() and subprocess.run([python, "-c", code], capture_output=True).returncode == 0


class Export(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.data / "classes.txt").write_text("".join(f"kind {i}, of ten\n" for i in range(10)))
        cls.trained = cls().folder("train", epochs=1)
        cls().train(cls.trained, 1)

    def runTest(self):
        pass

    def new(self, name, **settings):
        """A folder whose with.json names the trained checkpoint."""
        folder = self.folder(name)
        (folder / "with.json").write_text(json.dumps({"checkpoint": str(self.trained / "checkpoints/latest"), "data": str(self.data)} | settings))
        return folder

    def predict(self, ranks=1, **settings):
        """The content of the file of predictions."""
        folder = self.new("predict", **settings)
        status, _, errors = self.run_to_end(folder, ranks, "dlflow-predict")
        self.assertEqual(status, 0, errors)
        name = json.loads((folder / "outputs/outputs.json").read_text())["predictions"]
        self.assertEqual(sorted(file.name for file in (folder / "outputs").iterdir()), ["outputs.json", name])
        return (folder / "outputs" / name).read_bytes()

    def test_predictions_match_the_evaluation_on_any_number_of_ranks_and_shards(self):
        folder = self.new("evaluate")
        self.assertEqual(self.run_to_end(folder, 1, "dlflow-evaluate")[0], 0)
        accuracy = json.loads((folder / "metrics.json").read_text())["accuracy"]
        whole = self.predict(batch=64)
        rows = list(csv.DictReader(whole.decode().splitlines()))
        self.assertEqual([int(row["sample"]) for row in rows], list(range(500)))
        self.assertEqual(sum(row["label"] == row["prediction"] for row in rows) / 500, accuracy)
        self.assertRegex(rows[0]["label"], r"^kind \d, of ten$")
        self.assertTrue(all(0.1 <= float(row["probability"]) <= 1 for row in rows))
        self.assertEqual(self.predict(ranks=3, batch=64), whole)
        parts = [self.predict(batch=64, shard=shard, shards=3) for shard in range(3)]
        head = whole.splitlines(keepends=True)[0]
        self.assertEqual(head + b"".join(part.removeprefix(head) for part in parts), whole)

    def test_predictions_that_cannot_be_made_are_refused_with_the_reason(self):
        for settings, error in (({"shard": 2, "shards": 2}, "with: 'shard' is 2, but the 2 shards are numbered from 0"),
                                ({"format": "hdf5"}, "with: 'format' must be 'csv' or 'npy'"),
                                ({"split": "all"}, "with: 'split' must be 'test' or 'train'"),
                                ({"checkpoint": str(self.data)}, "is not a checkpoint: it has no manifest.json")):
            with self.subTest(settings):
                status, _, errors = self.run_to_end(self.new("bad", **settings), 1, "dlflow-predict")
                self.assertEqual(status, 1)
                self.assertIn(error, errors)

    def scores(self, folder, python, code):
        """Runs the page's code in `folder`, on the test images; its scores and those of dlflow-predict, as numpy.allclose compares them."""
        (folder / "predictions.npy").write_bytes(self.predict(format="npy"))
        images = self.data / "t10k-images-idx3-ubyte"
        before = f"import numpy\nnumpy.save('images.npy', numpy.fromfile({str(images)!r}, 'u1')[16:].reshape(-1, 1, 28, 28))\n"
        after = "\nimport numpy\nours = numpy.load('predictions.npy')\nassert ours.shape == (500, 10), ours.shape\n" \
                "assert abs(numpy.asarray(scores) - ours).max() < 1e-4, abs(numpy.asarray(scores) - ours).max()\n"
        done = subprocess.run([python, "-B", "-c", before + code + after], cwd=folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(can_run(ONNX, "import onnxruntime"), "onnxruntime is not in build/venv (tests/python/make_venv)")
    def test_onnxruntime_gives_the_same_scores(self):
        folder = self.exported("onnx")
        self.scores(folder, ONNX, code_of("onnxruntime"))
        said = subprocess.run([ONNX, "-c", "import onnxruntime as o; print(o.InferenceSession('model.onnx').get_modelmeta().custom_metadata_map['classes'])"],
                              cwd=folder, text=True, capture_output=True, check=True).stdout
        self.assertEqual(json.loads(said)[9], "kind 9, of ten")

    @unittest.skipUnless(can_run("/usr/bin/python3", WITH_SAFETENSORS + "import safetensors.torch"), "PyTorch or safetensors is missing")
    def test_pytorch_gives_the_same_scores(self):
        self.scores(self.exported("safetensors"), "/usr/bin/python3", WITH_SAFETENSORS + code_of("PyTorch"))

    def test_an_onnx_file_is_imported_and_trained_on(self):
        folder = self.exported("onnx")
        done = subprocess.run([BIN / "dlflow", "model", "import", "model.onnx", "-o", "again.yaml", "--json"], cwd=folder, text=True, capture_output=True, check=True)
        imported = json.loads(done.stdout)
        self.assertEqual((imported["model"], imported["weights"], imported["layers"]), ("again.yaml", "again.safetensors", 9))
        self.assertEqual(imported["parameters"], 1199882)
        self.assertEqual(len(imported["notes"]), 1)
        self.assertRegex(imported["notes"][0], r"normalises its input by mean \[[\d.]+\] and std \[[\d.]+\]")
        self.assertIn("  - conv2d: {name: conv1, channels: 32, kernel: 3}\n", (folder / "again.yaml").read_text())
        again = subprocess.run([BIN / "dlflow", "model", "import", "model.onnx", "-o", "again.yaml"], cwd=folder, text=True, capture_output=True)
        self.assertEqual(again.returncode, 2)
        self.assertIn("error: again.yaml already exists; remove it, or write to another file with -o", again.stderr)
        # Steps of next to nothing leave the network as it was.
        resumed = self.folder("resumed", epochs=1, model=str(folder / "again.yaml"), start_from=str(folder / "again.safetensors"), lr=1e-12)
        self.train(resumed, 1)
        before = list(csv.DictReader(self.predict().decode().splitlines()))
        after = list(csv.DictReader(self.predict(checkpoint=str(resumed / "checkpoints/latest")).decode().splitlines()))
        self.assertEqual([row["prediction"] for row in before], [row["prediction"] for row in after])
        for one, other in zip(before, after):
            self.assertAlmostEqual(float(one["probability"]), float(other["probability"]), places=4)


if __name__ == "__main__":
    main()
