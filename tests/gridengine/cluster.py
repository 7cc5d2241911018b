"""Shared code of the tests on a real Grid Engine, under the same names as in tests/slurm/cluster.py: tests/slurm/chains.py, which
imports `cluster`, tests chains on either.

A test program runs as root; the tested programs run as the cluster's user `dlflow`, through `run` and `start`. If the
cluster could not be started, importing this module ends the program as skipped, with the reason.
"""

import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "support"))

from cases import main  # noqa: E402, F401: the tests import it from here
from real_cluster import ClusterCase, RealCluster, root_of, wait_until  # noqa: E402, F401: the same

CLUSTER = TESTS / "cluster/gridengine-cluster"
ROOT = root_of("gridengine")
STAGED = ROOT / "dlflow"  # bin/, cluster-profiles/


class Cluster(RealCluster):
    home = ROOT / "ge/home"

    def start(self, argv, cwd=None, env=None, as_whom="as-user"):
        """A process on the cluster's host, with nothing but `env` and what a login sets in its environment."""
        variables = [f"{key}={value}" for key, value in (env or {}).items()]
        there = ["sh", "-c", 'cd "$0" && exec "$@"', cwd or self.home]
        return subprocess.Popen([CLUSTER, as_whom, ROOT / "ge", "env", *variables, *there, *map(str, argv)], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def jobs(self):
        """The lines of qstat."""
        return self.run(["qstat"]).stdout.splitlines()[2:]


class Case(ClusterCase):
    ge = Cluster()
    clusters = (ge,)

    def cancel_all(self):
        self.ge.run(["qdel", "-u", "dlflow"], status=None)
        wait_until(lambda: not self.ge.jobs(), 60, "the cluster to be idle")
