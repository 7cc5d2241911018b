"""Horovod's interface and compressed gradients over two nodes: scripts without any use of dlflow's engine, on Debian's PyTorch."""

import pathlib
import shutil
import subprocess
import unittest

import cluster
from chains import Chain
from cluster import STAGED

PYTHON = "/usr/bin/python3"  # with Debian's PyTorch
SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "torch"
HAS_TORCH = subprocess.run([PYTHON, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"]).returncode == 0


@unittest.skipUnless(HAS_TORCH, "python3-torch is not installed")
class Horovod(Chain):
    clusters = (Chain.alpha,)

    def setUp(self):
        super().setUp()
        for script in ("horovod_rank.py", "rank.py", "raising.py"):
            shutil.copy(SCRIPTS / script, self.folder)
        # Both cores of a node run ranks.
        profile = (STAGED / "cluster-profiles/alpha.yaml").read_text()
        self.write("two.yaml", profile.replace("ranks_per_node: 1", "ranks_per_node: 2"))

    def run_step(self, command, ranks, profile, extra="", timeout=240):
        """Waits until the step has succeeded; returns each rank's output, and the attempt's folder."""
        self.write_steps("horovod", f"""
            work:
              run: {command}
              env: {{PYTHONPATH: "{STAGED}/python:{STAGED}/python/dlflow/horovod/path", OMP_NUM_THREADS: 1}}
              resources: {{ranks: {ranks}}}
              {extra}
        """)
        run = self.submit(profile=profile)
        self.wait_for(run, {"work": "succeeded"}, timeout=timeout)
        attempt = pathlib.Path(self.status(run)["directory"]) / "steps/work/attempt-1"
        return (attempt / "stdout").read_text().splitlines(), attempt

    def test_two_ranks_on_each_of_two_nodes_match_horovod(self):
        scenarios = "random_order, optimizers, states, adasum"
        printed, _ = self.run_step(f"[{PYTHON}, -B, {self.folder}/horovod_rank.py, {scenarios}]", 4, "two.yaml")
        self.assertEqual(printed.count("ended"), 4, printed)

    def test_a_pass_that_loses_a_rank_of_the_other_node_goes_on_from_the_last_commit(self):
        command = (f"'if [ -e \"$DLFLOW_CHECKPOINTS/horovod-state-0\" ]; then export END=\"go on\"; else export END=kill; fi; "
                   f"exec {PYTHON} -B {self.folder}/horovod_rank.py elastic'")
        printed, attempt = self.run_step(command, 2, "alpha", "checkpoint: {}\n              retry: {attempts: 2, on: [failure, node-failure]}")
        self.assertEqual(printed.count("ended"), 2, printed)
        self.assertTrue((attempt / "claim-2").is_symlink())
        self.assertRegex((attempt / "stderr").read_text(), r"rank 1 \(node alpha-n2\) died")

    def test_compressed_gradients_of_two_nodes_lose_nothing(self):
        for scenario in ("compressed", "compressed_state"):
            with self.subTest(scenario):
                printed, _ = self.run_step(f"[env, USE_LIBUV=0, {PYTHON}, -B, {self.folder}/rank.py, {scenario}]", 4, "two.yaml")  # Debian 13 lacks it
                self.assertEqual(printed.count("ended"), 4, printed)


if __name__ == "__main__":
    cluster.main()
