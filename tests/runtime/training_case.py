"""What tests of dlflow-train as a launcher sees it share: a small set of pictures, and trainings on it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/support"))
import pictures  # noqa: E402

BIN = pathlib.Path(os.environ.get("DLFLOW_BIN", ROOT / "build/bin"))


class TrainingCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="dlflow-training.")
        cls.data = pathlib.Path(cls.temporary.name) / "data"
        cls.data.mkdir()
        pictures.write(cls.data, 1380, 500, suffix="")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def folder(self, name, **more):
        """A new folder with a with.json in it."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix=name + ".", dir=self.temporary.name))
        settings = {"model": str(ROOT / "workflows/models/lenet.yaml"), "data": str(self.data), "epochs": 2,
                    "lr": 0.05, "validation": 100} | more
        (folder / "with.json").write_text(json.dumps(settings))
        return folder

    def start(self, folder, ranks, program="dlflow-train", **environment):
        command = [BIN / program, "with.json"]
        if ranks > 1:
            command = ["mpirun", "-np", str(ranks)] + command
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True, env=os.environ | environment)
