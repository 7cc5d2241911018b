"""`dlflow.torch.exact`: the same bits on any number of processes."""

import importlib.util
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import forked  # noqa: E402
import python_ranks  # noqa: E402
from cases import main  # noqa: E402

RANK = pathlib.Path(__file__).with_name("exact_rank.py")
WATCHDOG = 240  # seconds after which a test that hangs fails by its name
THREADS = {"OMP_NUM_THREADS": None, "OPENBLAS_CORETYPE": None}  # as many as the machine gives; messages would name the second, too
RANKS = [int(number) for number in os.environ.get("DLFLOW_TEST_RANKS", "2,3,4").split(",")]  # compared with one


@unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")
class Exact(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = forked.Server(OPENBLAS_CORETYPE=None)
        cls.addClassCleanup(cls.server.close)

    def start(self, scenario, ranks, **environment):
        return python_ranks.start_ranks(sys.executable, [RANK, scenario], ranks, **THREADS | environment)

    def run_ranks(self, scenario, ranks, statuses=None, **environment):
        """The lines printed by rank 0. Ranks must end with 0, or as in `statuses`. A single rank has all threads of the machine,
        several have one each."""
        if ranks > 1:
            outputs = self.server.run_ranks(self, RANK, scenario, ranks, statuses, **environment)
        else:
            outputs = python_ranks.run_ranks(self, sys.executable, [RANK, scenario], ranks, statuses, WATCHDOG, **THREADS | environment)
        return outputs[0][0].splitlines()

    _on_one_rank = None

    def on_one_rank(self):
        if Exact._on_one_rank is None:
            Exact._on_one_rank = self.run_ranks("models", 1)
        return Exact._on_one_rank

    def test_models_have_the_same_bits_on_any_number_of_ranks(self):
        expected = self.on_one_rank()
        self.assertEqual([line.split()[0] for line in expected], ["mlp", "resnet", "transformer", "language", "half"])
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                self.assertEqual(self.run_ranks("models", ranks), expected)

    def test_augmentation_has_the_same_bits_in_any_number_of_loader_processes(self):
        expected = self.run_ranks("augmented", 1, WORKERS="0")
        for ranks, workers in ((2, "1"), (3, "2")):
            with self.subTest(ranks=ranks, workers=workers):
                self.assertEqual(self.run_ranks("augmented", ranks, WORKERS=workers), expected)

    def test_a_killed_training_continues_on_other_numbers_of_ranks_to_the_same_bits(self):
        """Kills at any moment, even while it saves."""
        expected = dict(line.split()[:2] for line in self.on_one_rank())
        for model, numbers in (("resnet", (3, 1)), ("transformer", (1, 3, 2))):
            with tempfile.TemporaryDirectory() as folder:
                steps = []
                for ranks in numbers[:-1]:
                    steps.append(self.kill_at_random(ranks, FOLDER=folder, MODEL=model))
                with self.subTest(model=model, ranks=numbers, killed_at=steps):
                    lines = self.run_ranks("saved", numbers[-1], FOLDER=folder, MODEL=model, OMP_NUM_THREADS="1")
                    self.assertEqual(lines[-1].split()[:2], [model, expected[model]])

    def kill_at_random(self, ranks, **environment):
        """The last line printed by rank 0."""
        processes = self.start("saved", ranks, OMP_NUM_THREADS="1", **environment)
        for process in processes:
            self.addCleanup(process.kill)
        line = ""
        for _ in range(random.randint(1, 4)):
            line = processes[0].stdout.readline()
            self.assertRegex(line, "step")
        time.sleep(random.uniform(0, 0.03))
        for end in (subprocess.Popen.kill, subprocess.Popen.communicate):
            for process in processes:
                end(process)
        return line.strip()

    def test_training_continues_from_the_packages_checkpoints_within_an_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            for ranks, steps in ((2, "3"), (1, "6")):
                self.assertEqual(self.run_ranks("stopped", ranks, FOLDER=folder, STEPS=steps), [])
            lines = self.run_ranks("stopped", 3, FOLDER=folder, STEPS="99")
        self.assertEqual(lines[-1].split()[:2], self.on_one_rank()[0].split()[:2])

    def test_one_virtual_rank_has_the_bits_of_a_usual_loop_and_several_its_values(self):
        self.run_ranks("as_one_process", 1)
        self.run_ranks("as_one_process_with_statistics", 1)

    def test_sums_begin_in_the_last_backward_pass(self):
        self.run_ranks("overlaps", 2)

    def test_hooks_of_the_user_change_the_gradients_of_all_virtual_ranks(self):
        self.assertEqual(self.run_ranks("hooked", 2), self.run_ranks("hooked", 1))

    def test_the_pages_example_may_be_started_again_after_its_end(self):
        page = (RANK.parents[2] / "docs/user/pytorch-exact.md").read_text()
        example = page.partition("```python\n")[2].partition("```")[0]
        environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
        with tempfile.TemporaryDirectory() as folder:
            outputs = [subprocess.run([sys.executable, "-B", "-c", example], cwd=folder, env=environment, check=True, text=True,
                                      stdout=subprocess.PIPE, timeout=WATCHDOG).stdout.split(", ") for _ in range(2)]
        self.assertRegex(outputs[0][0], "^loss ")
        self.assertEqual(outputs[1], ["no step was left", outputs[0][1]])

    def test_a_rank_that_dies_is_named_by_the_others(self):
        self.assertEqual(self.run_ranks("dies", 3, {1: -9}), ["named"])

    def test_ranks_may_have_met_over_gloo_and_share_no_memory(self):
        self.assertEqual(self.run_ranks("over_gloo", 3, MEMORIES="a,b,a"), self.on_one_rank()[:2])

    def test_operations_that_cannot_have_the_same_bits_are_refused_by_name(self):
        self.run_ranks("refused", 1)

    def test_differing_ranks_are_refused_on_every_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_ranks("refused_together", 2, FOLDER=folder)


if __name__ == "__main__":
    main()
