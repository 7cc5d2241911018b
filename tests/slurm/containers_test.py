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

    def train(self, on):
        """Trains for an epoch on two nodes of the cluster `on`; the jobs by name."""
        if not shutil.which(NEEDS[on.name]):
            self.skipTest(f"{NEEDS[on.name]} is not installed")
        out = self.dlflow(on, "run", self.flows / "fashion-mnist-container.yaml", "--profile", on.name, "--json",
                          "--set", "epochs=1", "--set", "model=mlp")
        run = json.loads(out.splitlines()[-1])["run"]

        def ended():
            status = json.loads(self.dlflow(on, "status", run, "--json"))
            return status["state"] != "running" and status
        status = wait_until(ended, 240, f"{run} on {on.name} to end")
        said = "".join(f"{path}:\n{path.read_text()}" for path in pathlib.Path(status["directory"]).glob("steps/*/attempt-1/std*"))
        self.assertEqual(status["state"], "succeeded", self.dlflow(on, "status", run) + said)
        for step in ("train", "evaluate"):
            job = json.loads((pathlib.Path(status["directory"]) / f"steps/{step}/attempt-1/container.json").read_text())
            self.assertEqual(job["runtime"], RUNTIMES[on.name])
        return {step["name"]: step for step in status["steps"]}

    def accuracy(self, on):
        return self.train(on)["evaluate"]["metrics"]["accuracy"]

    def test_two_nodes_of_each_cluster_train_to_the_same_accuracy(self):
        accuracy = self.accuracy(self.alpha)
        self.assertGreater(accuracy, 0.8)
        if self.beta.run(["unshare", "--user", "--map-root-user", "true"], status=None).returncode != 0:
            self.skipTest("trained on alpha; beta's runtime needs user namespaces, which users cannot make here")
        self.assertEqual(self.accuracy(self.beta), accuracy)


if __name__ == "__main__":
    if not (UDOCKER / "bin/udocker").exists():
        print(f"skipped here: udocker is not in {UDOCKER}; ./dev test puts it there from PyPI")
        sys.exit(cluster.SKIPPED)
    cluster.main()
