"""The workflows with parallelism beyond data run on this machine, and each says that it computes what one process computes."""

import os
import pathlib
import shutil
import sys
import unittest

BUILD = pathlib.Path(os.environ["DLFLOW_BUILD"])
os.environ["DLFLOW_BIN"] = str(BUILD / "bin")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from support import ROOT, Case, main  # noqa: E402

try:
    import torch
    NEW = int(torch.__version__.split(".")[0]) >= 2
except ImportError:
    torch, NEW = None, False
SAME = r"^{} ranks{}: at most [0-9.]+e-\d+ from one process\n$"


@unittest.skipUnless(torch, "python3-torch is not installed")
@unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
class Workflows(Case):
    def run_workflow(self, name, **parameters):
        """The folder of its run."""
        settings = {"python": sys.executable, "package": BUILD / "python", **parameters}
        options = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
        run = self.run_json(ROOT / f"workflows/pytorch-{name}.yaml", *options, timeout=240)["run"]
        return pathlib.Path(self.status(run)["directory"])

    def output_of(self, folder, step):
        return (folder / f"steps/{step}/attempt-1/stdout").read_text()

    def check_same(self, name, ranks):
        self.assertRegex(self.output_of(self.run_workflow(name, ranks=ranks), "train"), SAME.format(ranks, ""))

    def test_distributed_data_parallel(self):
        self.check_same("ddp", 3)

    def test_zero_redundancy_optimizer(self):
        self.check_same("zero", 2)

    @unittest.skipUnless(NEW, "PyTorch 1.13 has no fully_shard")
    def test_fully_shard(self):
        self.check_same("fsdp", 2)

    @unittest.skipUnless(NEW, "PyTorch 1.13 has no torch.distributed.pipelining")
    def test_pipelining(self):
        self.check_same("pipeline", 2)

    @unittest.skipUnless(NEW, "PyTorch 1.13 has no torch.distributed.tensor")
    def test_tensor_parallel(self):
        self.check_same("tensor-parallel", 2)

    @unittest.skipUnless(NEW, "PyTorch 1.13 has no torch.distributed.checkpoint of optimizers")
    def test_checkpoint_of_3_ranks_is_read_on_2(self):
        folder = self.run_workflow("checkpoint")
        self.assertEqual(self.output_of(folder, "save"), "3 ranks saved after step 5\n")
        self.assertRegex(self.output_of(folder, "load"), SAME.format(2, " went on"))


if __name__ == "__main__":
    main()
