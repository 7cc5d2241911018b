"""Shared code of the container tests: dlflow as an ordinary user, on the local back end, with one runtime."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import images

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402, F401: the tests import it from here

BUILD = pathlib.Path(os.environ["DLFLOW_BUILD"])
UDOCKER = BUILD / "tests/udocker"  # a Python environment, made by ./dev test
SKIPPED = 77
USER = "dlflow"

# Another /etc in a mount namespace of our own: a user with sub-ids, without touching the machine's.
AS_USER = """
mount -t overlay -o lowerdir=$0:/etc overlay /etc
exec setpriv --reuid $1 --regid $1 --init-groups --reset-env "${@:2}"
"""


def skip(reason):
    print(f"skipped here: {reason}")
    sys.exit(SKIPPED)


def require(*programs):
    """Ends the test as skipped unless these are installed."""
    for program in programs:
        if not shutil.which(program):
            skip(f"{program} is not installed")
    if not images.BUSYBOX.exists():
        skip("busybox-static is not installed")
    if os.geteuid() == 0:
        for program in ("unshare", "mount", "setpriv"):
            if not shutil.which(program):
                skip(f"{program} is not installed")


def have_namespaces():
    """Whether ordinary users may make user namespaces, which all runtimes but udocker need; not so in a chroot."""
    command = ["unshare", "--user", "--map-root-user", "true"]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid", "65534", "--clear-groups", *command]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def require_namespaces():
    if not have_namespaces():
        skip("ordinary users can make no user namespaces here")


def udocker_program(folder):
    """A udocker in `folder` that every user can start."""
    packages = next(UDOCKER.glob("lib/python3*/site-packages"), None)
    if packages is None or not (packages / "udocker").exists():
        skip(f"udocker is not in {UDOCKER}; ./dev test puts it there from PyPI")
    shutil.copytree(packages / "udocker", folder / "lib/udocker")
    program = folder / "udocker"
    program.write_text(f"#!/bin/sh\nPYTHONPATH={folder}/lib exec /usr/bin/python3 -m udocker.maincmd \"$@\"\n")
    program.chmod(0o755)
    return program


class Case(unittest.TestCase):
    """A test with its own folder, in which an ordinary user runs dlflow. The folder is not below /tmp, which every container
    sees."""

    profile = "container: {runtime: bubblewrap}"
    mounts = ""  # shell, by root in the mount namespace of dlflow before it starts; $0 is the folder etc of the site

    @classmethod
    def setUpClass(cls):
        cls.site = pathlib.Path(tempfile.mkdtemp(prefix="dlflow-container.", dir="/var/tmp"))
        cls.site.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.site, ignore_errors=True)
        shutil.copy(BUILD / "bin/dlflow", cls.site / "dlflow")
        cls.image = images.docker_archive(cls.site / "busybox.tar", [images.busybox_layer()])
        cls.user = cls.make_user() if os.geteuid() == 0 else os.geteuid()
        cls.prepare()

    @classmethod
    def prepare(cls):
        """For tests of one runtime."""

    @classmethod
    def make_user(cls):
        number = next(n for n in range(12345, 65000) if n not in {entry.pw_uid for entry in pwd.getpwall()})
        etc = cls.site / "etc"
        etc.mkdir()
        for name, line in {"passwd": f"{USER}:x:{number}:{number}::{cls.site}:/bin/sh", "group": f"{USER}:x:{number}:",
                           "subuid": f"{USER}:3000000:65536", "subgid": f"{USER}:3000000:65536"}.items():
            known = pathlib.Path("/etc") / name
            (etc / name).write_text((known.read_text() if known.exists() else "") + line + "\n")
        return number

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="test.", dir=self.site))
        self.addCleanup(self.remove)
        (self.folder / "home").mkdir()
        self.env = {"PATH": f"{self.site}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.folder / "home", "LANG": "C.UTF-8",
                    "DLFLOW_HOME": self.folder / "state", "XDG_CACHE_HOME": self.folder / "cache",
                    "XDG_RUNTIME_DIR": "", "SECRET": "leaks"}
        self.write("cluster-profiles/here.yaml", self.profile)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", str(self.user), self.folder], check=True)

    def remove(self):
        # podman leaves a process that keeps its name space, if nobody is there to end it.
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "cwd").startswith(f"{self.folder}/"):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue  # it has ended, or is somebody else's
        subprocess.run(["chmod", "-R", "u+w", self.folder], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        if os.geteuid() == 0:
            for owned in (path, *path.relative_to(self.folder).parents):
                os.chown(self.folder / owned, self.user, self.user)
        return path

    def workflow(self, steps, image=None, build=None):
        """w.yaml, whose steps run in `image`, which `build` (YAML of one line) changes first."""
        source = image or f"docker-archive:{self.image}"
        build = f", build: {build}" if build else ""
        body = textwrap.indent(textwrap.dedent(steps).strip("\n"), "  ")
        self.write("w.yaml", f'name: w\nimages: {{box: {{from: "{source}"{build}}}}}\nsteps:\n{body}\n')

    def start(self, *arguments, env=None, stdin=subprocess.DEVNULL):
        variables = [f"{key}={value}" for key, value in {**self.env, **(env or {})}.items() if value != ""]
        command = ["env", "-i", *variables, self.site / "dlflow", *arguments]
        if os.geteuid() == 0:
            command = ["unshare", "--mount", "bash", "-ec", self.mounts + AS_USER, self.site / "etc", str(self.user), *command]
        return subprocess.Popen([str(word) for word in command], cwd=self.folder, text=True, stdin=stdin,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def finish(self, process, status=0, timeout=100):
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.fail(f"dlflow hangs\n{out}\n{err}")
        if status is not None:
            self.assertEqual(process.returncode, status, f"stdout: {out}\nstderr: {err}\n{self.errors()}")
        return out, err

    def errors(self):
        """What the steps have said, for the message of a test that fails."""
        return "".join(f"{path}: {path.read_text()}" for path in self.folder.glob("dlflow-runs/*/steps/**/std*"))

    def dlflow(self, *arguments, status=0, env=None):
        return self.finish(self.start(*arguments, env=env), status)

    def run_workflow(self, status=0, **options):
        """The jobs of one run by name, as `status --json` has them."""
        out, _ = self.dlflow("run", "w.yaml", "--profile", "here", "--json", status=status, **options)
        return self.jobs(json.loads(out.splitlines()[-1])["run"])

    def jobs(self, run):
        out, _ = self.dlflow("status", run, "--json")
        return {step["name"]: step for step in json.loads(out)["steps"]}

    def output(self, step, stream="stdout"):
        """Of the newest attempt, whatever run it is of."""
        files = self.folder.glob(f"dlflow-runs/*/steps/{step}/attempt-*/{stream}")
        return max(files, key=lambda file: file.stat().st_mtime_ns).read_text()

    def lines(self, step):
        """What the program of a step has printed, without what dlflow says before it starts."""
        return [line for line in self.output(step).splitlines() if not line.startswith(("unpack", "waiting for", "build", "built"))]

    def wait_for(self, condition, seconds=30, what="the condition"):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                self.fail(f"gave up waiting for {what}\n{self.errors()}")
            time.sleep(0.05)
        return value
