"""The published pipelines of workflows/gallery on a real SLURM, with stand-ins for their programs: all at once, each as one chain."""

import json
import os
import shutil
import subprocess
import unittest

import cluster
import gallery
from cluster import STAGED, wait_until


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Gallery(cluster.Case):
    def test_each_workflow_is_submitted_and_succeeds(self):
        settings = gallery.prepare(self.folder)
        (self.folder / "cluster-profiles").symlink_to(STAGED / "cluster-profiles")
        subprocess.run(["chown", "-R", "--reference", self.alpha.home, self.folder], check=True)
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "DLFLOW_HOME": self.folder / "state", "XDG_CACHE_HOME": self.folder / "cache"}

        def dlflow(*arguments):
            out = self.alpha.run([STAGED / "bin/dlflow", *arguments, "--json"], cwd=self.folder, env=environment).stdout
            return json.loads(out.splitlines()[-1] if arguments[0] == "run" else out)

        runs = {workflow: dlflow("run", f"{workflow}.yaml", "--profile", "alpha", *words)["run"] for workflow, words in settings.items()}
        for workflow, run in runs.items():
            wait_until(lambda: dlflow("status", run)["ended"], 240, f"the end of {run}")
            status = dlflow("status", run)
            self.assertEqual(gallery.states(status), gallery.expected(workflow, status), status)


if __name__ == "__main__":
    cluster.main()
