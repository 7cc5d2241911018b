"""Places where a secret must not be: files, and command lines of processes."""

import os
import pathlib

TOKEN = "tok-5eC.ret/9f31+x7="  # covers the alphabets of tokens


def files_with(text, folder, but=()):
    """The files below `folder` that contain `text`, except those in `but`."""
    found = []
    for path in pathlib.Path(folder).rglob("*"):
        try:
            if path.is_symlink() or not path.is_file() or path in but:
                continue
            if text.encode() in path.read_bytes():
                found.append(str(path))
        except FileNotFoundError:
            continue  # a temporary file is gone
    return found


def processes_with(text, file):
    """The processes of this machine, except this one, whose /proc/PID/`file` (cmdline or environ) contains `text`."""
    found = []
    for path in pathlib.Path("/proc").glob(f"[0-9]*/{file}"):
        if int(path.parent.name) == os.getpid():
            continue
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has ended, or belongs to another user
    return found
