#!/bin/sh
# The first run of `device: cuda` on a machine with a GPU: tests, compute-sanitizer, agreement with the CPU and the bench, in less than
# 10 minutes, and one report, build/gpu_first_run.md. `PYTHON` names the Python that has PyTorch with CUDA.
set -eu
cd "$(dirname "$0")/.."
if ! [ -e build/bin/libdlflow_cuda.so ]; then
  echo "skipped here: libdlflow_cuda was not built (no nvcc, cuDNN or cuBLASLt)"
  exit 0
fi
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi --list-gpus >/dev/null 2>&1; then
  echo "skipped here: this machine has no GPU"
  exit 0
fi
exec /usr/bin/python3 -B bench/gpu_first_run.py "$@"
