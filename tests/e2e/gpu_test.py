"""`device: cuda` through `dlflow run`: the run has all files that its step opens. It fails without a GPU, or trains on one."""

import pathlib
import sys

from support import BIN, ROOT, Case, main

sys.path.insert(0, str(ROOT / "tests/support"))
import pictures  # noqa: E402

PLUGIN = BIN / "libdlflow_cuda.so"


class Gpu(Case):
    def setUp(self):
        super().setUp()
        pictures.for_training(self.folder, ROOT / "workflows", 200, 20)
        self.write("profile.yaml", "gpus: 1\n")
        self.write_steps("""
            train:
              uses: train
              resources: {gpus_per_rank: 1}
              with: {model: models/mlp.yaml, data: data, device: cuda, epochs: 1, lr: 0.05, batch: 32, validation: 20,
                     precision: {reduction: fast}}
        """)

    def test_a_step_finds_its_plugin_in_the_run_and_reports_other_missing_parts(self):
        if not PLUGIN.exists():
            self.skipTest("libdlflow_cuda was not built: CMake found no nvcc, cuDNN or cuBLASLt")
        has_driver = pathlib.Path("/dev/nvidiactl").exists()
        run = self.run_json("w.yaml", "--profile", "profile.yaml", status=0 if has_driver else 1)["run"]
        self.assertTrue((self.folder / "dlflow-runs" / run / "bin" / PLUGIN.name).exists())
        if not has_driver:
            self.assertIn("no GPU can be used: there is no NVIDIA driver here", self.status(run)["steps"][0]["reason"])

    def test_no_run_begins_without_a_built_plugin(self):
        if PLUGIN.exists():
            self.skipTest("libdlflow_cuda was built")
        _, said = self.dlflow("run", "w.yaml", "--profile", "profile.yaml", status=2)
        self.assertIn("libdlflow_cuda.so, which is not there", said)


if __name__ == "__main__":
    main()
