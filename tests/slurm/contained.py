"""Shared code of the tests of containers on two clusters: the workflows with their image beside them, and udocker."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import cluster
from cluster import BUILD, STAGED, wait_until
from real_cluster import SKIPPED

SOURCE = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(SOURCE / "tests/container"))
from containers import UDOCKER, udocker_program  # noqa: E402

NEEDS = {"alpha": "proot", "beta": "ch-run"}
RUNTIMES = {"alpha": "udocker", "beta": "charliecloud"}
# Image -> arguments of workflows/image.py.
CONTENTS = {"dlflow": [BUILD / "bin/dlflow-train", BUILD / "bin/dlflow-evaluate"],
            "climate": [BUILD / "bin/dlflow-train", "--package", "python3-torch", "--wheel", *BUILD.glob("dlflow-*.whl")]}
WORKFLOW = "fashion-mnist-container.yaml"


class Case(cluster.Case):
    """Runs dlflow in a folder of alpha's user that both clusters see."""

    image = "dlflow"

    @classmethod
    def setUpClass(cls):
        """Stages the workflows with the image, and udocker for both users."""
        cls.flows = STAGED / "workflows"
        file = cls.flows / f"images/{cls.image}.tar"
        if not file.exists():  # from another test
            subprocess.run([SOURCE / "workflows/image.py", *CONTENTS[cls.image], "-o", file], check=True)
        cls.tools = STAGED / "tools"
        if not cls.tools.exists():
            udocker_program(cls.tools)
        subprocess.run(["chmod", "-R", "a+rX", cls.flows, cls.tools], check=True)

    def setUp(self):
        super().setUp()
        (self.folder / "cluster-profiles").symlink_to(STAGED / "cluster-profiles")

    def needs(self, on):
        if not shutil.which(NEEDS[on.name]):
            self.skipTest(f"{NEEDS[on.name]} is not installed")

    def dlflow(self, on, *arguments, cwd=None):
        """Runs dlflow with a separate record of runs for each cluster, so that neither reuses the other's results."""
        folder = cwd or self.folder
        env = {"DLFLOW_HOME": folder / f"state-{on.name}", "XDG_CACHE_HOME": folder / "cache",
               "PATH": f"{self.tools}:{os.environ['PATH']}"}
        return on.run([STAGED / "bin/dlflow", *arguments], cwd=folder, env=env).stdout

    def submit(self, on, workflow, *arguments, cwd=None):
        """Submits a workflow; returns the name of the run."""
        out = self.dlflow(on, "run", workflow, "--profile", on.name, "--json", *arguments, cwd=cwd)
        return json.loads(out.splitlines()[-1])["run"]

    def status(self, on, run, cwd=None):
        return json.loads(self.dlflow(on, "status", run, "--json", cwd=cwd))

    def said(self, on, run, directory, cwd=None):
        """The messages about a run that should have succeeded."""
        return self.dlflow(on, "status", run, cwd=cwd) + "".join(
            f"{path}:\n{path.read_text()}" for path in directory.glob("steps/*/attempt-1/std*"))

    def wait_for_success(self, on, run, steps=("train", "evaluate"), cwd=None):
        """Waits until it has succeeded in containers of the cluster's runtime; returns its status."""
        ended = wait_until(lambda: (now := self.status(on, run, cwd))["state"] != "running" and now, 240,
                           f"{run} on {on.name} to end")
        directory = pathlib.Path(ended["directory"])
        self.assertEqual(ended["state"], "succeeded", self.said(on, run, directory, cwd))
        for step in steps:
            job = json.loads((directory / f"steps/{step}/attempt-1/container.json").read_text())
            self.assertEqual(job["runtime"], RUNTIMES[on.name])
        return ended


def main():
    if not (UDOCKER / "bin/udocker").exists():
        print(f"skipped here: udocker is not in {UDOCKER}; ./dev test puts it there from PyPI")
        sys.exit(SKIPPED)
    cluster.main()
