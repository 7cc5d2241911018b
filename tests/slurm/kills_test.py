"""A chain survives kill -9 of any of its processes, while an administrator requeues, cancels and holds its jobs: no step runs twice, none is lost.

DLFLOW_KILLS=200 sets the number of kills; the default is small. DLFLOW_SEED chooses processes and times.
"""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import time

import cluster
from chains import Chain
from cluster import ENDED, wait_until

STEPS = ("a", "b-0", "b-1", "b-2", "c", "d")


class Kills(Chain):
    clusters = (Chain.alpha,)

    def setUp(self):
        super().setUp()
        self.dice = random.Random(int(os.environ.get("DLFLOW_SEED", 7)))

    def program(self, step):
        """Writes a line with its id at its start, every tenth of a second, and at its end."""
        log = self.folder / f"{step}.log"
        return (f"echo start $$ >> {log}; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; echo tick $$ >> {log}; done; echo end $$ >> {log}")

    def new_run(self):
        self.write_steps("kills", f"""
            a: {{run: '{self.program("a")}'}}
            b: {{run: '{self.program("b-$DLFLOW_MATRIX_N")}', needs: [a], matrix: {{n: [0, 1, 2]}}}}
            c: {{run: '{self.program("c")}', needs: [b], retry: {{attempts: 3, on: [node-failure]}}}}
            d: {{run: '{self.program("d")}', needs: [c]}}
        """)
        for log in self.folder.glob("*.log"):
            log.unlink()
        while not (runs := self.dlflow("status", "--quick", "--quiet").stdout.split()):
            self.call_and_kill("run", "w.yaml", "--profile", "alpha", "--no-cache")
        return runs[0]

    # -- faults

    def call_and_kill(self, *verb):
        """Starts dlflow and kills it some time later."""
        process = self.alpha.start([cluster.STAGED / "bin/dlflow", *verb], cwd=self.folder, env=self.env,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.dice.uniform(0, 0.8))
        if process.poll() is None:
            self.kills += 1
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def processes(self):
        """pid -> command line of the processes that jobs of this test's folder have started."""
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{self.folder}".encode() in (entry / "environ").read_bytes() and b"SLURM_JOB_ID" in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return found

    def kill_process(self, _):
        """A supervisor, a program or a batch script."""
        found = list(self.processes())
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.dice.choice(found), signal.SIGKILL)
                self.kills += 1

    def as_root(self, *argv):
        """SLURM may refuse it, as the job has ended."""
        subprocess.run(argv, env={**os.environ, "SLURM_CONF": str(self.alpha.conf)}, capture_output=True, timeout=60)

    def administer(self, _):
        jobs = list(self.alpha.jobs())
        if not jobs:
            return
        verb = self.dice.choice((["scontrol", "requeue"], ["scontrol", "requeuehold"], ["scontrol", "hold"], ["scontrol", "release"], ["scancel"]))
        self.as_root(*verb, self.dice.choice(jobs))

    def release_all(self):
        for id, (state, _) in self.alpha.jobs().items():
            if state not in ENDED:
                self.as_root("scontrol", "release", id)

    # -- invariants

    def mend(self, run):
        """Acts as a user: resubmits until all steps have succeeded."""
        deadline = time.monotonic() + 240
        while set(self.states(run).values()) != {"succeeded"}:
            self.assertLess(time.monotonic(), deadline, self.dlflow("status", run).stdout)
            self.release_all()
            self.dlflow("resubmit", run, status=None)
            with contextlib.suppress(AssertionError):
                wait_until(lambda: not {"queued", "running"} & set(self.states(run).values()), 20, "an end")

    def check(self, run):
        """Programs of one step neither overlap nor follow a completed one."""
        for step in STEPS:
            lines = [line.split() for line in (self.folder / f"{step}.log").read_text().splitlines()]
            starts = [id for word, id in lines if word == "start"]
            self.assertEqual([id for word, id in lines if word == "end"], starts[-1:], f"{run}, {step}: {lines}")
            current = None
            for word, id in lines:
                current = id if word == "start" else current
                self.assertEqual(id, current, f"{run}, {step}: two at once: {lines}")

    def test_a_chain_survives_kills_while_an_administrator_requeues_cancels_and_holds(self):
        wanted = int(os.environ.get("DLFLOW_KILLS", 8))
        self.kills = 0
        while self.kills < wanted:
            run = self.new_run()
            for _ in range(16):
                time.sleep(self.dice.uniform(0, 0.6))
                self.dice.choice((
                    lambda run: self.call_and_kill("resubmit", run), lambda run: self.call_and_kill("status", run),
                    lambda run: self.call_and_kill("run", "--resume", run), self.kill_process, self.kill_process, self.administer, self.administer,
                ))(run)
            self.mend(run)
            wait_until(lambda: {state for state, _ in self.alpha.jobs().values()} <= ENDED, 60, "what is left in the queue to be cancelled")
            for id in self.alpha.jobs():  # successful jobs do not run again
                self.as_root("scontrol", "requeue", id)
            wait_until(lambda: {state for state, _ in self.alpha.jobs().values()} <= ENDED, 90, "requeued jobs to end")
            self.check(run)
            print(f"{self.kills} kills, {run}: all steps once", flush=True)
            self.dlflow("rm", run)


if __name__ == "__main__":
    cluster.main()
