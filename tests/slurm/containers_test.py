"""Ranks in containers on the nodes of two clusters, each with its own runtime: the workflow text is the same."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import cluster
from cluster import BUILD, STAGED, wait_until

SOURCE = pathlib.Path(__file__).resolve().parents[2]
UDOCKER = BUILD / "tests/udocker"
NEEDS = {"alpha": "proot", "beta": "ch-run"}
RUNTIMES = {"alpha": "udocker", "beta": "charliecloud"}


class Containers(cluster.Case):
    @classmethod
    def setUpClass(cls):
        """The staged workflows with the image beside them, and udocker where both users find it."""
        cls.flows = STAGED / "workflows"
        subprocess.run([SOURCE / "workflows/image.py", BUILD / "bin/dlflow-train", BUILD / "bin/dlflow-evaluate", "-o",
                        cls.flows / "images/dlflow.tar"], check=True)
        packages = next(UDOCKER.glob("lib/python3*/site-packages"), None)
        cls.tools = STAGED / "tools"
        cls.tools.mkdir(exist_ok=True)
        if packages:
            shutil.copytree(packages / "udocker", cls.tools / "lib/udocker", dirs_exist_ok=True)
        program = cls.tools / "udocker"
        program.write_text(f"#!/bin/sh\nPYTHONPATH={cls.tools}/lib exec /usr/bin/python3 -m udocker.maincmd \"$@\"\n")
        subprocess.run(["chmod", "-R", "a+rX", cls.flows, cls.tools], check=True)
        program.chmod(0o755)

    def setUp(self):
        super().setUp()
        (self.folder / "cluster-profiles").symlink_to(STAGED / "cluster-profiles")

    def dlflow(self, on, *arguments):
        """With a record of runs for each cluster, so that one takes no result from the other."""
        env = {"DLFLOW_HOME": self.folder / f"state-{on.name}", "XDG_CACHE_HOME": self.folder / "cache",
               "PATH": f"{self.tools}:{os.environ['PATH']}"}
        return on.run([STAGED / "bin/dlflow", *arguments], cwd=self.folder, env=env).stdout

    def said(self, on, run, directory):
        """What there is to say of a run that should have succeeded."""
        return self.dlflow(on, "status", run) + "".join(
            f"{path}:\n{path.read_text()}" for path in directory.glob("steps/*/attempt-1/std*"))

    def train(self, on, is_asked_to_save):
        """Trains on two nodes of the cluster `on`; the jobs by name."""
        if not shutil.which(NEEDS[on.name]):
            self.skipTest(f"{NEEDS[on.name]} is not installed")
        out = self.dlflow(on, "run", self.flows / "fashion-mnist-container.yaml", "--profile", on.name, "--json",
                          "--set", "epochs=3", "--set", "model=mlp")
        run = json.loads(out.splitlines()[-1])["run"]

        def status():
            return json.loads(self.dlflow(on, "status", run, "--json"))
        directory = pathlib.Path(status()["directory"])
        training = directory / "steps/train/attempt-1"
        if is_asked_to_save:
            metrics = training / "metrics.jsonl"
            wait_until(lambda: metrics.exists() and metrics.stat().st_size > 0, 120, f"{run} on {on.name} to train")
            id = next(step["backend_id"] for step in status()["steps"] if step["name"] == "train")
            on.run(["scancel", "--batch", "--signal=USR1", id])  # as SLURM does before the time limit
        ended = wait_until(lambda: (now := status())["state"] != "running" and now, 240, f"{run} on {on.name} to end")
        self.assertEqual(ended["state"], "succeeded", self.said(on, run, directory))
        self.assertEqual((training / "claim-2").is_symlink(), is_asked_to_save, self.said(on, run, directory))
        for step in ("train", "evaluate"):
            job = json.loads((directory / f"steps/{step}/attempt-1/container.json").read_text())
            self.assertEqual(job["runtime"], RUNTIMES[on.name])
        return {step["name"]: step for step in ended["steps"]}

    def accuracy(self, on, is_asked_to_save=False):
        return self.train(on, is_asked_to_save)["evaluate"]["metrics"]["accuracy"]

    def test_profile_check_tries_a_container_on_a_node(self):
        if not shutil.which(NEEDS["alpha"]):
            self.skipTest(f"{NEEDS['alpha']} is not installed")
        self.assertIn("containers run with udocker", self.dlflow(self.alpha, "profile", "check", "alpha"))

    def test_two_nodes_of_each_cluster_train_to_the_same_accuracy_also_if_asked_to_save(self):
        """By srun and udocker, saved and requeued in between; by mpirun and charliecloud, undisturbed."""
        accuracy = self.accuracy(self.alpha, is_asked_to_save=True)
        self.assertGreater(accuracy, 0.8)
        if self.beta.run(["unshare", "--user", "--map-root-user", "true"], status=None).returncode != 0:
            self.skipTest("trained on alpha; beta's runtime needs user namespaces, which users cannot make here")
        self.assertEqual(self.accuracy(self.beta), accuracy)


if __name__ == "__main__":
    if not (UDOCKER / "bin/udocker").exists():
        print(f"skipped here: udocker is not in {UDOCKER}; ./dev test puts it there from PyPI")
        sys.exit(cluster.SKIPPED)
    cluster.main()
