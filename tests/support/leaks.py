"""Searches for a secret where it must not be: in files, and in the command lines of processes."""

import os
import pathlib

TOKEN = "tok-5eC.ret/9f31+x7="  # of the alphabets that tokens have


def files_with(text, folder, but=()):
    """The files below `folder` that hold `text`, but those of `but`."""
    found = []
    for path in pathlib.Path(folder).rglob("*"):
        try:
            if path.is_symlink() or not path.is_file() or path in but:
                continue
            if text.encode() in path.read_bytes():
                found.append(str(path))
        except FileNotFoundError:
            continue  # it was for a moment only
    return found


def processes_with(text, file):
    """The processes of this machine, us excepted, that hold `text` in /proc/PID/`file`: cmdline or environ."""
    found = []
    for path in pathlib.Path("/proc").glob(f"[0-9]*/{file}"):
        if int(path.parent.name) == os.getpid():
            continue
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has ended, or is somebody else's
    return found
