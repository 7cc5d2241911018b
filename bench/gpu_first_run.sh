#!/bin/sh
# The first run of `device: cuda` on a machine with a GPU: tests, compute-sanitizer, agreement with the CPU and the bench, in less than
# 10 minutes, and one report, build/gpu_first_run.md. `PYTHON` names the Python that has PyTorch with CUDA.
set -eu
cd "$(dirname "$0")/.."
. bench/needs_gpu
exec /usr/bin/python3 -B bench/gpu_first_run.py "$@"
