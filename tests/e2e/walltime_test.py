"""Programs that reach their walltime: with exit status 75, with the package `dlflow`, and with nothing but a file that they save."""

import concurrent.futures
import importlib.util
import json
import pathlib
import shutil
import sys
import unittest

from support import BIN, Case, main

PYTHON = sys.executable
PACKAGE = BIN.parent / "python"

needs_mpi = unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")

# Knows nothing of dlflow. It is stopped twice before it has counted to the end, and loses what it has not saved.
COUNTS = """
    import os, pathlib, signal, sys, time
    saved = pathlib.Path("ckpt") / f"count-{os.environ.get('RANK', 0)}.txt"
    passes, count = map(int, saved.read_text().split()) if saved.exists() else (0, 0)

    def save_and_end(*_):
        if os.environ.get("SAVES", "yes") == "yes" or passes == 0:
            saved.with_suffix(".tmp").write_text(f"{passes + 1} {count}")
            saved.with_suffix(".tmp").rename(saved)
        sys.exit(int(os.environ["STATUS"]))

    signal.signal(getattr(signal, os.environ["SIGNAL"]), save_and_end)
    while passes < 2 or count % 10:
        count += 1
        print("counted", count, flush=True)
        time.sleep(0.05)
    pathlib.Path(os.environ["DLFLOW_OUTPUTS"], f"passes-{os.environ.get('RANK', 0)}").write_text(str(passes))
"""

# Training with the package, in plain Python.
TRAINS = """
    import time, dlflow
    given = dlflow.params(rate=0.5, passes=2)
    weights = {"w": 0.0}
    saved = dlflow.resume(model=weights)
    step, passes = saved.step, saved.values.get("passes", 0)
    while passes < given.passes or step % 10:
        step += 1
        weights["w"] += given.rate * (1 - weights["w"])
        dlflow.report(step=step, loss=1 - weights["w"])
        print("step", step, flush=True)
        time.sleep(0.05)
        if dlflow.should_stop():
            dlflow.checkpoint(step, model=weights, metrics={"loss": 1 - weights["w"]}, values={"passes": passes + 1})
            dlflow.stop()
    dlflow.checkpoint(step, model=weights, metrics={"loss": 1 - weights["w"]})
"""


