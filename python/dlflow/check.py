"""`python -m dlflow.check`: whether this Python, its libraries and the environment of a step are in order.

A line for each thing; after a problem what to do about it. Exit status: 0 all is well, 1 there is a problem.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import shutil
import sys
import tempfile
from typing import Callable, Iterator, NamedTuple, Optional

from dlflow import _environment, _folder


class Finding(NamedTuple):
    what: str
    state: str
    advice: str = ""  #: advice for a problem
    is_problem: bool = False


def _problem(what: str, state: str, advice: str) -> Finding:
    return Finding(what, state, advice, True)


def _package() -> Finding:
    version = sys.version.split()[0]
    place = str(pathlib.Path(__file__).parent)
    if sys.version_info < (3, 8):
        return _problem("package", f"{place}, Python {version}", "use Python 3.8 or newer")
    return Finding("package", f"{place}, Python {version}")


def _runtime() -> Finding:
    try:
        runtime = importlib.import_module("dlflow.runtime")
    except Exception as error:  # users need to see any error
        return _problem("runtime library", str(error), "install the wheel of dlflow, which has it, or set DLFLOW_RUNTIME_LIBRARY")
    try:
        endpoint = runtime.Endpoint()
        group = runtime.Group(endpoint, 0, [endpoint.address], timeout=30)
        group.barrier().wait(30)
        group.leave()
    except runtime.Error as error:
        return _problem("runtime library", f"a rank cannot connect to itself: {error}", "look at this node's loopback network and its /dev/shm")
    return Finding("runtime library", f"{runtime._find_library()}, interface {runtime.ABI}")


def _torch() -> Finding:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return Finding("PyTorch", "not installed; collectives and checkpoints work without it")
    except Exception as error:
        return _problem("PyTorch", f"cannot be imported: {error}", "repair its installation; dlflow does not need it")
    if not torch.distributed.is_available():
        return _problem("PyTorch", f"{torch.__version__} without torch.distributed", "install a PyTorch that was built with it")
    try:
        importlib.import_module("dlflow.torch")
    except Exception as error:
        return _problem("PyTorch", f"{torch.__version__}, but dlflow.torch cannot be imported: {error}", "see `runtime library`")
    if not hasattr(torch.distributed.Backend, "DLFLOW"):
        return _problem("PyTorch", f"{torch.__version__}, which did not accept the backend", "report it, with this version of PyTorch")
    return Finding("PyTorch", f"{torch.__version__}, with the backend dlflow")


def _step() -> Finding:
    if not _environment.is_step():
        return Finding("step", "none: outside of dlflow nothing stops, metrics are printed, and checkpoints need folder=")
    name = _environment.variable("DLFLOW_STEP")
    told = ("DLFLOW_METRICS", "DLFLOW_SUMMARY", "DLFLOW_OUTPUTS", "DLFLOW_CHECKPOINTS")
    missing = [name for name in told if not _environment.variable(name)]
    if missing:
        return _problem("step", f"{name}, without {', '.join(missing)}", "pass all DLFLOW_ variables on to the program")
    every = _environment.variable("DLFLOW_CHECKPOINT_EVERY")
    if every is None:
        return _problem("step", f"{name}, which has no checkpoint:", "add `checkpoint: {}` to the step: otherwise it is not asked to save")
    return Finding("step", f"{name}, checkpoints every {every}, {_environment.variable('DLFLOW_CHECKPOINT_KEEP')} are kept")


def _ranks() -> Finding:
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and size is None:
        told = _environment.variable("DLFLOW_RANKS")
        if told not in (None, "1"):
            return Finding("ranks", f"this is one program for {told} ranks, which starts them itself (launch: node)")
        return Finding("ranks", "one")
    if not (rank or "").isdigit() or not (size or "").isdigit() or not int(rank or 0) < int(size or 0):
        return _problem("ranks", f"RANK is {rank!r} and WORLD_SIZE {size!r}", "start the script by dlflow, torchrun, mpirun or srun")
    if int(size or 0) > 1 and not (os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT")):
        return _problem("ranks", f"rank {rank} of {size}, without MASTER_ADDR and MASTER_PORT", "set both to where rank 0 listens")
    meeting = f", meeting at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}" if int(size or 0) > 1 else ""
    return Finding("ranks", f"rank {rank} of {size}{meeting}")


def _checkpoints() -> Finding:
    place = _environment.variable("DLFLOW_CHECKPOINTS")
    if place is None:
        return Finding("checkpoints", "no $DLFLOW_CHECKPOINTS: the folder is the one that the script gives")
    folder = pathlib.Path(place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".check.") as file:
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return _problem("checkpoints", f"{folder} cannot be written to: {error.strerror}", "make room there, or correct its permissions")
    damaged: list[str] = []
    newest = _folder.newest(folder, damaged.append)
    state = f"{folder}, {free / 2**30:.1f} GiB free, " + (f"the newest is {newest.name}" if newest else "none yet")
    if damaged:
        return _problem("checkpoints", f"{state}; {'; '.join(damaged)}", "find out why; resume() uses the newest complete one")
    return Finding("checkpoints", state)


CHECKS: tuple[Callable[[], Finding], ...] = (_package, _runtime, _torch, _step, _ranks, _checkpoints)


def findings() -> Iterator[Finding]:
    for check in CHECKS:
        yield check()


def main(arguments: Optional[list[str]] = None) -> int:
    if arguments:
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    problems = 0
    for finding in findings():
        problems += finding.is_problem
        print(f"{'PROBLEM' if finding.is_problem else 'ok':8}{finding.what}: {finding.state}")
        if finding.is_problem:
            print(f"{'':8}do: {finding.advice}")
    print("all is well" if problems == 0 else f"{problems} problem{'s' if problems > 1 else ''}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
