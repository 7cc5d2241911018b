"""The programs of workflows/gallery/programs: each is killed when it has saved, and continues from there. `./dev gallery` runs all of them, `./dev test` the
light ones."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

from support import ROOT, Case, main

import pypi
from leaks import processes_with

PROGRAMS = ROOT / "workflows/gallery/programs"
ALL = "DLFLOW_GALLERY" in os.environ  # the virtual environment that ./dev gallery makes
PYTHON = pathlib.Path(os.environ["DLFLOW_GALLERY"], "bin/python3") if ALL else pypi.NEWEST
EXAMPLES = os.environ.get("PYTORCH_EXAMPLES", "https://github.com/pytorch/examples")  # or a copy of it
SMALL = {"nanogpt": ["iterations=400"], "keras": ["epochs=6"]}  # the light ones, with settings for them

# For each workflow: what it needs; a file that it saves; what its log has once for each time that it starts from the beginning.
KINDS = {
    "pytorch-mnist": ("torchvision", None, "Train Epoch: 1 [0/"),
    "pytorch-imagenet": ("torchvision", "ckpt/checkpoint.pth.tar", "Epoch: [0][1/"),
    "nanogpt": ("torch", "out/ckpt.pt", "step 0:"),
    "accelerate": ("accelerate", "out/epoch_*/random_states_1.pkl", "epoch 1:"),
    "hf-trainer": ("transformers", "out/checkpoint-*/trainer_state.json", "'epoch': '1'"),
    "lightning": ("lightning", "out/last.ckpt", "epoch 1:"),
    "timm": ("timm", "out/last.pth.tar", "epoch 1:"),
    "keras": ("keras", "out/backup/training_metadata.json", "Epoch 1/"),
    "jax": ("orbax", "out/*[0-9]/_CHECKPOINT_METADATA", "epoch 1:"),
    "sklearn-xgboost": ("xgboost", "out/model_*.ubj", "after round 0"),
    "r": ("Rscript", "out/state.rds", "epoch 1:"),
}


def lacking(name):
    """The reason why the program cannot run here; empty if it can."""
    package = KINDS[name][0]
    if package == "Rscript":
        return "" if shutil.which(package) else "Rscript is not installed"
    if name.startswith("pytorch-") and subprocess.run(["git", "ls-remote", EXAMPLES, "HEAD"], capture_output=True, timeout=60).returncode != 0:
        return f"{EXAMPLES} cannot be reached"
    return f"{package} of PyPI is not in {PYTHON.parents[1]}" if ALL and not pypi.has(package, PYTHON) else pypi.missing(package, PYTHON)


def is_complete(path):
    """Whether nobody writes to the file now: some programs write it in place."""
    try:
        before = path.stat()
        time.sleep(0.5)
        after = path.stat()
    except FileNotFoundError:
        return True  # replaced by a newer one
    return before.st_ino != after.st_ino or 0 < before.st_size == after.st_size


class Programs(Case):
    def setUp(self):
        super().setUp()
        self.env["PATH"] = f"{PYTHON.parent}:{self.env['PATH']}"

    def test_each_workflow_is_valid_and_short(self):
        self.assertEqual({file.stem for file in PROGRAMS.glob("*.yaml")}, set(KINDS))
        for name in KINDS:
            with self.subTest(name):
                self.assertLessEqual(len((PROGRAMS / f"{name}.yaml").read_text().splitlines()), 30)
                self.dlflow("validate", PROGRAMS / f"{name}.yaml", "--set", f"{'text' if name == 'nanogpt' else 'data'}={self.folder}/home")

    def in_run(self, name, pattern):
        return list(self.folder.glob(f"dlflow-runs/{name}-*/steps/train/{pattern}"))

    def log(self, name):
        return "".join(path.read_text() for path in self.in_run(name, "attempt-*/stdout"))

    def kill_the_program(self):
        """Kills the Python or R of this test's step; returns whether there was one."""
        killed = False
        for pid in processes_with(f"{self.folder}/", "environ"):
            program = os.path.basename(os.path.realpath(f"/proc/{pid}/exe"))
            if program == "R" or program.startswith("python"):
                with contextlib.suppress(ProcessLookupError):  # the launcher ends the other ranks
                    os.kill(pid, signal.SIGKILL)
                    killed = True
        return killed

    def kill_and_resubmit(self, name):
        _, saved, begins = KINDS[name]
        settings = [f"repository=git+{EXAMPLES}"] if name.startswith("pytorch-") else [] if ALL else SMALL[name]
        begun = time.monotonic()
        process = self.start("run", PROGRAMS / f"{name}.yaml", *(word for setting in settings for word in ("--set", setting)))
        ready = (lambda: any(map(is_complete, self.in_run(name, f"checkpoints/{saved}")))) if saved else lambda: begins in self.log(name)
        self.wait_for(lambda: ready() or process.poll() is not None, 600, f"{name} to save")
        killed = self.kill_the_program()
        out, err = process.communicate(timeout=900)
        self.assertTrue(killed, out + err)
        run = self.in_run(name, "")[0].parents[1].name
        if process.returncode != 0:  # a killed rank is started again at once
            self.dlflow("resubmit", run, timeout=900)
        self.assertEqual(set(self.states(run).values()), {"succeeded"}, out + err)
        self.assertEqual(self.log(name).count(begins), 1 if saved else 2, self.log(name))
        if ALL:
            print(f"{name}: killed, {'resumed from ' + saved if saved else 'started again'}, ended after {time.monotonic() - begun:.0f} s", flush=True)

    def test_each_continues_after_a_kill(self):
        for name in KINDS if ALL else SMALL:
            with self.subTest(name):
                if reason := lacking(name):
                    self.skipTest(reason)
                self.kill_and_resubmit(name)


if __name__ == "__main__":
    main()
