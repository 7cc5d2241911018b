"""Typical training scripts of four frameworks, on two nodes, through `| tee` and with spawned loader workers, are asked to save before half of their
steps, lose no step, and end with the weights of an undisturbed training."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

import cluster
from chains import Chain
from cluster import wait_until
from pypi import NEWEST, missing

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "support/scripts"
NANOGPT, TRANSFORMERS = "train_like_nanogpt.py", "train_with_transformers.py"
# Each script with its PyPI package, its way to save, and the script with the same steps.
WAYS = {NANOGPT: ("torch", "lead: 5s, newer: out/ckpt.pt", NANOGPT),
        "train_with_accelerate.py": ("accelerate", "lead: 15s, signal: SIGTERM, newer: 'out/step-*'", NANOGPT),
        "train_with_lightning.py": ("lightning", "lead: 5s, newer: 'out/*.ckpt'", NANOGPT),
        TRANSFORMERS: ("transformers", "lead: 5s, newer: 'out/checkpoint-*'", TRANSFORMERS)}
LACKING = "; ".join(filter(None, (missing(package, NEWEST) for package, _, _ in WAYS.values())))
STEPS, SAVED, PAUSE = 50, 5, 0.5
SETTINGS = {"STEPS": str(STEPS), "EVERY": str(SAVED), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


class OwnScripts(Chain):
    clusters = (Chain.gamma,)
    profile = "./gamma.yaml"

    def start_undisturbed(self, script):
        """Two ranks on this machine; returns their launcher, and the file that they write at their end."""
        folder = self.folder / script.removesuffix(".py")
        folder.mkdir()
        ranks = subprocess.Popen([NEWEST, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", SCRIPTS / script], cwd=folder,
                                 env=os.environ | SETTINGS, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(ranks.terminate)
        return ranks, folder / "end"

    def start_chain(self, script, checkpoint):
        shutil.copy(SCRIPTS / script, self.folder)
        settings = json.dumps(SETTINGS | {"PAUSE": str(PAUSE)})
        self.write_steps("own", f"""
            train:
              run: '{NEWEST} {self.folder}/{script} 2>&1 | tee -a {self.folder}/log-{script}.$RANK'
              checkpoint: {{{checkpoint}}}
              resources: {{nodes: 2, ranks_per_node: 1, walltime: 10m}}
              env: {settings}
        """)
        return self.submit()

    def ask(self, waiting):
        """Signals the jobs that have saved, as SLURM does before the time limit; returns whether none is left in `waiting`."""
        for script, run in list(waiting.items()):
            log = self.folder / f"log-{script}.0"
            if log.exists() and log.read_text().count("step\n") > SAVED:
                self.gamma.run(["scancel", "--batch", "--signal=USR1", self.ids(run)["train"]])
                del waiting[script]
        return not waiting

    @unittest.skipIf(LACKING, LACKING)
    def test_scripts_without_dlflow_lose_no_step_to_a_request_to_save(self):
        self.write("gamma.yaml", "scheduler: slurm\nslurm: {partition: batch}\n")
        shutil.copy(SCRIPTS / "tiny_training.py", self.folder)
        chains = {script: self.start_chain(script, checkpoint) for script, (_, checkpoint, _) in WAYS.items()}
        undisturbed = {script: self.start_undisturbed(script) for script in (NANOGPT, TRANSFORMERS)}
        waiting = dict(chains)
        wait_until(lambda: self.ask(waiting), 900, "the first steps of all scripts")
        expected = {}
        for script, (ranks, end) in undisturbed.items():
            _, errors = ranks.communicate(timeout=400)
            self.assertTrue(end.exists(), errors)  # some abort after their end
            expected[script] = end.read_text()
        for script, run in chains.items():
            with self.subTest(script=script):
                self.wait_for(run, {"train": "succeeded"}, timeout=600)
                job = pathlib.Path(self.status(run)["directory"]) / "steps/train"
                self.assertTrue((job / "attempt-1/claim-2").is_symlink())
                end = (job / "outputs/end").read_text()
                self.assertTrue(end.startswith(f"{STEPS} steps, "), end)
                self.assertEqual(end, expected[WAYS[script][2]])


if __name__ == "__main__":
    cluster.main()
