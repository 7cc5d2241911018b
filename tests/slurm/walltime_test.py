"""A job that does not use dlflow reaches its walltime twice: it saves a file on request, and SLURM runs it again."""

import json

import cluster
from chains import Chain

# Each rank counts and saves its own file. It is stopped twice before it may end.
COUNTS = """
import os, pathlib, signal, sys, time
rank = os.environ["RANK"]
saved = pathlib.Path("ckpt") / f"count-{rank}.txt"
passes, count = map(int, saved.read_text().split()) if saved.exists() else (0, 0)

def save_and_end(*_):
    saved.with_suffix(".tmp").write_text(f"{passes + 1} {count}")
    saved.with_suffix(".tmp").rename(saved)
    sys.exit(3)

signal.signal(signal.SIGTERM, save_and_end)
while passes < 2:
    count += 1
    time.sleep(0.1)
pathlib.Path(os.environ["DLFLOW_OUTPUTS"], rank).write_text(f"{passes} {count}")
"""


# Saves like nanoGPT, over its only checkpoint and with a spawned data loader. Counts the requests that it gets.
TRAINS = """
import multiprocessing, os, pathlib, signal, sys, time

def load(requests, answers):
    for step in iter(requests.get, None):
        answers.put(step)

def main():
    rank, asked = os.environ.get("RANK", "0"), []
    signal.signal(getattr(signal, os.environ["SIGNAL"]), lambda *_: asked.append(1))
    saved = pathlib.Path("out") / f"ckpt-{rank}.pt"
    step, passes = map(int, saved.read_text().split()) if saved.exists() else (0, 0)
    spawn = multiprocessing.get_context("spawn")
    requests, answers = spawn.Queue(), spawn.Queue()
    loader = spawn.Process(target=load, args=(requests, answers), daemon=True)
    loader.start()
    while passes < 2:
        requests.put(step + 1)
        step = answers.get(timeout=30)
        print("rank", rank, "step", step, flush=True)
        time.sleep(0.1)
        if asked:
            time.sleep(1)  # for a second request, which must not come
            print("rank", rank, "asked", len(asked), flush=True)
            saved.write_text(f"{step} {passes + 1}")
            return
    pathlib.Path(os.environ["DLFLOW_OUTPUTS"], rank).write_text(str(step))

if __name__ == "__main__":
    main()
"""


class Walltime(Chain):
    """Jobs of a test run at the same time: each takes one core of its nodes."""

    def end(self, run, step):
        """Waits until it has succeeded with the jobs it was submitted with; returns the folder of `step`."""
        before = self.ids(run)
        self.wait_for(run, {"after": "succeeded"}, timeout=240)
        self.assertEqual(self.ids(run), before)
        return self.folder / "dlflow-runs" / run / "steps" / step

    def counts(self, ranks):
        self.write_steps(f"walltime-{ranks}", f"""
            count:
              run: [/usr/bin/python3, count.py]
              inputs: [count.py]
              checkpoint: {{signal: SIGTERM, lead: 8s, newer: "ckpt/*.txt"}}
              resources: {{walltime: 16s, ranks: {ranks}}}
            after: {self.step("after", ", needs: [count]")}
        """)
        return self.submit()

    def check_counts(self, run, ranks):
        job = self.end(run, "count")
        events = map(json.loads, (job / "attempt-1/events.jsonl").read_text().splitlines())
        ends = [(event["state"], event.get("reason", "")) for event in events if event.get("state") not in ("running", None)]
        self.assertEqual([state for state, _ in ends], ["queued", "queued", "succeeded"])
        for _, reason in ends[:2]:
            self.assertRegex(reason, r"^walltime of 0:16 reached; continues from ckpt/count-\d.txt$")
        for rank in range(ranks):
            passes, count = map(int, (job / f"outputs/{rank}").read_text().split())
            self.assertEqual(passes, 2)
            self.assertGreater(count, 1)
            self.assertEqual((job / f"checkpoints/ckpt/count-{rank}.txt").read_text(), f"2 {count}")

    def pipes(self, signal):
        self.write_steps(f"pipes-{signal.lower()}", f"""
            train:
              run: /usr/bin/python3 train.py 2>&1 | tee log-$RANK
              inputs: [train.py]
              env: {{SIGNAL: {signal}}}
              checkpoint: {{signal: {signal}, lead: 10s, newer: "out/ckpt-*.pt"}}
              resources: {{walltime: 20s, ranks: 2}}
            after: {self.step("after", ", needs: [train]")}
        """)
        return self.submit()

    def check_pipes(self, run):
        lines = [line.split() for line in (self.end(run, "train") / "attempt-1/stdout").read_text().splitlines() if line.startswith("rank ")]
        for rank in ("0", "1"):
            steps = [int(words[3]) for words in lines if words[1:3] == [rank, "step"]]
            self.assertEqual(steps, list(range(1, len(steps) + 1)))  # none is lost or repeated
            self.assertEqual([words[3] for words in lines if words[1:3] == [rank, "asked"]], ["1", "1"])

    def test_ranks_on_two_nodes_behind_a_pipe_are_asked_once_and_lose_no_step(self):
        self.write("train.py", TRAINS)
        runs = {signal: self.pipes(signal) for signal in ("SIGUSR1", "SIGTERM")}
        for signal, run in runs.items():
            with self.subTest(signal):
                self.check_pipes(run)

    def test_one_rank_and_ranks_on_two_nodes_are_requeued_twice_by_the_signal_that_the_step_names(self):
        self.write("count.py", COUNTS)
        runs = {ranks: self.counts(ranks) for ranks in (1, 2)}
        for ranks, run in runs.items():
            with self.subTest(ranks=ranks):
                self.check_counts(run, ranks)


if __name__ == "__main__":
    cluster.main()
