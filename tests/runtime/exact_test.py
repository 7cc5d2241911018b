"""P8: trained weights have the same bits on any number of ranks, and after a kill and a resume with another number."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from training_case import BIN, HAS_AMX, ROOT, TrainingCase, main


class Exact(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.many, cls.few = cls.new_data(800), cls.new_data(448)

    def test_any_number_of_ranks_trains_the_same_weights(self):
        few = {"data": str(self.few), "validation": 128}
        for model, numbers, more in (("mlp", (2, 3, 4, 8), {}), ("lenet", (3, 8), {}), ("resnet20", (2, 4), few),
                                     ("resnet20", (3, 8), few | {"batch_norm": "global"})):
            self.compare_ranks(model, numbers, more)

    @unittest.skipUnless(HAS_AMX, "this processor has no AMX, and computes in fp32")
    def test_any_number_of_ranks_trains_the_same_weights_in_bf16(self):
        bf16 = {"precision": {"leaves": 8, "compute": "bf16"}}
        self.compare_ranks("lenet", (4, 8), bf16)
        self.compare_ranks("resnet20", (2, 3), bf16 | {"data": str(self.few), "validation": 128, "batch_norm": "global"})

    def compare_ranks(self, model, numbers, more):
        """Trains `model` on one rank, and on each of these numbers of ranks."""
        settings = {"model": str(ROOT / f"workflows/models/{model}.yaml"), "data": str(self.many), "precision": {"leaves": 8}} | more
        with self.subTest(model=model, **more):
            self.assert_same_bits(lambda: self.folder("ranks", **settings), numbers, ("accuracy", "loss"))

    def test_any_number_of_ranks_trains_the_same_weights_with_other_optimizers(self):
        for optimizer, numbers, more in (("adamw", (2, 4), {}), ("lamb", (3, 8), {"clip_norm": 1, "accumulate": 2})):
            settings = more | {"optimizer": {"kind": optimizer}, "lr": 0.005, "weight_decay": 0.01, "epochs": 1, "batch": 64,
                               "data": str(self.many), "precision": {"leaves": 8}}
            with self.subTest(optimizer=optimizer):
                self.assert_same_bits(lambda: self.folder("ranks", **settings), numbers, ("loss",))

    def test_a_killed_run_continues_on_other_ranks_with_the_same_weights(self):
        settings = {"precision": {"leaves": 8}, "model": str(ROOT / "workflows/models/resnet20.yaml"), "data": str(self.few), "batch": 32}
        whole, killed = self.folder("whole", **settings), self.folder("killed", **settings)
        self.train(whole, 2, DLFLOW_CHECKPOINT_EVERY="3 steps")
        self.train_with_kills(killed, [(3, 3), (1, 9), (8, 15)], 4)
        self.assertEqual(self.bits(killed), self.bits(whole))

    def test_ranks_without_mpi_train_the_same_weights(self):
        """Ranks started by the program itself, by mpirun without a plug-in, and as tasks of srun --mpi=none."""
        settings = {"precision": {"leaves": 8}}
        alone, by_itself, by_mpirun, tasks = (self.folder(name, **settings) for name in ("alone", "itself", "mpirun", "tasks"))
        self.train(alone, 1)
        without_plugins = pathlib.Path(self.temporary.name) / "programs/dlflow-train"
        without_plugins.parent.mkdir(exist_ok=True)
        shutil.copy(BIN / "dlflow-train", without_plugins)
        for folder, command in ((by_itself, [BIN / "dlflow-train", "--ranks", "4", "with.json"]),
                                (by_mpirun, ["mpirun", "-np", "3", without_plugins, "with.json"])):
            ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertRegex(ended.stderr, r"(?m)^[34] ranks by TCP and shared memory")
            self.assertEqual(self.bits(folder), self.bits(alone))
        self.assertIn("libdlflow_mpi_40.so: cannot open", ended.stderr)  # the reason why MPI is not used
        started = [self.start(tasks, 1, SLURM_PROCID=str(rank), SLURM_STEP_NUM_TASKS="2") for rank in range(2)]
        for process in started:
            self.assertEqual((process.wait(120), process.communicate()[0]), (0, ""))
        self.assertEqual(self.bits(tasks), self.bits(alone))
        self.assertEqual([folder for folder in (by_itself, by_mpirun, tasks) if (folder / ".dlflow-ranks").exists()], [])

    def test_ranks_that_the_program_started_end_together_and_continue(self):
        settings = {"precision": {"leaves": 8}}
        whole, killed = self.folder("whole", **settings), self.folder("killed", **settings)
        self.train(whole, 1)
        command = [BIN / "dlflow-train", "--ranks", "3", "with.json"]
        for number, status in ((signal.SIGKILL, 75), (signal.SIGTERM, 75)):  # kills one rank; ends all
            before = len(list(killed.glob("checkpoints/step-*")))
            started = subprocess.Popen(command, cwd=killed, stderr=subprocess.PIPE, text=True,
                                       env=os.environ | {"DLFLOW_CHECKPOINT_EVERY": "3 steps", "DLFLOW_CHECKPOINT_KEEP": "99"})
            self.wait_for_step(killed, started, 3 * (before + 1))
            if number == signal.SIGKILL:
                os.kill(self.ranks_of(started.pid)[1], number)
            else:
                started.send_signal(number)
            errors = started.communicate(timeout=60)[1]
            self.assertEqual(started.returncode, status, errors)
            if number == signal.SIGKILL:
                self.assertRegex(errors, r"(?m)^error: rank 1 \(node \S+\): killed by signal 9")
        ended = subprocess.run(command, cwd=killed, capture_output=True, text=True, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.bits(killed), self.bits(whole))

    def ranks_of(self, launcher):
        """The training processes, each below its guard, in the order of their starts."""
        def children(pid):
            return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [rank for guard in sorted(children(launcher)) for rank in children(guard)]

    def test_a_killed_fine_tuning_continues_on_other_ranks_with_the_same_weights(self):
        before = self.folder("before", model=str(ROOT / "workflows/models/lenet.yaml"), epochs=1)
        self.train(before, 2)
        settings = {"precision": {"leaves": 8}, "model": str(ROOT / "workflows/models/lenet.yaml"), "freeze": ["conv1"],
                    "start_from": str(sorted((before / "checkpoints").glob("step-*"))[-1]), "ema": 0.9, "keep_best": "f1",
                    "groups": [{"match": "fc2.*", "lr_multiplier": 2, "weight_decay": 0.01}],
                    "stop_early": {"metric": "loss", "patience": 5}}
        whole, killed = self.folder("whole", **settings), self.folder("killed", **settings)
        summary = self.train(whole, 2, DLFLOW_CHECKPOINT_EVERY="3 steps")
        other = self.train_with_kills(killed, [(3, 3), (1, 9)], 4)
        self.assertEqual(self.bits(killed), self.bits(whole))
        for name in ("best_epoch", "f1", "auc", "loss", "epochs"):
            self.assertEqual(other[name], summary[name])


if __name__ == "__main__":
    main()
