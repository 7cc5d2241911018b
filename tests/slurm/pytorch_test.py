"""PyTorch in a container on two nodes of SLURM, saved and requeued twice, ends with the same bits as one undisturbed run on one rank."""

import contextlib
import os
import pathlib
import subprocess
import unittest

import contained
from cluster import wait_until

WORKFLOW = "pytorch-fashion-mnist.yaml"
SETTINGS = ["--set", "samples=2048", "--set", "epochs=3", "--set", "accuracy=0.6"]
HAS_TORCH = subprocess.run(["dpkg-query", "--show", "python3-torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


@unittest.skipUnless(HAS_TORCH, "python3-torch is not installed")
class PyTorch(contained.Case):
    image = "climate"  # with PyTorch; made once for both tests

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with contextlib.suppress(FileExistsError):
            os.link(cls.flows / "images/climate.tar", cls.flows / "images/pytorch.tar")

    def metrics(self, directory):
        file = directory / "steps/train/attempt-1/metrics.jsonl"
        return file.read_text().count('"epoch"') if file.exists() else 0

    def train(self, ranks, requests):
        """Trains with that number of requests to save, each after another epoch; returns the output at the end."""
        run = self.submit(self.alpha, self.flows / WORKFLOW, *SETTINGS, "--set", f"ranks={ranks}")
        directory = pathlib.Path(self.status(self.alpha, run)["directory"])
        id = next(step["backend_id"] for step in self.status(self.alpha, run)["steps"] if step["name"] == "train")
        for request in range(1, requests + 1):
            try:
                wait_until(lambda: self.metrics(directory) >= request, 240, f"epoch {request} of {run}")
            except AssertionError as late:
                self.fail(f"{late}\n{self.said(self.alpha, run, directory)}")
            self.alpha.run(["scancel", "--batch", "--signal=USR1", id])  # as SLURM does before the time limit
            wait_until((directory / f"steps/train/attempt-1/claim-{request + 1}").is_symlink, 120, f"pass {request + 1} of {run}")
        ended = self.wait_for_success(self.alpha, run)
        self.assertGreater(ended["steps"][-1]["metrics"]["accuracy"], 0.6)
        last = (directory / "steps/train/attempt-1/stdout").read_text().splitlines()[-1]
        number, bits = last.split(" ranks: ")
        self.assertEqual(int(number), ranks)
        return bits

    def test_two_nodes_requeued_twice_end_with_the_bits_of_one_undisturbed_rank(self):
        self.needs(self.alpha)
        self.assertEqual(self.train(2, requests=2), self.train(1, requests=0))


if __name__ == "__main__":
    contained.main()
