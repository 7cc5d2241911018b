"""The workflows of PyTorch run on this machine. Those with other parallelism than data, and the recommendation model with divided
tables, give the results of one process; a flood-filling network learns to segment a volume. The parts of divided tables are also tested
here."""

import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ["DLFLOW_BUILD"])
os.environ["DLFLOW_BIN"] = str(BUILD / "bin")
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("e2e", "support")]

from support import ROOT, Case, main  # noqa: E402

try:
    import torch
    NEW = int(torch.__version__.split(".")[0]) >= 2
except ImportError:
    torch, NEW = None, False
AFTER_2_6 = NEW and hasattr(torch.cpu.Stream, "record_event")  # Debian 13 has PyTorch 2.6
try:
    import numpy
except ImportError:
    numpy = None
VOLUMES = "steps/volumes/outputs/volumes"
SAME = r"^{} ranks{}: at most [0-9.]+e-\d+ from one process\n$"


@unittest.skipUnless(torch, "python3-torch is not installed")
@unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
class WorkflowCase(Case):
    def run_workflow(self, name, **parameters):
        """The folder of the workflow's run."""
        settings = {"python": sys.executable, "package": BUILD / "python", **parameters}
        options = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
        run = self.run_json(ROOT / f"workflows/{name}.yaml", *options, timeout=240)["run"]
        return pathlib.Path(self.status(run)["directory"])

    def output_of(self, folder, step):
        return (folder / f"steps/{step}/attempt-1/stdout").read_text()


class Parallelism(WorkflowCase):
    def check_same(self, name, ranks):
        self.assertRegex(self.output_of(self.run_workflow(f"pytorch-{name}", ranks=ranks), "train"), SAME.format(ranks, ""))

    def test_distributed_data_parallel(self):
        self.check_same("ddp", 3)

    def test_zero_redundancy_optimizer(self):
        self.check_same("zero", 2)

    @unittest.skipUnless(NEW, "PyTorch 1.13 has no fully_shard")
    @unittest.skipUnless(AFTER_2_6, "PyTorch 2.6 has no fully_shard on CPUs")
    def test_fully_shard(self):
        self.check_same("fsdp", 2)

    @unittest.skipUnless(NEW, "PyTorch 1.13 has no torch.distributed.pipelining")
    def test_pipelining(self):
        self.check_same("pipeline", 2)

    @unittest.skipUnless(NEW, "PyTorch 1.13 has no torch.distributed.tensor")
    @unittest.skipUnless(AFTER_2_6, "PyTorch 2.6 has no exact tensor parallelism: the weights are 6e-3 off, with gloo, too")
    def test_tensor_parallel(self):
        self.check_same("tensor-parallel", 2)

    @unittest.skipUnless(NEW, "PyTorch 1.13 has no torch.distributed.checkpoint of optimizers")
    @unittest.skipUnless(AFTER_2_6, "PyTorch 2.6 has no fully_shard on CPUs")
    def test_checkpoint_of_3_ranks_is_read_on_2(self):
        folder = self.run_workflow("pytorch-checkpoint")
        self.assertEqual(self.output_of(folder, "save"), "3 ranks saved after step 5\n")
        self.assertRegex(self.output_of(folder, "load"), SAME.format(2, " went on"))


