"""Programs that reach their walltime: with exit status 75, with the package `dlflow`, and with only a saved file."""

import concurrent.futures
import importlib.util
import json
import pathlib
import shutil
import sys
import unittest

from support import BIN, Case, main
from pypi import need_torchrun  # support.py has put its folder on sys.path

PYTHON = sys.executable
PACKAGE = BIN.parent / "python"

needs_mpi = unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")

# A program without any use of dlflow. It is stopped twice before it has counted to the end, and loses unsaved counts.
COUNTS = """
    import os, pathlib, signal, sys, time
    saved = pathlib.Path("ckpt") / f"count-{os.environ.get('RANK', 0)}.txt"
    passes, count = map(int, saved.read_text().split()) if saved.exists() else (0, 0)

    def save_and_end(*_):
        if os.environ.get("SAVES", "yes") == "yes" or passes == 0:
            saved.with_suffix(".tmp").write_text(f"{passes + 1} {count}")
            saved.with_suffix(".tmp").rename(saved)
        sys.exit(int(os.environ["STATUS"]))

    request = getattr(signal, os.environ["SIGNAL"])
    signal.signal(request, save_and_end)
    while passes < 2 or count % 10:
        signal.pthread_sigmask(signal.SIG_BLOCK, [request])  # what is counted is also told
        count += 1
        print("counted", count, flush=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [request])
        time.sleep(0.05)
    pathlib.Path(os.environ["DLFLOW_OUTPUTS"], f"passes-{os.environ.get('RANK', 0)}").write_text(str(passes))
"""

