"""A simulated SLURM for the end-to-end tests; fake_slurm/README.md documents it.

    slurm = FakeSlurm(self.folder / "slurm")
    slurm.mode("background")                  # jobs run for real; without it, slurm.end(job, "FAILED") decides
    self.env.update(slurm.env)                # dlflow finds sbatch, squeue, ... first in PATH
    ...
    slurm.wait_until_idle(); slurm.state("3_1"); slurm.calls("sbatch")
"""

import json
import os
import pathlib
import subprocess
import time

TOOLS = pathlib.Path(os.environ["DLFLOW_BIN"]).resolve() / "tests/fake_slurm"


class FakeSlurm:
    """A world in `folder`; `settings` as in `fake-slurm set`: nodes=4, cpus=8, max_array_size=11."""

    def __init__(self, folder, **settings):
        self.folder = pathlib.Path(folder)
        self.env = {"FAKE_SLURM": str(self.folder), "PATH": f"{TOOLS}:{os.environ['PATH']}"}
        self.set(**settings)

    def run(self, *argv, check=True, **options):
        """Runs any of the tools: run("squeue", "-h"). Returns the finished process with stdout and stderr."""
        env = {**os.environ, **self.env}
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.run([str(TOOLS / argv[0]), *map(str, argv[1:])], env=env, text=True,
                                 capture_output=True, timeout=120, **options)
        if check and process.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, argv))}: {process.returncode}\n{process.stderr}")
        return process

    def control(self, *words):
        return self.run("fake-slurm", *words).stdout

    def set(self, **settings):
        self.control("set", *(f"{key}={value}" for key, value in settings.items()))

    def mode(self, mode):
        """"outcomes" (the test decides how jobs end) or "background" (scripts run, in real time)."""
        self.control("mode", mode)

    def stop(self):
        """Kills what still runs: addCleanup(slurm.stop) in a test with "background"."""
        self.control("stop")

    def advance(self, seconds):
        self.control("advance", seconds)

    def end(self, job, state):
        self.control("end", job, state)

    def purge(self):
        self.control("purge")

    def fault(self, command, moment, effect, count=1):
        self.control("fault", command, moment, effect, count)

    def clear_faults(self):
        self.control("fault", "clear")

    def jobs(self):
        """The actual state: {id: {"id", "request", "tasks": [{"index", "state", "reason", ...}]}}."""
        return {job["id"]: job for job in json.loads(self.control("jobs"))}

    def task(self, job):
        """The task "3_1", or the only one of job 3; purged or not."""
        job_id, _, index = str(job).partition("_")
        tasks = self.jobs()[int(job_id)]["tasks"]
        return next(task for task in tasks if not index or task["index"] == int(index))

    def state(self, job):
        return self.task(job)["state"]

    def calls(self, command=None):
        """The logged calls, each {"command", "argv"}; of one command or of all."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [call for call in map(json.loads, lines) if command in (None, call["command"])]

    def wait(self, condition, seconds=30, what="the cluster"):
        """With "background": triggers due events until condition() holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"gave up waiting for {what}: {json.dumps(self.jobs(), indent=1)}")
            self.advance(0)
            time.sleep(0.02)

    def wait_until_idle(self, seconds=30):
        """Waits until no job runs and no waiting job could start by itself."""
        stuck = {"DependencyNeverSatisfied", "Dependency"}
        self.wait(lambda: all(task["state"] not in ("PENDING", "RUNNING") or
                              (task["state"] == "PENDING" and task["reason"] in stuck)
                              for job in self.jobs().values() for task in job["tasks"]),
                  seconds, "all jobs to end")
