"""DeepSpeed trains over the backend "dlflow" with the same results as over gloo."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402
from pypi import needs  # noqa: E402

RANK = pathlib.Path(__file__).with_name("deepspeed_rank.py")
EXTENSIONS = pathlib.Path(os.environ["DLFLOW_BUILD"]) / "tests/deepspeed"  # compiled at first use, kept


@needs("deepspeed")
class DeepSpeed(unittest.TestCase):
    def weights(self, backend):
        """The output of two ranks: a line for each of them and each stage."""
        environment = os.environ | {"TORCH_EXTENSIONS_DIR": str(EXTENSIONS), "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
                                    "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        for lock in EXTENSIONS.glob("*/lock"):  # of a test that was killed while it compiled: ranks would wait for ever
            lock.unlink()
        launcher = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", RANK, backend],
                                    env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = launcher.communicate(timeout=500)
        except subprocess.TimeoutExpired:
            launcher.terminate()  # it ends its ranks
            self.fail(f"DeepSpeed on {backend} hangs: {launcher.communicate()}")
        self.assertEqual(launcher.returncode, 0, err)
        return sorted(line for line in out.splitlines() if line.startswith("rank "))

    def test_each_stage_of_zero_trains_to_the_bits_of_gloo(self):
        ours = self.weights("dlflow")
        self.assertEqual(len(ours), 8, ours)
        self.assertEqual(ours, self.weights("gloo"))


if __name__ == "__main__":
    main()
