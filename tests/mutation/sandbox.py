"""Runs a test whose code is faulty on purpose, so that it does no harm: it cannot change files outside its folders, kill other
processes, fill the disk, or leave anything behind. Needs Linux and root."""

import ctypes
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time

CLONE_NEWNS = 0x00020000
PR_SET_PDEATHSIG = 1
FILE_BYTES = 1 << 30
MEMORY_BYTES = 8 << 30
OUTPUT_BYTES = 1 << 20

# Each test has processes, /proc, /tmp, /var/tmp, /dev/shm and /run of its own. The shell is their init: it waits for what is
# orphaned. Should memory end, they are the first to go.
INIT = """echo 1000 >/proc/self/oom_score_adj &&
mount -t tmpfs -o size=2g tmpfs /tmp && mount -t tmpfs -o size=2g tmpfs /var/tmp &&
mount -t tmpfs -o size=1g tmpfs /dev/shm &&
mount -t tmpfs -o size=16m tmpfs /run && mkdir /tmp/home && cd "$0" && "$@"
exit $?"""


def missing():
    """Why this machine has no sandbox; empty if it has one."""
    if os.geteuid() != 0:
        return "only root can mount the file systems that keep faulty programs from harm"
    works = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "true"],
                           capture_output=True, text=True)
    return "" if works.returncode == 0 else works.stderr.strip()


def enter(own, at):
    """From now on this process and its children may write to nothing but `own`, which they also see as `at`."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    _mount("--make-rprivate", "/")
    _mount("--bind", own, at)
    for point in _mount_points():
        if point != str(at):
            _mount("-o", "remount,bind,ro", point)
    if os.access(pathlib.Path(at).parent, os.W_OK):
        raise RuntimeError(f"{at} is not the only folder that can be written")


def _mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def _mount_points():
    lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split(" ")[1].encode().decode("unicode_escape") for line in lines]
    return [point for point in dict.fromkeys(points) if os.path.exists(point)]


def end_with_parent():
    """This process is killed when the one that started it ends, however that happens."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _prepare():
    end_with_parent()
    for each in (signal.SIGINT, signal.SIGQUIT):  # a shell's background jobs ignore them
        signal.signal(each, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command, folder, environment, scratch, limit):
    """Exit status, or None if it took more than `limit` seconds; the seconds it took; the end of what it printed, which
    is kept in `scratch` until then. Call `enter` first."""
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/tmp/home", "TMPDIR": "/tmp", **environment}
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INIT, folder, *command]
    begin = time.monotonic()
    with tempfile.TemporaryFile(dir=scratch) as output:
        process = subprocess.Popen(inside, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_prepare)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the processes inside end with unshare: --kill-child
            process.wait()
            status = None
        seconds = time.monotonic() - begin
        output.seek(max(0, os.fstat(output.fileno()).st_size - OUTPUT_BYTES))
        return status, seconds, output.read()
