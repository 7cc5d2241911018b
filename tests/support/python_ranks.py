"""Ranks of a Python script, started as from a shell, with the variables that any launcher sets."""

import glob
import os
import subprocess
import time

from ports import free_port

WATCHDOG = 120  # seconds until hanging ranks fail their test


def libraries_of(python):
    """The LD_LIBRARY_PATH that PyPI's PyTorch needs in a virtual environment."""
    return ":".join(glob.glob(os.path.join(os.path.dirname(python), "../lib/python3*/site-packages/nvidia/*/lib")))


def start_ranks(python, arguments, ranks, **environment):
    """Starts one process per rank; a variable that is None is removed from their environment."""
    port, processes = free_port(), []
    for rank in range(ranks):
        own = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
               "OMP_NUM_THREADS": "1", **environment}
        processes.append(subprocess.Popen([python, "-B", "-X", "faulthandler", *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, env={name: value for name, value in (os.environ | own).items() if value is not None}))
    return processes


def run_ranks(test, python, arguments, ranks, statuses=None, limit=WATCHDOG, **environment):
    """The output of each rank: (output, errors). Checks that exit statuses are 0, or those in `statuses`."""
    processes = start_ranks(python, arguments, ranks, **environment)
    outputs, deadline = [], time.monotonic() + limit
    try:
        for process in processes:
            outputs.append(process.communicate(timeout=max(1, deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        for process in processes:
            process.kill()
        test.fail(f"{arguments} with {ranks} ranks hangs: {[process.communicate() for process in processes]}")
    for rank, process in enumerate(processes):
        test.assertEqual(process.returncode, (statuses or {}).get(rank, 0), f"rank {rank}: {outputs[rank]}; all: {outputs}")
    return outputs
