"""Networks of two towers, which learn what belongs together: trained, measured, predicted and exported, as processes."""

import json
import os
import pathlib
import random
import struct
import subprocess
import unittest

from training_case import BIN, TrainingCase, main

SIDE, WORDS = 8, 3
MODEL = f"""name: towers
input: [1, {SIDE}, {SIDE}]
loss: contrastive
temperature: 0.1
layers:
  - conv2d: {{channels: 8, kernel: 3}}
  - relu
  - flatten
  - linear: {{name: picture, features: 12}}
  - second_input: {{name: caption, features: {WORDS}}}
  - embedding: {{vocabulary: 20, features: 8}}
  - flatten
  - linear: {{name: text, features: 12}}
  - concat: {{from: [picture, text]}}
"""
ONNX = BIN.parent / "venv/bin/python"  # made by tests/python/make_venv


def npy(path, kind, shape, content):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + content)


def write_pairs(folder, seed, count):
    """Pictures with a bright pixel, and what says where it is: its column, its row, and a word without meaning."""
    rng = random.Random(seed)
    pictures, captions = bytearray(), []
    for _ in range(count):
        row, column = rng.randrange(1, 7), rng.randrange(1, 7)
        picture = [rng.randrange(40) for _ in range(SIDE * SIDE)]
        picture[row * SIDE + column] = 250
        pictures += bytes(picture)
        captions += [column, 8 + row, 16 + rng.randrange(4)]
    npy(folder / "pictures.npy", "|u1", (count, 1, SIDE, SIDE), bytes(pictures))
    npy(folder / "captions.npy", "<f4", (count, WORDS), struct.pack(f"<{len(captions)}f", *captions))


class Towers(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pairs = cls.data / "pairs"
        for split, seed, count in (("train", 1, 1500), ("test", 2, 100)):
            write_pairs(cls.data, seed, count)
            subprocess.run([BIN / "dlflow", "data", "pack", "pictures.npy", "captions.npy", "-o", cls.pairs, "--split", split], cwd=cls.data,
                           check=True, stdout=subprocess.DEVNULL)
        cls.trained = cls().new_training(epochs=6)
        cls.summary = cls().train(cls.trained, 2)

    def runTest(self):
        pass

    def new_training(self, **more):
        folder = self.folder("towers", data=str(self.pairs), model="model.yaml", batch=64, lr=0.01, optimizer={"kind": "adam"}, precision={"leaves": 4}, **more)
        (folder / "model.yaml").write_text(MODEL)
        return folder

    def step(self, program, **settings):
        """The folder in which `program` has looked at the trained network and the test data."""
        folder = self.folder("step")
        (folder / "with.json").write_text(json.dumps({"checkpoint": str(self.trained / "checkpoints/latest"), "data": str(self.pairs)} | settings))
        status, _, errors = self.run_to_end(folder, 1, program)
        self.assertEqual(status, 0, errors)
        return folder

    def embeddings(self):
        """Of both inputs of each sample of the test data."""
        numbers = (self.step("dlflow-predict", format="npy") / "outputs/predictions.npy").read_bytes()
        self.assertIn(b"'shape': (100, 24,)", numbers)
        floats = struct.unpack("<2400f", numbers[-9600:])
        return [(floats[i:i + 12], floats[i + 12:i + 24]) for i in range(0, 2400, 24)]

    def test_ranks_learn_the_same_after_a_kill(self):
        folder = self.new_training(epochs=2)
        self.kill_at(folder, 3, 9)
        self.train(folder, 2)
        whole = self.new_training(epochs=2)
        self.train(whole, 1)
        self.assertEqual(self.bits(folder), self.bits(whole))

    def test_what_is_measured_is_what_the_embeddings_say(self):
        measured = json.loads((self.step("dlflow-evaluate", batch=100) / "metrics.json").read_text())
        pairs = self.embeddings()

        def similarity(a, b):
            product = sum(x * y for x, y in zip(a, b))
            return product / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5

        nearest = [max(range(100), key=lambda other: similarity(first, pairs[other][1])) for first, _ in pairs]
        self.assertAlmostEqual(measured["accuracy"], sum(found == own for own, found in enumerate(nearest)) / 100, delta=0.011)
        self.assertGreater(measured["accuracy"], 0.25)  # 36 places among 100 pictures: chance is 0.01, all that a caption tells 0.36
        self.assertGreater(self.summary["accuracy"], 0.1)

    def test_onnxruntime_gives_the_same_embeddings(self):
        if not ONNX.exists():
            self.skipTest("no onnxruntime: build/venv is not there")
        folder = self.folder("export")
        environment = {"DLFLOW_WITH": folder / "with.json", "DLFLOW_OUTPUTS": folder, "DLFLOW_METRICS": folder / "m", "DLFLOW_SUMMARY": folder / "s"}
        (folder / "with.json").write_text(json.dumps({"from": str(self.trained / "checkpoints"), "export": "onnx"}))
        subprocess.run([BIN / "dlflow", "step", "checkpoint"], env=os.environ | {name: str(value) for name, value in environment.items()}, check=True,
                       capture_output=True)
        file = next(pathlib.Path(folder).rglob("*.onnx"))
        code = ("import json, numpy, onnxruntime, sys\nsession = onnxruntime.InferenceSession(sys.argv[1])\n"
                "pictures, captions = numpy.load(sys.argv[2]), numpy.load(sys.argv[3])\n"
                "scores, = session.run(None, {'input': pictures.astype('f4'), 'caption': captions})\nprint(json.dumps(scores.ravel().tolist()))")
        run = subprocess.run([ONNX, "-c", code, file, self.data / "pictures.npy", self.data / "captions.npy"], check=True, stdout=subprocess.PIPE, text=True)
        theirs = json.loads(run.stdout)
        ours = [x for pair in self.embeddings() for side in pair for x in side]
        size = max(abs(x) for x in ours)
        for a, b in zip(ours, theirs, strict=True):
            self.assertAlmostEqual(a / size, b / size, delta=1e-4)

    def test_data_without_a_second_input_is_refused(self):
        npy(self.data / "labels.npy", "|u1", (100,), bytes(i % 10 for i in range(100)))
        subprocess.run([BIN / "dlflow", "data", "pack", "pictures.npy", "labels.npy", "-o", "labelled"], cwd=self.data, check=True, stdout=subprocess.DEVNULL)
        folder = self.new_training(epochs=1)
        settings = json.loads((folder / "with.json").read_text())
        (folder / "with.json").write_text(json.dumps(settings | {"data": str(self.data / "labelled")}))
        status, _, errors = self.run_to_end(folder, 1)
        self.assertEqual(status, 1)
        self.assertIn("has a second input of 3 numbers, which are the targets of a sample", errors)


if __name__ == "__main__":
    main()
