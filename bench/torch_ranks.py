"""A bench of PyTorch whose ranks are copies of itself, started by mpirun where Horovod takes part."""

import os
import socket
import subprocess
import sys


MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"]


def run(ranks, rank, mpi=False):
    """In a rank, calls `rank`. Else starts so many ranks of this program, one thread each, waits for them, and ends with the worst status."""
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
    if "RANK" in os.environ:
        return rank()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-B", *sys.argv]
    if mpi:
        sys.exit(subprocess.run([*MPIRUN, str(ranks), *program], env=os.environ | names).returncode)
    started = [subprocess.Popen(program, env=os.environ | names | {"RANK": str(number)}) for number in range(ranks)]
    sys.exit(max(abs(process.wait()) for process in started))
