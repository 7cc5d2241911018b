"""Ranks as children of a process that has already imported PyTorch: the import takes longer than most tests.

forked.py reads jobs, one line of JSON each, from stdin; it answers with the ranks' exit statuses when all have ended.
"""

import contextlib
import gc
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time

from ports import free_port

WATCHDOG = 240  # seconds until hanging ranks are killed


class Server:
    """Starts the ranks of tests."""

    def __init__(self, python=sys.executable, **environment):
        environment = os.environ | {"OMP_NUM_THREADS": "1"} | environment
        self._process = subprocess.Popen([python, "-B", __file__], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         env={name: value for name, value in environment.items() if value is not None})

    def run(self, program, arguments, environments):
        """(status, stdout, stderr) of one rank per environment; the status is None if it had to be killed."""
        with tempfile.TemporaryDirectory() as folder:
            outputs = [[f"{folder}/{rank}.{name}" for name in ("out", "err")] for rank in range(len(environments))]
            job = {"command": [str(program), *map(str, arguments)], "environments": environments, "outputs": outputs}
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            statuses = json.loads(self._process.stdout.readline())
            texts = [[pathlib.Path(path).read_text() for path in paths] for paths in outputs]
        return [(status, *text) for status, text in zip(statuses, texts)]

    def run_ranks(self, test, program, scenario, ranks, statuses=None, memories=None, **environment):
        """The output of each rank: (output, errors). Checks that exit statuses are 0, or those in `statuses`."""
        port = free_port()
        environments = []
        for rank in range(ranks):
            names = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            if memories:
                names["DLFLOW_MEMORY"] = memories[rank]
            environments.append(names | environment)
        results = self.run(program, scenario.split(), environments)
        if any(status is None for status, _, _ in results):
            test.fail(f"{scenario} with {ranks} ranks hangs: {results}")
        for rank, (status, out, err) in enumerate(results):
            test.assertEqual(status, (statuses or {}).get(rank, 0), f"rank {rank}: {out}{err}; all: {results}")
        return [(out, err) for _, out, err in results]

    def close(self):
        self._process.communicate()


def become(command, environment, outputs):
    """Makes the forked process look as if it had been started with this command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for fd, path in zip((1, 2), outputs):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(environment)
    sys.argv = command
    sys.path[0] = os.path.dirname(command[0])


def wait_for(ranks):
    """Returns the ranks' statuses."""
    statuses, deadline = {}, time.monotonic() + WATCHDOG
    while len(statuses) < len(ranks):
        for rank in ranks:
            if rank not in statuses and (ended := os.waitpid(rank, os.WNOHANG))[0]:
                statuses[rank] = os.waitstatus_to_exitcode(ended[1])
        if time.monotonic() > deadline:
            for rank in ranks:
                if rank not in statuses:
                    os.kill(rank, signal.SIGKILL)
                    os.waitpid(rank, 0)
                    statuses[rank] = None
        time.sleep(0.01)
    return [statuses[rank] for rank in ranks]


def serve():
    """Returns the program to run in a forked process, and None at the end."""
    for line in sys.stdin:
        job, ranks = json.loads(line), []
        for environment, outputs in zip(job["environments"], job["outputs"]):
            rank = os.fork()
            if rank == 0:
                become(job["command"], environment, outputs)
                return job["command"][0]
            ranks.append(rank)
        print(json.dumps(wait_for(ranks)), flush=True)


if __name__ == "__main__":
    import torch.distributed  # noqa: F401
    gc.freeze()  # so that a rank does not scan all of PyTorch at its end
    with contextlib.suppress(ImportError):
        import torch._dynamo  # noqa: F401  otherwise PyTorch 2 imports it in each training rank, which doubles the time
    started = serve()
    if started:
        runpy.run_path(started, run_name="__main__")