class Walltime(Case):
    def setUp(self):
        super().setUp()
        self.write("count.py", COUNTS)

    def workflow(self, checkpoint, signal, status, extra="", resources="walltime: 10s", saves="yes"):
        self.write("w.yaml", f"""
            name: count
            steps:
              count:
                run: [{PYTHON}, count.py]
                inputs: [count.py]
                outputs: {{passes: passes-0}}
                checkpoint: {{{checkpoint}}}
                resources: {{{resources}}}
                env: {{SIGNAL: {signal}, STATUS: {status}, SAVES: "{saves}"}}
                {extra}
        """)

    def attempt(self, run, step="count"):
        return pathlib.Path(self.status(run)["directory"], f"steps/{step}/attempt-1")

    def reasons(self, run):
        events = map(json.loads, (self.attempt(run) / "events.jsonl").read_text().splitlines())
        return [(event["state"], event.get("reason", "")) for event in events if event.get("state") != "running"]

    def counted(self, run):
        return [int(line.split()[1]) for line in (self.attempt(run) / "stdout").read_text().splitlines()]

    def test_a_program_that_saves_but_knows_no_exit_status_75_goes_on(self):
        self.workflow("signal: SIGTERM, lead: 5s, newer: 'ckpt/*.txt'", "SIGTERM", 3)
        run = self.run_json("w.yaml")["run"]
        again = ("queued", "walltime of 0:10 reached, goes on from ckpt/count-0.txt")
        *before, last = self.reasons(run)
        self.assertGreaterEqual(len(before), 2)
        self.assertEqual((before, last), ([again] * len(before), ("succeeded", "")))
        counted = self.counted(run)
        self.assertEqual(counted, list(range(1, len(counted) + 1)))  # nothing twice, nothing lost
        job = self.attempt(run).parent
        saved = (job / "checkpoints/ckpt/count-0.txt").read_text().split()
        self.assertEqual(saved[0], str(len(before)))
        self.assertEqual((job / "outputs/passes-0").read_text(), saved[0])
        # How it was stopped is no part of what makes its result.
        self.workflow("lead: 1s", "SIGTERM", 3)
        self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"count": "cached"})

    def test_a_program_that_saves_nothing_new_stops(self):
        self.workflow("signal: SIGUSR1, lead: 5s, newer: 'ckpt/*.txt'", "SIGUSR1", 0, saves="once")
        run = self.run_json("w.yaml", status=1)["run"]
        # It ends with 0 then: nobody knows whether its work is done.
        states = self.reasons(run)
        self.assertEqual(states[0], ("queued", "walltime of 0:10 reached, goes on from ckpt/count-0.txt"))
        self.assertEqual(states[1], ("timed-out", "walltime of 0:10 reached, and no file that matches ckpt/*.txt is new"))

    @needs_mpi
    def test_every_rank_gets_the_signal_that_the_step_names(self):
        self.workflow("signal: SIGTERM, lead: 7s, newer: 'ckpt/*.txt'", "SIGTERM", 3, resources="walltime: 14s, ranks: 2")
        run = self.run_json("w.yaml", timeout=90)["run"]
        *before, last = [state for state, _ in self.reasons(run)]
        self.assertEqual((set(before), last), ({"queued"}, "succeeded"))
        for rank in (0, 1):
            self.assertEqual((self.attempt(run).parent / f"outputs/passes-{rank}").read_text(), str(len(before)))

    def test_training_with_the_package_saves_goes_on_and_hands_over_its_checkpoints(self):
        self.write("train.py", TRAINS)
        self.write("w.yaml", f"""
            name: package
            params: {{rate: 0.25}}
            steps:
              train:
                run: [{PYTHON}, -B, train.py]
                inputs: [train.py]
                outputs: {{checkpoints: checkpoints}}
                checkpoint: {{keep: 1, lead: 5s}}
                resources: {{walltime: 10s}}
                require: {{loss: "< 0.5"}}
                env: {{PYTHONPATH: {PACKAGE}}}
              best:
                uses: checkpoint
                with: {{from: "${{{{ steps.train.outputs.checkpoints }}}}", select: min loss, export: safetensors}}
        """)
        run = self.run_json("w.yaml")["run"]
        self.assertEqual(self.states(run), {"train": "succeeded", "best": "succeeded"})
        steps = [int(line.split()[1]) for line in (self.attempt(run, "train") / "stdout").read_text().splitlines()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        events = map(json.loads, (self.attempt(run, "train") / "events.jsonl").read_text().splitlines())
        *before, last = [event["exit"] for event in events if "exit" in event]
        self.assertEqual((set(before), last), ({75}, 0))
        metrics = {step["name"]: step["metrics"] for step in self.status(run)["steps"]}
        self.assertEqual(metrics["train"], {"step": steps[-1], "loss": 0.75 ** steps[-1]} | {"loss": metrics["train"]["loss"]})
        self.assertAlmostEqual(metrics["train"]["loss"], 0.75 ** steps[-1], places=6)
        self.assertEqual(metrics["best"]["step"], steps[-1])
        # Another parameter is other work, though no file mentions the variable.
        for rate, action in (("0.25", "reused"), ("0.5", "runs")):
            plan = json.loads(self.dlflow("explain", "w.yaml", "--set", f"rate={rate}", "--json")[0])
            self.assertEqual({job["job"]: job["verdict"] for job in plan}["train"], action, plan)

    def train_on_two_ranks(self, command, checkpoint, more=""):
        self.write("train.py", """
            import time, torch, dlflow
            torch.distributed.init_process_group("gloo")
            model = torch.nn.Linear(2, 2)
            saved = dlflow.resume(model=model)
            passes, step = saved.values.get("passes", 0), saved.step
            while passes < 1:
                step += 1
                time.sleep(0.05)
                if dlflow.should_stop():
                    dlflow.checkpoint(step, model=model, values={"passes": passes + 1})
                    dlflow.stop()
            dlflow.report(step=step, passes=passes)
        """)
        self.write("w.yaml", f"""
            name: torchrun
            steps:
              train:
                run: [{PYTHON}, -B, {command}]
                inputs: [train.py]
                checkpoint: {{lead: 20s, {checkpoint}}}
                resources: {{walltime: 40s, ranks: 2}}
                env: {{PYTHONPATH: {PACKAGE}, PET_REDIRECTS: 1, PET_TEE: 1, PET_MONITOR_INTERVAL: 0.1}}
                {more}
        """)
        run = self.run_json("w.yaml", timeout=120)["run"]
        metrics = self.status(run)["steps"][0]["metrics"]
        self.assertEqual(metrics["passes"], 1)
        self.assertGreater(metrics["step"], 0)

    @needs_torch
    @needs_mpi
    def test_ranks_that_mpirun_starts_save_and_go_on(self):
        self.train_on_two_ranks("train.py", "keep: 1")

    @needs_torch
    def test_ranks_that_torchrun_starts_save_and_go_on(self):
        self.train_on_two_ranks("-m, torch.distributed.run, train.py", 'signal: SIGTERM, newer: "step-*[0-9]/manifest.json"', "launch: node")

    def test_a_run_whose_job_timed_out_ends_with_what_to_type(self):
        self.write("w.yaml", "name: slow\nsteps: {work: {run: sleep 60, resources: {walltime: 2s}}}\n")
        out, _ = self.dlflow("run", "w.yaml", status=1)
        self.assertRegex(out, r"again    dlflow resubmit slow-\w+ --set walltime=1m\n")


class Awaited(unittest.TestCase):
    """A case that runs beside others."""

    def __init__(self, case, end):
        super().__init__("end")
        self.case, self._end = case, end

    def __str__(self):
        return str(self.case)

    def end(self):
        self._end.result()


def load_tests(loader, tests, pattern):
    """Three at a time: mostly they wait."""
    pool = concurrent.futures.ThreadPoolExecutor(3)
    cases = [case for group in tests for case in group if not isinstance(case, Awaited)]
    return unittest.TestSuite(Awaited(case, pool.submit(case.debug)) for case in cases)


if __name__ == "__main__":
    main()
