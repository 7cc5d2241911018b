"""Shared code of the end-to-end tests: runs the program in a fresh folder, with a separate home and cache."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402, F401: the tests import it from here

BIN = pathlib.Path(os.environ["DLFLOW_BIN"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOM_FOR_A_RUN = (BIN / "dlflow").stat().st_size + (64 << 20)  # the first run copies the program


class Case(unittest.TestCase):
    """A test with a fresh folder as working directory; nothing outside it is read or written."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlflow-e2e."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "DLFLOW_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        (self.folder / "home").mkdir()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def write_steps(self, steps, *head):
        """A workflow of these steps, with the lines `head` above them, as w.yaml."""
        return self.write("w.yaml", "\n".join(["name: w", *head, "steps:"]) + textwrap.indent(textwrap.dedent(steps), "  "))

    def small_disk(self, name, size):
        """A folder on a file system of `size` bytes; skips the test where none can be mounted."""
        if os.geteuid() != 0 or not shutil.which("mount"):
            self.skipTest("needs root and `mount`")
        folder = self.folder / name
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", folder])
        return folder

    def start(self, *args, env=None, **options):
        """dlflow as a running process, in a process group of its own."""
        return subprocess.Popen(
            [str(BIN / "dlflow"), *map(str, args)], cwd=self.folder, env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, **options)

    def dlflow(self, *args, status=0, env=None, timeout=60):
        """Runs dlflow to its end, checks its exit status, returns (stdout, stderr)."""
        process = self.start(*args, env=env)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.fail(f"dlflow {' '.join(map(str, args))} hangs\n{out}\n{err}")
        self.assertEqual(process.returncode, status,
                         f"dlflow {' '.join(map(str, args))}\nstdout: {out}\nstderr: {err}")
        return out, err

    def run_json(self, *args, status=0, env=None, timeout=60):
        """`dlflow run … --json`: the object on its last line."""
        out, _ = self.dlflow("run", *args, "--json", status=status, env=env, timeout=timeout)
        return json.loads(out.strip().splitlines()[-1])

    def status(self, run):
        out, _ = self.dlflow("status", run, "--json")
        return json.loads(out)

    def states(self, run):
        """job -> state; a job is STEP or STEP[ELEMENT]."""
        return {s["name"] + (f"[{s['element']}]" if s["element"] else ""): s["state"]
                for s in self.status(run)["steps"]}

    def wait_for(self, condition, seconds=20, what="the condition"):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"gave up waiting for {what}")
            time.sleep(0.02)
