"""Training scripts as people have them, in the ways of four frameworks, on two nodes with a walltime that is too short, through `| tee` and with spawned loader
workers: they lose no step, and end with the weights of a training that nothing disturbed."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import cluster
from chains import Chain
from pypi import NEWEST, needs

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "support/scripts"
STEPS, PAUSE, EVERY = 120, 0.5, 10  # a minute of training
SETTINGS = {"STEPS": str(STEPS), "EVERY": str(EVERY), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def undisturbed(script):
    """What two ranks on this machine write at their end."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([NEWEST, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", SCRIPTS / script], cwd=folder,
                              env=os.environ | SETTINGS, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        return pathlib.Path(folder, "end").read_text()


class OwnScripts(Chain):
    clusters = (Chain.alpha,)

    def setUp(self):
        super().setUp()
        for script in SCRIPTS.glob("t*.py"):
            shutil.copy(script, self.folder)

    def check(self, script, checkpoint):
        settings = json.dumps(SETTINGS | {"PAUSE": str(PAUSE)})
        self.write("w.yaml", f"""
            name: own
            steps:
              train:
                run: '{NEWEST} {self.folder}/{script} 2>&1 | tee -a {self.folder}/log.$RANK'
                checkpoint: {{{checkpoint}, lead: 15s}}
                resources: {{ranks: 2, walltime: 60s}}
                env: {settings}
        """)
        run = self.submit()
        self.wait_for(run, {"train": "succeeded"}, timeout=500)
        job = pathlib.Path(self.status(run)["directory"]) / "steps/train"
        self.assertTrue((job / "attempt-1/claim-2").is_symlink(), "one pass was enough: the walltime is too long for this test")
        end = (job / "outputs/end").read_text()
        self.assertTrue(end.startswith(f"{STEPS} steps, "), end)
        self.assertEqual(end, undisturbed(script))

    @needs("torch")
    def test_a_script_that_saves_as_nanogpt_does(self):
        self.check("train_like_nanogpt.py", "newer: out/ckpt.pt")

    @needs("accelerate")
    def test_a_script_of_accelerate_that_saves_when_it_is_asked(self):
        self.check("train_with_accelerate.py", "signal: SIGTERM, newer: 'out/step-*'")

    @needs("lightning")
    def test_a_script_of_lightning(self):
        self.check("train_with_lightning.py", "newer: 'out/*.ckpt'")

    @needs("transformers")
    def test_a_script_of_transformers(self):
        self.check("train_with_transformers.py", "newer: 'out/checkpoint-*'")


if __name__ == "__main__":
    cluster.main()