# Has a child process without a handler, like a data loader started by spawn, and needs it to save.
SPAWNS = """
    import multiprocessing, os, pathlib, signal, sys, time

    def answer(requests, answers):
        for word in iter(requests.get, None):
            answers.put(word)

    def main():
        stop = []
        signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
        saved = pathlib.Path("ckpt/passes")
        passes = int(saved.read_text()) if saved.exists() else 0
        spawn = multiprocessing.get_context("spawn")
        requests, answers = spawn.Queue(), spawn.Queue()
        loader = spawn.Process(target=answer, args=(requests, answers))
        loader.start()
        while passes < 1 and not stop:
            time.sleep(0.02)
        requests.put(passes + bool(stop))
        saved.write_text(str(answers.get(timeout=5)))
        requests.put(None)
        loader.join()
        sys.exit(loader.exitcode)

    if __name__ == "__main__":
        main()
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

    def reasons(self, run, step="count"):
        events = map(json.loads, (self.attempt(run, step) / "events.jsonl").read_text().splitlines())
        return [(event["state"], event.get("reason", "")) for event in events if event.get("state") != "running"]

    def counted(self, run):
        return [int(line.split()[1]) for line in (self.attempt(run) / "stdout").read_text().splitlines()]

    def test_a_program_that_saves_without_exit_status_75_goes_on(self):
        self.workflow("signal: SIGTERM, lead: 5s, newer: 'ckpt/*.txt'", "SIGTERM", 3)
        run = self.run_json("w.yaml")["run"]
        again = ("queued", "walltime of 0:10 reached; continues from ckpt/count-0.txt")
        *before, last = self.reasons(run)
        self.assertGreaterEqual(len(before), 2)
        self.assertEqual((before, last), ([again] * len(before), ("succeeded", "")))
        counted = self.counted(run)
        self.assertEqual(counted, list(range(1, len(counted) + 1)))  # no count is repeated or lost
        job = self.attempt(run).parent
        saved = (job / "checkpoints/ckpt/count-0.txt").read_text().split()
        self.assertEqual(saved[0], str(len(before)))
        self.assertEqual((job / "outputs/passes-0").read_text(), saved[0])
        log = (self.attempt(run) / "supervisor.log").read_text()
        self.assertRegex(log, r"(?m)^\[\d{4}-\d\d-\d\d [\d:.]{12}\] \[info\] the program is asked to save$")
        # The way it was stopped does not affect the fingerprint of its result.
        self.workflow("lead: 1s", "SIGTERM", 3)
        self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"count": "cached"})

    def test_a_program_that_saves_nothing_new_stops(self):
        self.workflow("signal: SIGUSR1, lead: 5s, newer: 'ckpt/*.txt'", "SIGUSR1", 0, saves="once")
        run = self.run_json("w.yaml", status=1)["run"]
        # The program then exits with 0, which does not show whether its work is done.
        states = self.reasons(run)
        self.assertEqual(states[0], ("queued", "walltime of 0:10 reached; continues from ckpt/count-0.txt"))
        self.assertEqual(states[1], ("timed-out", "walltime of 0:10 reached, and no file that matches ckpt/*.txt is new"))

    def commands(self, commands, checkpoint, file="count.py", status=0):
        """A run with a step for each of them."""
        steps = "".join(f"""
              {name}:
                run: {json.dumps(command)}
                inputs: [{file}]
                checkpoint: {{{checkpoint}}}
                resources: {{walltime: 10s}}
                env: {{SIGNAL: SIGUSR1, STATUS: 75}}""" for name, command in commands.items())
        self.write("w.yaml", f"""
            name: behind
            steps:{steps}
        """)
        return self.run_json("w.yaml", "--keep-going", timeout=120, status=status)["run"]

    def test_a_program_behind_a_pipe_a_shell_or_another_program_saves_and_goes_on(self):
        python = f"{PYTHON} count.py"
        run = self.commands({
            "pipe": f"{python} 2>&1 | tee log.txt",
            "shell": f"bash -c '{python}; echo after'",
            "timed": f"timeout 600 {python}",
            "nice": f"nice {python} | cat",
            "background": f"{python} &\nwait",
            "session": f"setsid -w {python} | cat",
            "trap": f"trap 'echo got it' USR1\n{python}",
        }, "lead: 5s, newer: 'ckpt/*.txt'")
        self.assertEqual(set(self.states(run).values()), {"succeeded"}, self.states(run))
        for step in self.states(run):
            counted = [int(word) for word in (self.attempt(run, step) / "stdout").read_text().split() if word.isdigit()]
            self.assertEqual(counted, list(range(1, len(counted) + 1)), step)  # no step is lost
            self.assertEqual((self.attempt(run, step).parent / "checkpoints/ckpt/count-0.txt").read_text().split()[0], "2", step)

    def test_a_program_behind_a_shell_that_swallows_its_exit_status_goes_on_without_a_pattern(self):
        self.write("count.py", COUNTS.replace('pathlib.Path("ckpt")', 'pathlib.Path(os.environ["DLFLOW_CHECKPOINTS"])'))
        run = self.commands({"shell": f"bash -c '{PYTHON} count.py; echo after'"}, "lead: 5s")
        self.assertEqual(self.states(run), {"shell": "succeeded"})

    def test_a_process_that_does_not_handle_the_request_survives_the_save(self):
        self.write("spawn.py", SPAWNS)
        run = self.commands({"spawn": f"{PYTHON} spawn.py"}, "lead: 5s, newer: ckpt/passes", "spawn.py")
        self.assertEqual(self.states(run), {"spawn": "succeeded"})

    def test_a_program_that_fails_as_it_saves_is_not_advised_to_ask_for_more_time(self):
        self.write("fail.py", """
            import signal, time
            def save(*_):
                raise RuntimeError("no space for the state")
            signal.signal(signal.SIGUSR1, save)
            time.sleep(60)
        """)
        run = self.commands({"fails": f"{PYTHON} fail.py"}, "lead: 5s", "fail.py", status=1)
        state, reason = self.reasons(run, "fails")[-1]
        self.assertEqual(state, "failed")
        self.assertIn("RuntimeError: no space for the state", reason)
        self.assertNotIn("more time", self.dlflow("status", run)[0])

    def reasons_of(self, program, status=0):
        """What becomes of a program of 4 s at a time."""
        self.write("w.yaml", f"""
            name: short
            steps:
              count:
                run: [{PYTHON}, {program}]
                inputs: [{program}]
                checkpoint: {{signal: SIGTERM, newer: "ckpt/*.pt"}}
                resources: {{walltime: 4s}}
        """)
        return self.reasons(self.run_json("w.yaml", status=status, timeout=120)["run"])

    def test_a_program_that_saves_unchanged_content_repeatedly_stops(self):
        self.write("again.py", """
            import pathlib, time
            saved = pathlib.Path("ckpt/ckpt.pt")
            n = int(saved.read_text()) if saved.exists() else 0
            while True:
                saved.write_text(str(n))  # at the top of the loop, as nanoGPT does
                time.sleep(60)
                n += 1
        """)
        states = self.reasons_of("again.py", status=1)
        self.assertEqual([state for state, _ in states], ["queued", "queued", "timed-out"])
        self.assertRegex(states[-1][1], "^no progress: .*; save more often, or give it more time than 0:04$")

    def test_a_program_without_a_handler_is_not_ended_in_the_middle_of_a_save(self):
        self.write("slow.py", """
            import json, pathlib, time
            saved = pathlib.Path("ckpt/ckpt.pt")
            n = json.loads(saved.read_text())["n"] if saved.exists() else 0
            while n < 12:
                n += 1
                with open(saved, "w") as file:  # over the one before, in many small pieces
                    for piece in json.dumps({"n": n, "weights": [0] * 40}):
                        file.write(piece)
                        file.flush()
                        time.sleep(0.005)
                time.sleep(0.3)
        """)
        states = self.reasons_of("slow.py")
        self.assertEqual({state for state, _ in states[:-1]}, {"queued"})
        self.assertEqual(states[-1][0], "succeeded")

    @needs_mpi
    def test_a_step_whose_rank_is_killed_goes_on_from_its_checkpoint(self):
        self.write("die.py", """
            import os, pathlib, signal, time
            saved = pathlib.Path("ckpt/n")
            if not saved.exists():
                if os.environ["RANK"] == "1":
                    pathlib.Path("ckpt/half").write_text("1")
                    os.rename("ckpt/half", saved)
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
        """)
        self.write("w.yaml", f"""
            name: die
            steps:
              count:
                run: "{PYTHON} die.py 2>&1 | cat"
                inputs: [die.py]
                checkpoint: {{newer: ckpt/n}}
                resources: {{walltime: 60s, ranks: 2}}
        """)
        states = self.reasons(self.run_json("w.yaml", timeout=120)["run"])
        self.assertEqual(states[0][0], "queued", states)
        self.assertRegex(states[0][1], r"rank 1 \(node .*\): killed by signal 9 \(Killed\); continues from ckpt/n$")
        self.assertEqual(states[1][0], "succeeded")

    @needs_mpi
    def test_every_rank_gets_the_signal_that_the_step_names(self):
        self.workflow("signal: SIGTERM, lead: 7s, newer: 'ckpt/*.txt'", "SIGTERM", 3, resources="walltime: 14s, ranks: 2")
        run = self.run_json("w.yaml", timeout=90)["run"]
        *before, last = [state for state, _ in self.reasons(run)]
        self.assertEqual((set(before), last), ({"queued"}, "succeeded"))
        for rank in (0, 1):
            self.assertEqual((self.attempt(run).parent / f"outputs/passes-{rank}").read_text(), str(len(before)))

    def test_training_with_the_package_saves_goes_on_and_publishes_its_checkpoints(self):
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
        # A changed parameter is other work, although no file mentions the variable.
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
                resources: {{walltime: 60s, ranks: 2}}
                env: {{PYTHONPATH: {PACKAGE}, PET_REDIRECTS: 1, PET_TEE: 1, PET_MONITOR_INTERVAL: 0.1, USE_LIBUV: 0}}  # Debian 13's PyTorch has none
                {more}
        """)
        run = self.run_json("w.yaml", timeout=240)["run"]
        metrics = self.status(run)["steps"][0]["metrics"]
        self.assertEqual(metrics["passes"], 1)
        self.assertGreater(metrics["step"], 0)

    @needs_torch
    @needs_mpi
    def test_ranks_that_mpirun_starts_save_and_go_on(self):
        self.train_on_two_ranks("train.py", "keep: 1")

    @needs_torch
    def test_ranks_that_torchrun_starts_save_and_go_on(self):
        need_torchrun(self)
        self.train_on_two_ranks("-m, torch.distributed.run, train.py", 'signal: SIGTERM, newer: "step-*[0-9]/manifest.json"', "launch: node")

    def test_a_run_whose_job_timed_out_ends_with_the_next_command(self):
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
