"""P8: trained weights have the same bits on any number of ranks, and after a kill and a resume with another number."""

import unittest

from training_case import ROOT, TrainingCase


class Exact(TrainingCase):
    def test_any_number_of_ranks_trains_the_same_weights(self):
        cases = [("mlp", {}), ("lenet", {}), ("lenet", {"precision": {"leaves": 8, "compute": "bf16"}}),
                 ("resnet20", {"validation": 1152}), ("resnet20", {"validation": 1152, "batch_norm": "global"})]
        data = str(self.new_data(3200))
        for model, more in cases:
            settings = {"model": str(ROOT / f"workflows/models/{model}.yaml"), "data": data, "precision": {"leaves": 8}} | more
            alone = self.folder("alone", **settings)
            summary = self.train(alone, 1)
            for ranks in (2, 3, 4, 8):
                with self.subTest(model=model, ranks=ranks, **more):
                    folder = self.folder("shared", **settings)
                    other = self.train(folder, ranks)
                    self.assertEqual(self.bits(folder), self.bits(alone))
                    self.assertEqual((other["accuracy"], other["loss"]), (summary["accuracy"], summary["loss"]))

    def test_any_number_of_ranks_trains_the_same_weights_with_other_optimizers(self):
        for optimizer, more in (("adamw", {}), ("lamb", {"clip_norm": 1, "accumulate": 2})):
            settings = more | {"optimizer": {"kind": optimizer}, "lr": 0.005, "weight_decay": 0.01, "epochs": 1, "batch": 64,
                               "precision": {"leaves": 8}}
            alone = self.folder("alone", **settings)
            self.train(alone, 1)
            for ranks in (2, 3, 4, 8):
                with self.subTest(optimizer=optimizer, ranks=ranks):
                    folder = self.folder("shared", **settings)
                    self.train(folder, ranks)
                    self.assertEqual(self.bits(folder), self.bits(alone))

    def test_a_killed_run_goes_on_with_other_ranks_and_the_same_weights(self):
        settings = {"precision": {"leaves": 8}}
        whole, killed = self.folder("whole", **settings), self.folder("killed", **settings)
        self.train(whole, 2, DLFLOW_CHECKPOINT_EVERY="3 steps")
        for ranks, step in ((3, 3), (1, 9), (8, 15)):
            self.kill_at(killed, ranks, step)
        self.train(killed, 4, DLFLOW_CHECKPOINT_EVERY="3 steps")
        self.assertEqual(self.bits(killed), self.bits(whole))


if __name__ == "__main__":
    unittest.main()
