"""Elastic training with Horovod's interface, run by the engine: a lost rank, and a pass that ends before its walltime."""

import os
import pathlib
import shutil
import sys
import unittest

BUILD = pathlib.Path(os.environ["DLFLOW_BUILD"])
os.environ["DLFLOW_BIN"] = str(BUILD / "bin")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from support import Case, main  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

WORKFLOW = """
    name: elastic
    steps:
      train:
        matrix: {{end: [kill, warn]}}
        run: |
          if [ -e $DLFLOW_CHECKPOINTS/horovod-state-0 ]; then export END="go on"; else export END=$DLFLOW_MATRIX_END; fi
          exec {python} -B {rank} elastic
        env: {{PYTHONPATH: "{interface}", OMP_NUM_THREADS: 1}}
        resources: {{ranks: 2}}
        checkpoint: {{}}
        retry: {{attempts: 2, on: [failure]}}
"""


@unittest.skipUnless(torch, "python3-torch is not installed")
@unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
class Elastic(Case):
    def test_training_continues_after_a_lost_rank_and_after_a_walltime(self):
        rank, interface = pathlib.Path(__file__).with_name("horovod_rank.py"), BUILD / "python/dlflow/horovod/path"
        workflow = self.write("elastic.yaml", WORKFLOW.format(python=sys.executable, rank=rank, interface=interface))
        run = self.run_json(workflow, timeout=240)["run"]
        folder = pathlib.Path(self.status(run)["directory"])
        told = {}
        for file in sorted(folder.glob("steps/train/*/attempt-*/std*")):
            element, _, kind = file.relative_to(folder / "steps/train").parts
            told.setdefault(element, {}).setdefault(kind, []).append(file.read_text())
        self.assertEqual(len(told), 2, told)
        for files in told.values():
            self.assertEqual("".join(files["stdout"]).count("ended\n"), 2, told)
        errors = "".join(text for files in told.values() for text in files["stderr"])
        self.assertIn("saved before the walltime; the next pass continues from here", errors)


if __name__ == "__main__":
    main()