@unittest.skipUnless(numpy, "python3-numpy is not installed")
class FloodFilling(WorkflowCase):
    def test_flood_filling(self):
        folder = self.run_workflow("flood-filling", side=48, batches="[4]", rules="[sqrt]", late="[0, 2]", cubes=320, lr=0.002, base_batch=4,
                                   ranks=1, real="{ranks: 3, batch: 4, rule: sqrt, late: 0}", rand=0)
        steps = {step["name"] + (step["element"] or ""): step for step in self.status(folder.name)["steps"]}
        on_one, late, on_three = (f"batch=4,late={late},ranks={ranks},rule=sqrt" for late, ranks in ((0, 1), (2, 1), (0, 3)))
        self.assertGreater(steps["train" + on_one]["metrics"]["f1"], 0.7)
        self.assertEqual(steps["segment"]["metrics"]["neurites"], len(numpy.unique(numpy.load(folder / VOLUMES / "test-labels.npy"))) - 1)
        bits = {element: self.bits_in(self.dlflow("logs", folder.name, f"train[{element}]")[0]) for element in (on_one, late, on_three)}
        self.assertEqual(bits[on_three], bits[on_one])
        self.assertNotEqual(bits[late], bits[on_one])
        self.assertEqual(self.train_late_in_two_passes(folder / VOLUMES), bits[late])

    def bits_in(self, text):
        return re.search(r" ranks: ([0-9a-f]{64})$", text, re.M)[1]

    def train_late_in_two_passes(self, volumes):
        """The bits of a training with late gradients that is stopped after its first steps and continued."""
        settings = {"batch": 4, "rule": "sqrt", "late": 2, "cubes": 320, "lr": 0.002, "base_batch": 4}
        step = {"PYTHONPATH": BUILD / "python", "DLFLOW_STEP": "train", "DLFLOW_OUTPUTS": self.folder, "DLFLOW_SUMMARY": self.folder / "summary",
                "DLFLOW_WITH": self.write("with.json", json.dumps(settings)), "DLFLOW_METRICS": self.folder / "metrics",
                "DLFLOW_CHECKPOINTS": self.folder / "checkpoints"}
        command = [sys.executable, "-B", ROOT / "workflows/pytorch/flood_filling.py", "train", volumes]
        options = {"env": {**self.env, **{name: str(value) for name, value in step.items()}}, "stdout": subprocess.PIPE, "text": True}
        first = subprocess.Popen(command, **options)
        self.wait_for(step["DLFLOW_METRICS"].exists, 120, "the first step")
        first.send_signal(signal.SIGUSR1)
        first.communicate(timeout=120)
        self.assertEqual(first.returncode, 75)
        return self.bits_in(subprocess.run(command, timeout=240, check=True, **options).stdout)

    def test_a_number_of_cubes_that_is_not_a_multiple_of_the_step_is_refused(self):
        settings = {"batch": 4, "rule": "sqrt", "late": 0, "cubes": 12, "lr": 0.002, "base_batch": 4}
        environment = {**self.env, "PYTHONPATH": str(BUILD / "python"), "DLFLOW_WITH": str(self.write("with.json", json.dumps(settings)))}
        done = subprocess.run([sys.executable, "-B", ROOT / "workflows/pytorch/flood_filling.py", "train", "volumes"], env=environment,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]),
                         (1, "error: 'cubes' is 12, no multiple of 8: a step takes 2 for each of 4 virtual ranks"))


class Recommendation(WorkflowCase):
    def recommend(self, way, ranks):
        """The loss of the last step, and the AUC on the test set."""
        folder = self.run_workflow("recommendation", way=way, ranks=ranks, samples=4096, test_samples=2000, rows=500, auc=0.4)
        metrics = json.loads(next((folder / "steps/evaluate/attempt-1").rglob("metrics.json")).read_text())
        return self.output_of(folder, "train").splitlines()[-1], metrics["auc"]

    def test_recommendation_matches_replicated_tables_and_has_the_same_bits_on_1_and_2_ranks(self):
        loss, auc = self.recommend("--exact", 1)
        self.assertRegex(loss, r"^1 ranks: loss 0\.\d{9}$")
        self.assertEqual(self.recommend("--exact", 2), (loss.replace("1 ranks", "2 ranks"), auc))
        (divided, auc), (replicated, other_auc) = self.recommend("", 2), self.recommend("--replicated", 2)
        self.assertAlmostEqual(float(divided.split()[-1]), float(replicated.split()[-1]), places=3)
        self.assertAlmostEqual(auc, other_auc, places=3)


# Trains with divided tables, and says a SHA-256 of what all ranks have of them. It is asked to stop after the step that its argument names.
RANK = """
import sys, torch, torch.distributed as dist
import dlflow, dlflow.torch
from dlflow.torch.tables import ShardedTables
dist.init_process_group("dlflow")
rank, ranks, stop = dist.get_rank(), dist.get_world_size(), int(sys.argv[1])
tables = ShardedTables([70, 31], 4, lr=0.1, folder=sys.argv[2] if len(sys.argv) > 2 else None)
model = torch.nn.Linear(1, 1)
saved = dlflow.resume(folder="checkpoints", model=model, tables=tables)
for step in range(saved.step, 6):
    generator = torch.Generator().manual_seed(step)
    ids, wanted = torch.randint(31, (12, 4), generator=generator), torch.randn(12, 2, 4, generator=generator)
    parts = [slice(3 * part, 3 * part + 3) for part in range(4)][rank * 4 // ranks:(rank + 1) * 4 // ranks]
    embedded = tables.look_up(tables.request(*(ids[part] for part in parts)))
    for part, rows in zip(parts, embedded):
        (rows - wanted[part]).square().mean().backward()
    tables.step()
    if step + 1 == stop:
        dlflow.checkpoint(stop, model=model, tables=tables)
        sys.exit()
if rank == 0:
    print(saved.step, flush=True)
print(f"{rank}: " + dlflow.torch.sha256(type("All", (), {"state_dict": lambda self: {"all": tables.embed(torch.arange(31).view(31, 1).repeat(1, 2))}})()), flush=True)
"""


