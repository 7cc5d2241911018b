"""PyTorch on dlflow's collectives over two nodes: the workflows that divide weights, optimizer state or layers over ranks."""

import json
import pathlib
import subprocess
import unittest

import cluster
from chains import Chain
from cluster import STAGED

OLD = "/usr/bin/python3"  # with Debian's PyTorch
NEWEST = cluster.BUILD / "torch-venv/bin/python"  # with PyPI's; bench/peer_venvs makes it


def needs(python, package):
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    there = pathlib.Path(python).exists() and subprocess.run([python, "-c", find]).returncode == 0
    return unittest.skipUnless(there, f"{package} is not installed")


class Parallel(Chain):
    profile = "alpha"  # one rank on each of two nodes
    clusters = (Chain.alpha,)

    def run_workflow(self, name, python, ranks):
        """What its ranks printed, once it has succeeded."""
        out = self.dlflow("run", STAGED / f"workflows/pytorch-{name}.yaml", "--profile", self.profile, "--json",
                          "--set", f"python={python}", "--set", f"package={STAGED}/python", "--set", f"ranks={ranks}").stdout
        run = json.loads(out.splitlines()[-1])["run"]
        self.wait_for(run, {"train": "succeeded"}, timeout=120)
        return (pathlib.Path(self.status(run)["directory"]) / "steps/train/attempt-1/stdout").read_text()

    @needs(OLD, "python3-torch")
    def test_zero_redundancy_optimizer_on_two_nodes(self):
        self.assertRegex(self.run_workflow("zero", OLD, 2), r"2 ranks: at most \S+ from one process\n")

    @needs(NEWEST, "PyTorch of PyPI (bench/peer_venvs)")
    def test_fully_shard_on_two_nodes(self):
        self.assertRegex(self.run_workflow("fsdp", NEWEST, 2), r"2 ranks: at most \S+ from one process\n")


if __name__ == "__main__":
    cluster.main()
