"""Each way in which ranks cooperate trains Fashion-MNIST to within a point of synchronous training."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DLFLOW_BIN", ROOT / "build/bin"))
PICTURES = pathlib.Path("/usr/share/datasets/fashion-mnist")
RANKS = 4
WAYS = [
    {"kind": "local_sgd"},
    {"kind": "local_sgd", "every": 32, "synchronous_epochs": 1},
    {"kind": "elastic", "every": 2},
    {"kind": "gossip"},
    {"kind": "pairwise"},
    {"kind": "parameter_server", "servers": 1, "staleness": 0},
    {"kind": "parameter_server", "servers": 2, "staleness": 4},
    {"kind": "parameter_server", "servers": 1, "staleness": "unbounded"},
]


class Accuracy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        data = tempfile.TemporaryDirectory(prefix="dlflow-accuracy.")
        cls.addClassCleanup(data.cleanup)
        cls.data = data.name
        for file in PICTURES.glob("*.gz"):
            pathlib.Path(cls.data, file.stem).write_bytes(gzip.open(file).read())

    def train(self, cooperation):
        """Trains mlp for three epochs on the whole training set. Returns the accuracy on the 10,000 test pictures."""
        with tempfile.TemporaryDirectory(prefix="dlflow-accuracy.") as name:
            folder = pathlib.Path(name)
            train = {"model": str(ROOT / "workflows/models/mlp.yaml"), "data": self.data, "epochs": 3, "lr": 0.05, "batch": 128,
                     "warmup_epochs": 0.5, "validation": 0, "cooperation": cooperation}
            (folder / "with.json").write_text(json.dumps(train))
            self.run_ranks(folder, "dlflow-train")
            evaluate = {"checkpoint": "checkpoints/latest", "data": self.data}
            (folder / "with.json").write_text(json.dumps(evaluate))
            self.run_ranks(folder, "dlflow-evaluate")
            return json.loads((folder / "metrics.json").read_text())["accuracy"]

    def run_ranks(self, folder, program):
        result = subprocess.run(["mpirun", "-np", str(RANKS), BIN / program, "with.json"], cwd=folder, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_each_way_of_cooperation_is_within_a_point_of_synchronous(self):
        synchronous = self.train({"kind": "synchronous"})
        self.assertGreater(synchronous, 0.86)
        print(f"synchronous: {synchronous:.4f}", flush=True)
        for way in WAYS:
            with self.subTest(**way):
                accuracy = self.train(way)
                print(f"{way}: {accuracy:.4f}", flush=True)
                if way.get("staleness", 0) != 0 and accuracy <= synchronous - 0.01:
                    accuracy = self.train(way)  # the result depends on the order of arrival; in one run the same rank may have been first too often
                    print(f"{way}, again: {accuracy:.4f}", flush=True)
                self.assertGreater(accuracy, synchronous - 0.01)


if __name__ == "__main__":
    if not PICTURES.exists():
        print("skipped here: Debian's package dataset-fashion-mnist is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
