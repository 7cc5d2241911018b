"""Several ranks of a training script in a step stop together, save once, and any number of them goes on."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import forked  # noqa: E402
import python_ranks  # noqa: E402
from cases import main  # noqa: E402
from pypi import NEWEST, needs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ["DLFLOW_BIN"])
LIBRARY = BIN.parent / "lib/libdlflow_runtime.so"

try:
    import torch
except ImportError:
    torch = None


class Case(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start(self, scenario, ranks, statuses, **environment):
        return python_ranks.run_ranks(self, self.python, [HERE / "rank.py", scenario], ranks, statuses, **environment)

    def run_ranks(self, scenario, ranks, status=0, **environment):
        """What each rank printed, and what rank 0 said to people."""
        names = {"FOLDER": self.folder, "DLFLOW_STEP": "train", "DLFLOW_CHECKPOINTS": self.folder / "ck", "DLFLOW_CHECKPOINT_EVERY": "1 epochs",
                 "DLFLOW_CHECKPOINT_KEEP": 2} | environment
        names = {name: str(value) for name, value in names.items()}
        outputs = self.start(scenario, ranks, dict.fromkeys(range(ranks), status), **names)
        return [out.splitlines() for out, _ in outputs], outputs[0][1]


@unittest.skipUnless(torch, "python3-torch is not installed")
@unittest.skipUnless(LIBRARY.exists(), "libdlflow_runtime.so was not built")
class Ranks(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = forked.Server()
        cls.addClassCleanup(cls.server.close)

    def start(self, scenario, ranks, statuses, **environment):
        return self.server.run_ranks(self, HERE / "rank.py", scenario, ranks, statuses, **environment)

    def used(self, outputs):
        """(epoch, sample) -> how often, over all ranks."""
        found = collections.Counter()
        for lines in outputs:
            for line in lines:
                word, *numbers = line.split()
                if word == "used":
                    epoch, *samples = map(int, numbers)
                    found.update((epoch, sample) for sample in samples)
        return found

    def test_all_ranks_stop_at_one_step_and_any_number_of_ranks_continues_with_each_sample_once(self):
        used = collections.Counter()
        for ranks, stop_at, backend in ((3, 4, "gloo"), (2, 9, "dlflow"), (1, -1, "gloo")):
            outputs, said = self.run_ranks("train", ranks, 0 if stop_at < 0 else 75, STOP_AT=stop_at, BACKEND=backend)
            used += self.used(outputs)
            last = {lines[-1] for lines in outputs}
            if stop_at > 0:
                self.assertEqual(last, {f"stopped {stop_at}"})
        # 4 steps of 9 samples and 3 of 6 (the last of 2) make the first epoch, then 2 of 6; the rest are of 3.
        self.assertEqual(last, {"done 22 2"})
        self.assertEqual(used, {(epoch, sample): 1 for epoch in range(2) for sample in range(50)})
        self.assertIn("step-000009 has the random numbers of 2 ranks, and there are 1 now: they start afresh", said)

    def test_each_rank_goes_on_with_its_own_random_numbers(self):
        first, _ = self.run_ranks("random_numbers", 2)
        second, _ = self.run_ranks("random_numbers", 2)
        self.assertEqual(first, second)
        self.assertNotEqual(first[0], first[1])

    def test_compressed_training_that_is_killed_goes_on_with_the_same_losses(self):
        expected, _ = self.run_ranks("compresses", 2, DLFLOW_CHECKPOINTS=self.folder / "uninterrupted")
        before, _ = self.run_ranks("compresses", 2, -9, KILLED="yes")
        after, said = self.run_ranks("compresses", 2)
        self.assertEqual([len(lines) for lines in before + after], [3] * 4)
        self.assertEqual([one + other for one, other in zip(before, after)], expected)
        self.assertIn("ck/step-000003", said)

    def test_state_that_differs_between_ranks_is_saved_for_each(self):
        self.run_ranks("of_each_rank", 2, SAVE="yes")
        self.assertEqual(json.loads((self.folder / "ck/step-000001/state.json").read_text())["per_rank"]["alone"], [{"x": [0]}, {"x": [1]}])
        outputs, said = self.run_ranks("of_each_rank", 2)
        for rank in (0, 1):
            self.assertEqual(outputs[rank], [f"{{'x': 5}} {{'x': tensor({10 + rank})}}", f"{{'x': [{rank}]}} {{'x': [{rank}]}}"])
        self.assertNotIn("merged", said)

    def test_state_of_another_number_of_ranks_is_merged_or_refused(self):
        self.run_ranks("of_each_rank", 2, SAVE="yes")
        for ranks, now in ((1, "is 1"), (3, "are 3")):
            outputs, said = self.run_ranks("of_each_rank", ranks)
            refusal = f"step-000001 has the alone of 2 ranks, each its own, and there {now} now: use 2, or give PerRank a function `merge`"
            self.assertEqual(outputs, [["{'x': 5} {'sum': tensor(21)}", refusal]] * ranks)
            self.assertIn(f"step-000001 has the merged of 2 ranks, each its own, and there {now} now: they are merged", said)

    def test_all_ranks_learn_that_one_could_not_write_its_part(self):
        outputs, _ = self.run_ranks("full_disk_of_another", 3)
        failure = "rank 1: [Errno 28] No space left on device"
        self.assertEqual(outputs, [[failure], *[[f"the checkpoint was not saved: {failure}"]] * 2])
        self.assertEqual(list((self.folder / "ck").glob("*")), [])

    def test_a_rank_that_does_not_call_checkpoint_is_named(self):
        outputs, _ = self.run_ranks("first_alone", 2)
        self.assertEqual(outputs[0], ["rank 1 does not call dlflow.checkpoint(): call it on every rank, not on rank 0 alone"])

    def test_a_first_rank_that_does_not_call_checkpoint_is_named(self):
        outputs, _ = self.run_ranks("others_alone", 2)
        self.assertEqual(outputs[1], ["rank 0 does not call dlflow.checkpoint(): call it on every rank"])

    def test_all_ranks_learn_that_a_checkpoint_could_not_be_written(self):
        outputs, _ = self.run_ranks("full_disk", 2)
        self.assertEqual(outputs[0], ["[Errno 28] No space left on device"])
        self.assertEqual(outputs[1], ["the checkpoint was not saved: [Errno 28] No space left on device"])
        self.assertEqual(list((self.folder / "ck").glob("*")), [])

    def test_ranks_without_torch_distributed_agree_over_a_group_of_the_runtime(self):
        outputs, _ = self.run_ranks("of_runtime", 3, 75)
        self.assertEqual(outputs, [["stopped 4"]] * 3)
        for path in self.folder.glob("address.*"):
            path.unlink()
        outputs, _ = self.run_ranks("of_runtime", 3)
        self.assertEqual(outputs, [["done 4 {'x': [1, 2]}"]] * 3)


@unittest.skipUnless(torch, "python3-torch is not installed")
class Sampler(unittest.TestCase):
    """Checks the samples of each rank without starting processes."""

    def samples(self, ranks, **options):
        from dlflow.torch.sampler import DistributedSampler
        return [DistributedSampler(range(self.length), ranks, rank, **options) for rank in range(ranks)]

    def take(self, samplers, batch, batches=None):
        """What the ranks use in so many batches each, or to the end of the epoch."""
        used = collections.Counter()
        for sampler in samplers:
            loader = torch.utils.data.DataLoader(range(self.length), sampler=sampler, batch_size=batch)
            for number, data in enumerate(sampler.track(loader), 1):
                used.update(data.tolist())
                if number == batches:
                    break
        return used

    def test_every_sample_is_used_once_under_any_numbers_of_ranks(self):
        for self.length in (1, 2, 7, 48, 50):
            for first, second, batch, batches in ((1, 3, 2, 1), (3, 1, 2, 2), (4, 3, 3, 2), (2, 4, 5, 1), (3, 2, 1, 4)):
                with self.subTest(length=self.length, first=first, second=second, batch=batch, batches=batches):
                    before = self.samples(first, uneven="keep", seed=3)
                    after = self.samples(second, uneven="keep", seed=3)
                    used = self.take(before, batch, batches)
                    state = before[0].state_dict()
                    if state["epoch"] == 0:  # else nothing was left
                        for sampler in after:
                            sampler.load_state_dict(state)
                        self.assertEqual(sum(map(len, after)), self.length - state["used"])
                        used += self.take(after, batch)
                    self.assertEqual(used, {sample: 1 for sample in range(self.length)})

    def test_ranks_get_equally_many_samples_by_padding_or_dropping_fewer_than_the_number_of_ranks(self):
        self.length = 50
        for uneven, expected in (("pad", 51), ("drop", 48)):
            samplers = self.samples(3, uneven=uneven)
            self.assertEqual({len(sampler) for sampler in samplers}, {expected // 3})
            self.assertEqual({len(list(sampler)) for sampler in samplers}, {expected // 3})
            used = self.take(samplers, 4)
            self.assertEqual((sum(used.values()), len(used)), (expected, min(expected, 50)))

    def test_each_epoch_has_its_own_order_which_ranks_share(self):
        self.length = 48
        orders = []
        for epoch in (0, 1):
            samplers = self.samples(2)
            for sampler in samplers:
                sampler.set_epoch(epoch)
            orders.append([sample for pair in zip(*samplers) for sample in pair])
            self.assertEqual(sorted(orders[-1]), list(range(48)))
        self.assertNotEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], list(range(48)))
        self.assertEqual(list(self.samples(1, shuffle=False)[0]), list(range(48)))

    def test_another_data_set_or_seed_is_refused(self):
        self.length = 48
        state = self.samples(1)[0].state_dict()
        with self.assertRaisesRegex(ValueError, "saved with seed 0, and this one has 1"):
            self.samples(1, seed=1)[0].load_state_dict(state)
        self.length = 47
        with self.assertRaisesRegex(ValueError, "saved with length 48, and this one has 47"):
            self.samples(1)[0].load_state_dict(state)


@needs("torch")
class Sharded(Case):
    python = str(NEWEST)

    def test_shards_are_loaded_by_another_number_of_ranks_and_a_damaged_one_is_reported(self):
        saved, _ = self.run_ranks("sharded", 2)
        checkpoint = self.folder / "ck/step-000003"
        self.assertTrue((checkpoint / "__1_0.distcp").exists(), list(checkpoint.iterdir()))
        step, *sums = saved[0][-1].split()[1:]
        self.assertEqual(step, "0")
        loaded, _ = self.run_ranks("sharded", 3)
        self.assertEqual({line[-1] for line in loaded}, {f"sums 3 {' '.join(sums)}"})
        self.tools_take_it(checkpoint)
        self.damaged_shard_is_noticed(checkpoint / "__1_0.distcp")

    def tools_take_it(self, checkpoint):
        """`uses: checkpoint` verifies and hands it over; there is no file of the weights alone."""
        if not (BIN / "dlflow").exists():
            return
        outputs = self.folder / "outputs"
        outputs.mkdir()
        names = {"WITH": self.folder / "with.json", "OUTPUTS": outputs, "METRICS": self.folder / "m", "SUMMARY": self.folder / "s"}
        for export, status in (({}, 0), ({"export": "safetensors"}, 1)):
            (self.folder / "with.json").write_text(json.dumps({"from": str(checkpoint.parent)} | export))
            done = subprocess.run([BIN / "dlflow", "step", "checkpoint"], text=True, capture_output=True,
                                  env={f"DLFLOW_{name}": str(value) for name, value in names.items()})
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn("is divided among ranks (.distcp files), so there is no file of its weights", done.stderr)
        self.assertTrue((outputs / "checkpoint/.metadata").exists())

    def damaged_shard_is_noticed(self, shard):
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
        outputs, said = self.run_ranks("sharded", 1)
        self.assertRegex(said, "skipped: .*__1_0.distcp is damaged")
        self.assertTrue(outputs[0][-1].startswith("sums 0 "))


if __name__ == "__main__":
    main()
