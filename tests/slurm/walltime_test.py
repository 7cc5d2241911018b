"""A job that reaches its walltime twice and knows nothing of dlflow: it saves a file when it is asked, and SLURM runs it again."""

import json
import unittest

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


class Walltime(Chain):
    def counts(self, ranks, profile):
        self.write("count.py", COUNTS)
        self.write("w.yaml", f"""
            name: walltime
            steps:
              count:
                run: [/usr/bin/python3, count.py]
                inputs: [count.py]
                checkpoint: {{signal: SIGTERM, lead: 8s, newer: "ckpt/*.txt"}}
                resources: {{walltime: 16s, ranks: {ranks}}}
              after: {self.step("after", ", needs: [count]")}
        """)
        run = self.submit(profile=profile)
        before = self.ids(run)
        self.wait_for(run, {"after": "succeeded"}, timeout=180)
        self.assertEqual(self.ids(run), before)  # the same jobs all the time
        job = self.folder / "dlflow-runs" / run / "steps/count"
        events = map(json.loads, (job / "attempt-1/events.jsonl").read_text().splitlines())
        ends = [(event["state"], event.get("reason", "")) for event in events if event.get("state") not in ("running", None)]
        self.assertEqual([state for state, _ in ends], ["queued", "queued", "succeeded"])
        for _, reason in ends[:2]:
            self.assertRegex(reason, r"^walltime of 0:16 reached, goes on from ckpt/count-\d.txt$")
        for rank in range(ranks):
            passes, count = map(int, (job / f"outputs/{rank}").read_text().split())
            self.assertEqual(passes, 2)
            self.assertGreater(count, 1)
            self.assertEqual((job / f"checkpoints/ckpt/count-{rank}.txt").read_text(), f"2 {count}")

    def test_one_rank_is_requeued_twice(self):
        self.counts(1, "alpha")

    def test_ranks_on_two_nodes_are_asked_by_the_signal_that_the_step_names(self):
        self.counts(2, "alpha")


if __name__ == "__main__":
    cluster.main()
