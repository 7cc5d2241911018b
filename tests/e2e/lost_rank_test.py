"""A training step continues from its checkpoint after a rank died or stopped, and reports why."""

import os
import signal
import sys

from support import ROOT, Case, main

sys.path.insert(0, str(ROOT / "tests/support"))
import pictures  # noqa: E402
import ranks  # noqa: E402


class LostRank(Case):
    def setUp(self):
        super().setUp()
        pictures.for_training(self.folder, ROOT / "workflows")
        self.write_steps(f"""
            train: {pictures.training_of_two_ranks(self.folder, 3)}
            best: {{uses: checkpoint, with: {{from: '${{{{ steps.train.outputs.checkpoints }}}}', export: safetensors}}}}
        """)

    def exported(self, run):
        return next((self.folder / "dlflow-runs" / run / "steps/best/outputs").glob("*.safetensors")).read_bytes()

    def begin(self):
        """A run whose training has a checkpoint: its process, its name, and the folder of the training."""
        known = self.dlflow("status", "--quick", "--quiet")[0].split()
        process = self.start("run", "w.yaml", "--force", "train", "--force", "best")
        self.wait_for(lambda: len(self.dlflow("status", "--quick", "--quiet")[0].split()) > len(known), what="the run")
        run = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        step = self.folder / "dlflow-runs" / run / "steps/train"
        self.wait_for(lambda: list(step.glob("checkpoints/step-*/manifest.json")), what="a checkpoint")
        return process, run, step

    def test_a_killed_or_stopped_rank_costs_one_pass_and_changes_no_bit(self):
        whole = self.exported(self.run_json("w.yaml", timeout=120)["run"])
        for number, why in ((signal.SIGKILL, r"error: rank 1 \(node \S+\): killed by signal 9 \(Killed\)"),
                            (signal.SIGSTOP, r"error: rank 1 \(node \S+\): silent for 2 s; its process is stopped")):
            with self.subTest(number):
                process, run, step = self.begin()
                os.kill(ranks.worker_of_rank(step, 1), number)
                out, err = process.communicate(timeout=180)
                self.assertEqual(process.returncode, 0, out + err)
                self.assertEqual(self.exported(run), whole)
                events = (step / "attempt-1/events.jsonl").read_text()
                self.assertRegex(events, "saved a checkpoint and asked to be run again; " + why)
                self.assertTrue((step / "attempt-1/claim-2").is_symlink())
                self.assertFalse((step / "attempt-2").exists())  # no retry was used


if __name__ == "__main__":
    main()