@unittest.skipUnless(torch, "python3-torch is not installed")
class Tables(Case):
    def tables(self, *rows, **options):
        from dlflow.torch.tables import ShardedTables
        return ShardedTables(rows, 4, lr=0.1, **options)

    def ranks(self, number, *arguments):
        """The output of rank 0."""
        from ports import free_port
        names = {"WORLD_SIZE": str(number), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
        running = [subprocess.Popen([sys.executable, "-B", "-c", RANK, *map(str, arguments)], env=os.environ | names | {"RANK": str(rank)},
                                    cwd=self.folder, stdout=subprocess.PIPE, text=True) for rank in range(number)]
        outputs = [process.communicate(timeout=120)[0] for process in running]
        self.assertEqual([process.returncode for process in running], [0] * number)
        return outputs[0]

    def test_rows_equal_those_of_embedding_bags_and_gradients_reach_the_requested_rows(self):
        tables = self.tables(5, 3)
        weight, squares = (tensor.clone() for tensor in (tables._weight, tables._squares))
        embedded = tables.embed(torch.tensor([[4, 4, 0, 1], [0, 1, 2, 2]]))  # two ids for each of two tables
        self.assertTrue(torch.equal(embedded[0], torch.stack([2 * weight[4], weight[5] + weight[6]])))
        embedded.sum().backward()
        tables.step()
        changed = (tables._weight != weight).any(1).tolist()
        self.assertEqual(changed, [True, True, False, False, True, True, True, True])
        self.assertEqual(tables._squares.tolist(), [1, 1, 0, 0, 4, 1, 1, 4])  # 4: twice the gradient
        self.assertTrue(torch.allclose(tables._weight[4], weight[4] - 0.1 * 2 / 2))

    def test_a_checkpoint_of_any_number_of_ranks_continues_on_any_number_to_the_same_bits(self):
        uninterrupted = self.ranks(2, 9).splitlines()
        self.assertEqual(uninterrupted[0], "0")
        self.ranks(4, 3)
        self.ranks(1, 6, self.folder)  # with mapped files
        self.assertEqual(self.ranks(3, 9).splitlines(), ["6", uninterrupted[1]])

    def test_tables_in_files_equal_those_in_memory_and_leave_no_files(self):
        (self.folder / "tables").mkdir()
        mapped, plain = self.tables(3000, folder=self.folder / "tables"), self.tables(3000)
        for tables in (mapped, plain):
            tables.embed(torch.tensor([[0], [2999], [1]])).sum().backward()
            tables.step()
        self.assertTrue(torch.equal(mapped._weight, plain._weight))
        self.assertEqual(list((self.folder / "tables").iterdir()), [])

    def test_bad_input_is_named(self):
        tables = self.tables(5, 3)
        with self.assertRaisesRegex(IndexError, "sample 1 has the id 3 for table 1, which has 3 rows: give"):
            tables.request(torch.tensor([[4, 2], [4, 3]]))
        with self.assertRaisesRegex(ValueError, r"the ids have the shape \(1, 3\): .* 2 tables get equally many"):
            tables.request(torch.tensor([[0, 1, 2]]))
        with self.assertRaisesRegex(RuntimeError, "needs look_up"):
            tables.step()
        with self.assertRaisesRegex(MemoryError, "need .* GiB of memory, and .* are free for it: start more ranks"):
            self.tables(1 << 40)
        with self.assertRaisesRegex(ValueError, "the checkpoint has tables of 8 rows of 4 numbers, not 9 of 4"):
            import dlflow
            dlflow.checkpoint(1, folder=self.folder / "saved", tables=tables)
            dlflow.resume(folder=self.folder / "saved", tables=self.tables(9))

    def test_tables_that_do_not_fit_on_the_disk_are_named(self):
        with self.assertRaisesRegex(OSError, "need 2048.00 GiB in .*, where .* GiB are free: give") as told:
            self.tables(1 << 37, folder=self.folder)
        self.assertIn(told.exception.errno, (errno.ENOSPC, errno.EFBIG))


if __name__ == "__main__":
    main()
