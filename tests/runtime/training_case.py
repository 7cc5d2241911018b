"""The common parts of tests that run dlflow-train as a launcher does: a small set of pictures, and trainings on it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/support"))
import pictures  # noqa: E402
from cases import main  # noqa: E402, F401: the tests import it from here

HAS_AMX = "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
BIN = pathlib.Path(os.environ.get("DLFLOW_BIN", ROOT / "build/bin"))


class TrainingCase(unittest.TestCase):
    launcher = "mpirun"

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="dlflow-training.")
        cls.data = cls.new_data(1380)

    @classmethod
    def new_data(cls, samples):
        """A folder with so many pictures to train on, and 500 to test with."""
        data = pathlib.Path(tempfile.mkdtemp(prefix="data.", dir=cls.temporary.name))
        pictures.write(data, samples, 500, suffix="")
        return data

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
            command = [self.launcher, "-np", str(ranks)] + command
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True, env=os.environ | environment)

    def run_to_end(self, folder, ranks, program="dlflow-train", **environment):
        process = self.start(folder, ranks, program, **environment)
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors

    def train(self, folder, ranks, **environment):
        status, _, errors = self.run_to_end(folder, ranks, **environment)
        self.assertEqual(status, 0, errors)
        return json.loads((folder / "metrics.json").read_text())

    def program(self, folder, name, ranks=1, **request):
        """What dlflow-NAME measures of the newest checkpoint in `folder`, and its output."""
        (folder / "with.json").write_text(json.dumps({"checkpoint": "checkpoints/latest"} | request))
        status, output, errors = self.run_to_end(folder, ranks, f"dlflow-{name}")
        self.assertEqual(status, 0, errors)
        return json.loads((folder / "metrics.json").read_text()), output

    def assert_same_bits(self, make, numbers, measures):
        """A training in the folder that `make` gives has the same bits and measures on one rank and on each of these numbers. Returns
        the folder of the one rank, and what it has measured."""
        alone = make()
        summary = self.train(alone, 1)
        for ranks in numbers:
            with self.subTest(ranks=ranks):
                folder = make()
                other = self.train(folder, ranks)
                self.assertEqual(self.bits(folder), self.bits(alone))
                self.assertEqual([other.get(name) for name in measures], [summary.get(name) for name in measures])
        return alone, summary

    def train_with_kills(self, folder, kills, ranks):
        """Trains on each of these (ranks, step) until everything is killed, and then on `ranks` to the end."""
        for number, step in kills:
            self.kill_at(folder, number, step)
        return self.train(folder, ranks, DLFLOW_CHECKPOINT_EVERY="3 steps")

    def wait_for_step(self, folder, process, step):
        """Returns once a checkpoint of at least `step` is there."""
        deadline = time.monotonic() + 60
        while not [p for p in folder.glob("checkpoints/step-*") if p.name[5:].isdigit() and int(p.name[5:]) >= step]:
            self.assertIsNone(process.poll(), "training ended before it could be interrupted")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def bits(self, folder):
        newest = folder / "checkpoints/latest"
        return [(newest / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")]

    def exported(self, form, trained=None):
        """A folder with the network of the training in the folder `trained`, as a step `uses: checkpoint` exports it."""
        folder = self.folder("export")
        environment = {"DLFLOW_WITH": folder / "with.json", "DLFLOW_OUTPUTS": folder, "DLFLOW_METRICS": folder / "m", "DLFLOW_SUMMARY": folder / "s"}
        (folder / "with.json").write_text(json.dumps({"from": str((trained or self.trained) / "checkpoints"), "export": form}))
        subprocess.run([BIN / "dlflow", "step", "checkpoint"], env=os.environ | {name: str(value) for name, value in environment.items()}, check=True, capture_output=True)
        return folder

    def kill_at(self, folder, ranks, step):
        """Trains, saving every 3 steps, until `step` is saved; then everything is killed."""
        process = self.start(folder, ranks, DLFLOW_CHECKPOINT_EVERY="3 steps")
        self.wait_for_step(folder, process, step)
        os.killpg(process.pid, signal.SIGKILL)
        self.signal_ranks(folder, signal.SIGKILL)
        process.communicate()

    def signal_ranks(self, folder, number):
        """mpirun gives each rank a process group of its own; ours are those that work in `folder`."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                    os.kill(int(entry.name), number)
            except OSError:
                pass  # not ours, or gone
