"""What the tests on a real Grid Engine share, with the names that tests/slurm/cluster.py has: tests/slurm/chains.py, which
imports `cluster`, describes chains on either.

A test program runs as root; what it tests runs as the cluster's user `dlflow`, through `run` and `start`. Where the
cluster could not be started, importing this module ends the program as skipped, with the reason.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "support"))

from cases import main  # noqa: E402, F401: the tests import it from here
from real_cluster import root_of, wait_until  # noqa: E402, F401: the same

CLUSTER = TESTS / "cluster/gridengine-cluster"
ROOT = root_of("gridengine")
STAGED = ROOT / "dlflow"  # bin/, cluster-profiles/


class Cluster:
    home = ROOT / "ge/home"

    def start(self, argv, cwd=None, env=None, as_whom="as-user"):
        """A process on the cluster's host, with nothing but `env` and what a login sets in its environment."""
        variables = [f"{key}={value}" for key, value in (env or {}).items()]
        there = ["sh", "-c", 'cd "$0" && exec "$@"', cwd or self.home]
        return subprocess.Popen([CLUSTER, as_whom, ROOT / "ge", "env", *variables, *there, *map(str, argv)], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def run(self, argv, cwd=None, env=None, timeout=60, status=0, as_whom="as-user"):
        """What `argv` prints as the cluster's user; checks its exit status unless that is None."""
        process = self.start(argv, cwd, env, as_whom)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            raise AssertionError(f"{argv} hangs\nstdout: {out}\nstderr: {err}") from None
        if status is not None and process.returncode != status:
            raise AssertionError(f"{argv} ends with {process.returncode}\nstdout: {out}\nstderr: {err}")
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def jobs(self):
        """The lines of qstat."""
        return self.run(["qstat"]).stdout.splitlines()[2:]


class Case(unittest.TestCase):
    """A test with a fresh folder in the home of the cluster's user. Jobs that it leaves are deleted."""

    ge = Cluster()
    clusters = (ge,)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="test.", dir=self.ge.home))
        owner = self.ge.home.stat()
        os.chown(self.folder, owner.st_uid, owner.st_gid)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.delete_all)

    def delete_all(self):
        self.ge.run(["qdel", "-u", "dlflow"], status=None)
        wait_until(lambda: not self.ge.jobs(), 60, "the cluster to be idle")
