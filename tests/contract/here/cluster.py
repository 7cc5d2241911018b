"""Batch systems that need no cluster: dlflow and its jobs are processes of this machine's user."""

import os
import pathlib
import subprocess
import tempfile

from cases import main  # noqa: F401: the suite imports it from here
from real_cluster import ClusterCase, RealCluster, wait_until  # noqa: F401: the same

TEMPORARY = tempfile.TemporaryDirectory(prefix="dlflow-here.")
HOME = pathlib.Path(TEMPORARY.name)
STAGED = HOME / "dlflow"  # bin/, cluster-profiles/
BUILD = pathlib.Path(os.environ["DLFLOW_BUILD"])


class Cluster(RealCluster):
    home = HOME

    def __init__(self, name, program, profile, **variables):
        self.env = {"PATH": os.environ["PATH"], "HOME": str(HOME), "LANG": "C.UTF-8", **variables}
        for folder in ("bin", "cluster-profiles"):
            (STAGED / folder).mkdir(parents=True)
        (STAGED / "bin/dlflow").symlink_to(program)
        (STAGED / f"cluster-profiles/{name}.yaml").write_text(profile)

    def start(self, argv, cwd=None, env=None, **options):
        return subprocess.Popen([*map(str, argv)], cwd=cwd or self.home, env={**self.env, **{k: str(v) for k, v in (env or {}).items()}},
                                text=True, stdin=subprocess.DEVNULL, start_new_session=True,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


class Case(ClusterCase):
    """Its Adapter sets `clusters`."""
