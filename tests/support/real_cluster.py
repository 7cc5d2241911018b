"""Common parts of the tests on real batch systems: finding their cluster, and waiting."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77


def root_of(system):
    """The folder of the clusters of `system`, as created by its site.py; if there is none, the program ends as skipped. With several
    sites, the one of $DLFLOW_SITE or the first."""
    file = pathlib.Path(os.environ["DLFLOW_BUILD"]) / "tests" / system / "site.json"
    found = json.loads(file.read_text()) if file.exists() else {"missing": f"no clusters: {file} does not exist"}
    if "missing" in found:
        print(f"skipped here: {found['missing']}")
        sys.exit(SKIPPED)
    return pathlib.Path(found.get("sites", {}).get(os.environ.get("DLFLOW_SITE"), found["root"]))


def wait_until(condition, timeout, what):
    """Returns the first true value of `condition()`, polled ten times a second, and more rarely in long waits: dlflow and SLURM need CPU time
    to answer."""
    begin = time.monotonic()
    while not (value := condition()):
        if (passed := time.monotonic() - begin) > timeout:
            raise AssertionError(f"after {timeout} s still waiting for {what}")
        time.sleep(min(max(0.1, passed / 20), 1))
    return value


class RealCluster:
    """A cluster that starts processes by `start(argv, cwd, env, **options)`."""

    def run(self, argv, cwd=None, env=None, timeout=60, status=0, **options):
        """Returns the output of `argv` as the cluster's user; checks its exit status unless that is None."""
        process = self.start(argv, cwd, env, **options)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            raise AssertionError(f"{argv} hangs\nstdout: {out}\nstderr: {err}") from None
        if status is not None and process.returncode != status:
            raise AssertionError(f"{argv} ends with {process.returncode}\nstdout: {out}\nstderr: {err}")
        return subprocess.CompletedProcess(argv, process.returncode, out, err)


class ClusterCase(unittest.TestCase):
    """A test with a fresh folder in the home of its first cluster's user. `cancel_all` ends its remaining jobs."""

    def setUp(self):
        home = self.clusters[0].home
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="test.", dir=home))
        owner = home.stat()
        os.chown(self.folder, owner.st_uid, owner.st_gid)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.cancel_all)

    def read(self, name):
        return (self.folder / name).read_text()


class Site:
    """The clusters for all tests of `system`, started once.

    The needed parts of the build tree are copied to a folder that the clusters' ordinary user can read, unlike a checkout below /root.
    BUILD/tests/SYSTEM/site.json records the places, or the reason for their absence.
    """

    def __init__(self, system, build):
        self.build = pathlib.Path(build).resolve()
        self.tool = pathlib.Path(__file__).resolve().parents[1] / f"cluster/{system}-cluster"
        self.file = self.build / "tests" / system / "site.json"
        self.prefix = f"dlflow-{system}."

    def begin(self):
        """Creates a folder for the clusters; returns None on a machine that cannot start them."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        able = subprocess.run([self.tool, "check"], stderr=subprocess.PIPE, text=True)
        if able.returncode == 0:
            return pathlib.Path(tempfile.mkdtemp(prefix=self.prefix, dir="/var/tmp"))
        self.file.write_text(json.dumps({"missing": able.stderr.strip()}))
        print(f"skipped here: {able.stderr}")
        return None
