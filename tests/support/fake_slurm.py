"""A SLURM that is not there, for the end-to-end tests: fake_slurm/README.md says what it can do.

    slurm = FakeSlurm(self.folder / "slurm")
    slurm.mode("run background")              # jobs run for real; without it, slurm.end(job, "FAILED") decides
    self.env.update(slurm.env)                # dlflow finds sbatch, squeue, ... first in PATH
    ...
    slurm.settle(); slurm.state("3_1"); slurm.calls("sbatch")
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

    def run(self, *argv, check=True, user=None, **options):
        """Any of the tools: run("squeue", "-h"); the finished process with stdout and stderr."""
        env = {**os.environ, **self.env, **({"FAKE_SLURM_USER": user} if user else {})}
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

    def version(self, version):
        self.control("version", version)

    def mode(self, mode):
        """"outcomes", "run" (scripts run within advance and settle) or "run background" (as on a cluster)."""
        self.control("mode", *mode.split())

    def stop(self):
        """Kills what still runs: addCleanup(slurm.stop) in a test with "run background"."""
        self.control("stop")

    def advance(self, seconds):
        self.control("advance", seconds)

    def settle(self):
        self.control("settle")

    def end(self, job, state, *exit_code):
        self.control("end", job, state, *exit_code)

    def outcome(self, name_glob, seconds, state, *exit_code):
        self.control("outcome", name_glob, seconds, state, *exit_code)

    def purge(self):
        self.control("purge")

    def fault(self, command, moment, effect, count=1):
        self.control("fault", command, moment, effect, count)

    def clear_faults(self):
        self.control("fault", "clear")

    def down(self, seconds):
        self.control("down", seconds)

    def jobs(self):
        """The truth: {id: {"id", "request", "tasks": [{"index", "state", "shown", "reason", ...}]}}."""
        return {job["id"]: job for job in json.loads(self.control("jobs", "--json"))}

    def task(self, job):
        """A task by "3_1", or the only one of job 3; purged or not."""
        job_id, _, index = str(job).partition("_")
        tasks = self.jobs()[int(job_id)]["tasks"]
        return next(task for task in tasks if not index or task.get("index", -1) == int(index))

    def state(self, job):
        return self.task(job)["shown"]

    def by_name(self, name):
        """The ids of all jobs of that name, in the order of submission."""
        return [job["id"] for job in self.jobs().values() if job["request"].get("name") == name]

    def calls(self, command=None):
        """The logged calls, each {"command", "argv", "clock", "at", "directory"}; of one command or of all."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [call for call in map(json.loads, lines) if command in (None, call["command"])]

    def wait(self, condition, seconds=30, what="the cluster"):
        """With "run background": lets the clock trigger what is due until condition() holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"gave up waiting for {what}: {json.dumps(self.jobs(), indent=1)}")
            self.advance(0)
            time.sleep(0.02)

    def wait_until_idle(self, seconds=30):
        """Until no job runs and none that waits could start by itself."""
        stuck = {"DependencyNeverSatisfied", "Dependency", "JobHeldUser"}
        self.wait(lambda: all(task["state"] not in ("PENDING", "RUNNING") or
                              (task["state"] == "PENDING" and task.get("reason") in stuck)
                              for job in self.jobs().values() for task in job["tasks"]),
                  seconds, "all jobs to end")
