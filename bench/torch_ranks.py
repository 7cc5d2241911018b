"""A bench of PyTorch whose ranks are copies of itself."""

import os
import socket
import subprocess
import sys


def run(ranks, rank):
    """In a rank, calls `rank`. Else starts so many ranks of this program, one thread each, waits for them, and ends with the worst status."""
    if "RANK" in os.environ:
        return rank()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen([sys.executable, *sys.argv], env=os.environ | names | {"RANK": str(number)}) for number in range(ranks)]
    sys.exit(max(abs(process.wait()) for process in started))
