"""A PyTorch bench whose ranks are copies of itself, started by mpirun if Horovod takes part."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
import peers  # noqa: E402
import ports  # noqa: E402

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"]


def run(ranks, rank, mpi=False):
    """In a rank, calls `rank`. Otherwise starts `ranks` copies of this program, waits for them, and exits with the worst status."""
    if is_rank():
        return rank()
    sys.exit(start(ranks, sys.argv[1:], mpi).returncode)


def is_rank():
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
    return "RANK" in os.environ


def start(ranks, arguments, mpi=False, **options):
    """Runs `ranks` ranks of this program with other arguments, one thread each. Returns their worst status, and rank 0's output if `options` capture it."""
    names = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports.free_port())} | peers.ONE_THREAD
    program = [sys.executable, "-B", sys.argv[0], *arguments]
    if mpi:
        return subprocess.run([*MPIRUN, str(ranks), *program], env=os.environ | names, **options)
    others = [subprocess.Popen(program, env=os.environ | names | {"RANK": str(number)}) for number in range(1, ranks)]
    first = subprocess.run(program, env=os.environ | names | {"RANK": "0"}, **options)
    first.returncode = max(abs(status) for status in [first.returncode, *(process.wait() for process in others)])
    return first
