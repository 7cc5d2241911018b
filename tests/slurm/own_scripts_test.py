"""Typical training scripts of four frameworks, on two nodes with too short a walltime, through `| tee` and with spawned loader
workers, lose no step, and end with the weights of an undisturbed training."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import cluster
from chains import Chain
from cluster import wait_until
from pypi import NEWEST, missing

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "support/scripts"
NANOGPT, TRANSFORMERS = "train_like_nanogpt.py", "train_with_transformers.py"
# Each script with its PyPI packages, its way to save, and the script with the same steps. Two at a time: each starts eight processes that import PyTorch.
PAIRS = ({NANOGPT: ("torch", "newer: out/ckpt.pt", NANOGPT),
          "train_with_accelerate.py": ("accelerate", "signal: SIGTERM, newer: 'out/step-*'", NANOGPT)},
         {"train_with_lightning.py": ("lightning", "newer: 'out/*.ckpt'", NANOGPT),
          TRANSFORMERS: ("transformers", "newer: 'out/checkpoint-*'", TRANSFORMERS)})
LACKING = "; ".join(filter(None, (missing(ways[0], NEWEST) for pair in PAIRS for ways in pair.values())))
STEPS, PAUSE = 110, 1  # including the start, longer than the walltime
SETTINGS = {"STEPS": str(STEPS), "EVERY": "5", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def undisturbed(script):
    """The file that two ranks on this machine write at their end."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([NEWEST, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", SCRIPTS / script], cwd=folder,
                              env=os.environ | SETTINGS, capture_output=True, text=True, timeout=400)
        end = pathlib.Path(folder, "end")
        assert end.exists(), done.stderr  # some abort after their end
        return end.read_text()


class OwnScripts(Chain):
    clusters = (Chain.gamma,)
    profile = "./gamma.yaml"

    def start_chain(self, script, checkpoint):
        shutil.copy(SCRIPTS / script, self.folder)
        settings = json.dumps(SETTINGS | {"PAUSE": str(PAUSE)})
        self.write_steps("own", f"""
            train:
              run: '{NEWEST} {self.folder}/{script} 2>&1 | tee -a {self.folder}/log-{script}.$RANK'
              checkpoint: {{{checkpoint}, lead: 15s}}
              resources: {{nodes: 2, ranks_per_node: 1, walltime: 2m}}
              env: {settings}
        """)
        return self.submit()

    def finish(self, run):
        """A script that ends within seconds of the request to save, without a new checkpoint, may have stopped early. dlflow reports
        this, and its user resubmits it."""
        wait_until(lambda: self.states(run)["train"] in ("succeeded", "timed-out", "failed"), 700, f"{run} to end")
        if self.states(run)["train"] == "timed-out":
            self.assertIn("no file that matches out/step-* is new", self.status(run)["steps"][0]["reason"])
            self.dlflow("resubmit", run)
        self.wait_for(run, {"train": "succeeded"}, timeout=300)

    @unittest.skipIf(LACKING, LACKING)
    def test_scripts_without_dlflow_lose_no_step_to_a_short_walltime(self):
        self.write("gamma.yaml", "scheduler: slurm\nslurm: {partition: batch}\n")
        shutil.copy(SCRIPTS / "tiny_training.py", self.folder)
        expected = {script: undisturbed(script) for script in (NANOGPT, TRANSFORMERS)}
        for pair in PAIRS:
            chains = {script: self.start_chain(script, checkpoint) for script, (_, checkpoint, _) in pair.items()}
            for script, run in chains.items():
                with self.subTest(script=script):
                    self.finish(run)
                    job = pathlib.Path(self.status(run)["directory"]) / "steps/train"
                    self.assertTrue((job / "attempt-1/claim-2").is_symlink(), "one pass was enough: the walltime is too long for this test")
                    end = (job / "outputs/end").read_text()
                    self.assertTrue(end.startswith(f"{STEPS} steps, "), end)
                    self.assertEqual(end, expected[pair[script][2]])


if __name__ == "__main__":
    cluster.main()
