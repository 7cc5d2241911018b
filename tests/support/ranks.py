"""Finds the ranks of a training among this machine's processes by their working folder."""

import os
import pathlib


def worker_of_rank(folder, rank):
    """The pid of the process that computes as `rank` below `folder`, or None. Its parent, the guard, does not count."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            # For a process in another mount namespace, the link includes the path of its chroot.
            if not entry.name.isdigit() or str(folder) not in os.readlink(entry / "cwd"):
                continue
            environment = (entry / "environ").read_bytes().split(b"\0")
            names = (b"OMPI_COMM_WORLD_RANK", b"PMIX_RANK", b"SLURM_PROCID")
            if any(name + b"=%d" % rank in environment for name in names):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(entry.name)] = parent
        except OSError:
            pass  # it has ended
    workers = [pid for pid, parent in found.items() if parent in found]
    return workers[0] if workers else None
