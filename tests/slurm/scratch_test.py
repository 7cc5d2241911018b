"""`scratch: true` on nodes with a disk each (a tmpfs as /tmp): one copy per node, shared by jobs, removed at the end."""

import os
import pathlib
import re
import signal
import sys

import cluster
from chains import Chain
from cluster import STAGED, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import pictures  # noqa: E402
import ranks  # noqa: E402


class Scratch(Chain):
    def setUp(self):
        super().setUp()
        pictures.for_training(self.folder, STAGED / "workflows")

    def submit_training(self, epochs):
        self.write_steps("scratch", f"""
            train:
              uses: train
              resources: {{ranks: 2, memory: 1000MiB}}
              with: {{model: models/mlp.yaml, data: {self.folder}/data, epochs: {epochs}, lr: 0.05, validation: 200, scratch: true}}
              checkpoint: {{every: 1000000 steps}}
        """)
        return self.submit("--force", "train")

    def attempt(self, run):
        return self.folder / "dlflow-runs" / run / "steps/train/attempt-1"

    def said(self, run):
        """node -> its message about the data: "copied to" or "found in"."""
        file = self.attempt(run) / "stdout"
        return dict(re.findall(r"^(\S+): data (\w+ \w+) ", file.read_text() if file.exists() else "", re.MULTILINE))

    def copies(self, node):
        """The files on that node's disk, as its first process sees them."""
        pid = (cluster.ROOT / "alpha/run" / f"node-{node}.pid").read_text().strip()
        child = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        return [path.name for path in pathlib.Path(f"/proc/{child}/root/tmp").glob("dlflow-*/*") if path.name != "registry"]

    def test_two_jobs_on_the_same_nodes_share_one_copy_on_each(self):
        nodes = {"alpha-n1", "alpha-n2"}
        first = self.submit_training(epochs=100000)
        wait_until(lambda: self.said(first).keys() == nodes, 90, "both nodes to have the data")
        self.assertEqual(set(self.said(first).values()), {"copied to"})
        second = self.submit_training(epochs=1)
        self.wait_for(second, {"train": "succeeded"}, timeout=120)
        self.assertEqual(self.said(second), dict.fromkeys(nodes, "found in"))
        message = (self.attempt(second) / "metrics.jsonl").read_text().splitlines()[0]
        self.assertIn("of data on the disk of 2 of 2 nodes, 2 found there", message)
        for node in (1, 2):
            self.assertEqual(len(self.copies(node)), 2, self.copies(node))  # one, and its lock: the first job continues
        self.dlflow("cancel", first)
        wait_until(lambda: not self.copies(1) + self.copies(2), 60, "the last job to take the copies away")

    def test_files_that_a_node_lost_with_its_job_are_no_obstacle(self):
        """A rank that is killed leaves its node's copy; the next job there, with other data, removes it."""
        first = self.submit_training(epochs=100000)
        wait_until(lambda: len(self.said(first)) == 2, 90, "both nodes to have the data")
        os.kill(ranks.worker_of_rank(self.attempt(first).parent, 1), signal.SIGKILL)
        self.wait_for(first, {"train": "failed"}, timeout=120)
        self.assertEqual(len(self.copies(2)), 2)  # rank 0 removes its own, unless srun is faster and kills it, too
        pictures.write(self.folder / "data", train=1500, suffix="")
        second = self.submit_training(epochs=1)
        self.wait_for(second, {"train": "succeeded"}, timeout=120)
        self.assertEqual(set(self.said(second).values()), {"copied to"})
        self.assertEqual(self.copies(1) + self.copies(2), [])


if __name__ == "__main__":
    cluster.main()
