"""Other frameworks on dlflow's collectives: the example in workflows/, with JAX and TensorFlow of PyPI."""

import pathlib
import shutil
import unittest

from support import BIN, ROOT, Case, main
from pypi import NEWEST, needs  # support.py has put its folder on sys.path

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


@needs("jax")
@needs("tensorflow")
@unittest.skipUnless(DATA.exists(), "dataset-fashion-mnist is not installed")
@unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
class Frameworks(Case):
    def test_jax_and_keras_train_on_two_ranks(self):
        run = self.run_json(ROOT / "workflows/frameworks.yaml", "--set", f"python={NEWEST}", "--set",
                            f"package={BIN.parent}/python", timeout=280)["run"]
        status = self.status(run)
        self.assertEqual({step["state"] for step in status["steps"]}, {"succeeded"}, self.dlflow("status", run)[0])
        accuracies = [step["metrics"]["accuracy"] for step in status["steps"] if step["name"] == "train"]
        self.assertEqual(len(accuracies), 2)
        self.assertLess(abs(accuracies[0] - accuracies[1]), 0.05)


if __name__ == "__main__":
    main()
