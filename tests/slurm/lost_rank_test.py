"""A rank of a training dies on its node: srun ends at once, and the job continues from its checkpoint."""

import os
import pathlib
import signal
import sys

import cluster
from chains import Chain
from cluster import STAGED, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import pictures  # noqa: E402
import ranks  # noqa: E402


class LostRank(Chain):
    def setUp(self):
        super().setUp()
        pictures.for_training(self.folder, STAGED / "workflows")
        self.write_steps("lost", f"""
            train: {pictures.training_of_two_ranks(self.folder, 12)}
        """)

    def test_a_rank_that_is_killed_or_stopped_on_one_node_costs_a_pass(self):
        run = self.submit()
        id = self.ids(run)["train"]
        step = self.folder / "dlflow-runs" / run / "steps/train"
        attempt = step / "attempt-1"
        for number, how, why in ((1, signal.SIGKILL, "error: rank 1 (node alpha-n2): killed by signal 9 (Killed)"),
                                 (2, signal.SIGSTOP, "error: rank 1 (node alpha-n2): stopped by a signal for 7 s")):
            known = set(step.glob("checkpoints/step-*/manifest.json"))
            wait_until(lambda: (attempt / f"claim-{number}").is_symlink(), 90, f"pass {number}")
            wait_until(lambda: set(step.glob("checkpoints/step-*/manifest.json")) - known, 90, "a checkpoint of this pass")
            os.kill(ranks.worker_of_rank(step, 1), how)
            # Promised: 5 s plus the stall timeout; 20 more for SLURM.
            wait_until(lambda: why in self.read(attempt / "events.jsonl"), 27, f"the end of pass {number}")
        self.wait_for(run, {"train": "succeeded"}, timeout=240)
        self.assertEqual(self.ids(run)["train"], id)
        self.assertFalse((step / "attempt-2").exists())


if __name__ == "__main__":
    cluster.main()
