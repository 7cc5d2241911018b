"""bench/gpu_first_run writes its report with stand-ins for the tools, and reports that it is skipped without a GPU."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "bench")]

import cases  # noqa: E402
import gpu_first_run  # noqa: E402

TRAINER = """#!/usr/bin/python3
import json, os, pathlib
device = json.loads(pathlib.Path("with.json").read_text())["device"]
loss = {"cpu": 0.5, "cuda": float(os.environ.get("GPU_LOSS", "0.5001"))}[device]
pathlib.Path("metrics.jsonl").write_text(json.dumps({"images_per_s": 1000}) + "\\n")
pathlib.Path(os.environ["DLFLOW_SUMMARY"]).write_text(json.dumps({"loss": loss, "accuracy": 0.9}))
folder = pathlib.Path("checkpoints/step-1")
folder.mkdir(parents=True)
(folder / "model.safetensors").write_bytes(os.urandom(8) if "OTHER_BITS" in os.environ else b"weights")
"""

# Lines of ctest.
PASSED = "5/8 Test #379: gpu_test:on a GPU, the same steps give the same bits ................   Passed    0.18 sec"
SKIPPED = "3/8 Test #377: gpu_test:on several GPUs, ranks end with the same bits ..........***Skipped   0.16 sec"


class FirstRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dlflow-first-run-test.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("nvidia-smi", 'echo "Stand-in GPU, 580.1"')
        self.program("ctest", f"echo '{PASSED}'; echo '{SKIPPED}'; echo '100% tests passed, 0 tests failed out of 2'")
        self.program("compute-sanitizer", 'echo "RACECHECK SUMMARY: 0 hazards displayed (0 errors)"; echo "ERROR SUMMARY: 0 errors"')
        self.program("python-without-torch", "exit 1")
        (self.folder / "build/bin").mkdir(parents=True)
        self.write("build/bin/dlflow-train", TRAINER)

    def write(self, name, text):
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def program(self, name, script):
        self.write(f"tools/{name}", f"#!/bin/sh\n{textwrap.dedent(script)}\n")

    def first_run(self, status=0, **environment):
        """The report, and its table as part -> result."""
        env = os.environ | {"PYTHON": "python-without-torch"} | environment | {"PATH": f"{self.folder}/tools:{os.environ['PATH']}"}
        report = self.folder / "report.md"
        command = [sys.executable, "-B", ROOT / "bench/gpu_first_run.py", "--build", self.folder / "build", "--report", report]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        self.assertIn(f"the report is {report}", ended.stdout)
        text = report.read_text()
        rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
        return text, {row[0]: row[1] for row in rows}

    def test_the_report_has_the_findings_of_each_part(self):
        text, results = self.first_run()
        self.assertEqual(results, {"machine": "passed", "tests": "passed", "memcheck": "passed", "racecheck": "passed",
                                   "agreement with the CPU": "passed", "bench": "skipped", "horovod": "skipped"})
        for said in ("Stand-in GPU, 580.1", PASSED, SKIPPED, "ERROR SUMMARY: 0 errors", "python-without-torch has no PyTorch with CUDA",
                     "lenet: loss 0.500000 on the CPU, 0.500100 on the GPU (difference 2.0e-04", "a second run has the same bits"):
            self.assertIn(said, text)

    def test_a_failed_part_is_reported_and_the_others_run(self):
        self.program("ctest", 'echo "the gradient of conv1 differs"; exit 8')
        self.program("compute-sanitizer", 'echo "Invalid __global__ read"; exit 9')
        text, results = self.first_run(status=1)
        self.assertEqual((results["tests"], results["memcheck"], results["agreement with the CPU"]), ("failed", "failed", "passed"))
        self.assertIn("the gradient of conv1 differs", text)
        self.assertIn("Invalid __global__ read", text)

    def test_a_sanitizer_without_a_count_of_errors_has_not_passed(self):
        self.program("compute-sanitizer", 'echo "unknown option"')
        results = self.first_run(status=1)[1]
        self.assertEqual((results["memcheck"], results["racecheck"]), ("failed", "failed"))

    def test_the_sanitizers_training_has_valid_settings(self):
        trainer = os.environ.get("DLFLOW_TRAIN", ROOT / "build/bin/dlflow-train")
        with tempfile.TemporaryDirectory(prefix="dlflow-first-run-test.") as name:
            folder = pathlib.Path(name)
            gpu_first_run.write_sanitized(folder)
            ended = subprocess.run([trainer, "with.json"], cwd=folder, capture_output=True, text=True, timeout=120)
            self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_horovods_benchmark_is_compared_with_ddp(self):
        self.program("python-with-torch", """
            case "$2" in
              *--num-iters*) ;;
              "import torch, sys"*) exit 0 ;;
            esac
            [ "$RANK" != 0 ] || case "$1" in
              -c) [ "$WORLD_SIZE" = 1 ] && echo "Total img/sec on 1 GPU(s): 200.0" ;;
              */pytorch_synthetic_benchmark.py) echo "Total img/sec on $WORLD_SIZE GPU(s): $((WORLD_SIZE * 100)).0 +-1.0" ;;
            esac""")
        self.write("examples/pytorch_synthetic_benchmark.py", "")
        text, results = self.first_run(PYTHON="python-with-torch", HOROVOD_EXAMPLES=str(self.folder / "examples"))
        self.assertEqual(results["horovod"], "passed")
        self.assertIn("1 processes: dlflow 100.0 images/s, DDP over NCCL 200.0, ratio 0.50", text)
        self.assertIn("2 processes: dlflow 200.0 images/s, DDP over NCCL failed: NCCL wants a GPU for each rank, ratio none", text)

    def test_a_loss_far_from_the_cpus_fails(self):
        text, results = self.first_run(status=1, GPU_LOSS="0.6")
        self.assertEqual(results["agreement with the CPU"], "failed")
        self.assertIn("difference 2.0e-01", text)

    def test_a_nan_loss_fails(self):
        self.assertEqual(self.first_run(status=1, GPU_LOSS="nan")[1]["agreement with the CPU"], "failed")

    def test_a_second_run_with_other_bits_fails(self):
        text, results = self.first_run(status=1, OTHER_BITS="1")
        self.assertEqual(results["agreement with the CPU"], "failed")
        self.assertIn("OTHER BITS", text)

    def test_tests_that_all_skip_themselves_have_not_passed(self):
        for said in (SKIPPED, "No tests were found!!!"):
            self.program("ctest", f"echo '{said}'; echo '100% tests passed, 0 tests failed out of 1'")
            self.assertEqual(self.first_run()[1]["tests"], "skipped")

    def test_a_part_that_hangs_is_ended_with_its_processes(self):
        begin = time.monotonic()
        status, output = gpu_first_run.run(["sh", "-c", "echo begun; sleep 60 & sleep 60"], 0.3)
        self.assertIsNone(status)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertIn("begun", output)
        self.assertIn("ended after 0.3 s", output)

    def test_a_missing_program_is_reported(self):
        status, output = gpu_first_run.run(["no-such-program"], 10)
        self.assertIsNone(status)
        self.assertIn("No such file or directory: 'no-such-program'", output)

    def test_all_parts_take_less_than_ten_minutes(self):
        limits = gpu_first_run
        self.assertLess(limits.MACHINE + limits.TESTS + 2 * limits.SANITIZER + limits.AGREEMENT + 3 * limits.LOOK_FOR_TORCH + limits.BENCH
                        + limits.HOROVOD, 600)

    def test_a_run_without_a_gpu_is_reported_as_skipped(self):
        self.program("nvidia-smi", "exit 9")
        env = os.environ | {"PATH": f"{self.folder}/tools:{os.environ['PATH']}"}
        ended = subprocess.run([ROOT / "bench/gpu_first_run.sh"], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout, "^skipped here: (this machine has no GPU|libdlflow_cuda was not built)")


if __name__ == "__main__":
    cases.main()
