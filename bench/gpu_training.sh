#!/bin/sh
# Images per second of training on one GPU: PyTorch (the peer: as it comes, with channels_last, compiled) and dlflow-train.
# Networks, batch, data and precision (fp32, no TF32) are equal; they take turns. `PYTHON` names another Python that has PyTorch with CUDA than
# that of PyPI's.
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
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
[ -n "${PYTHON:-}" ] || tests/python/make_venv build/torch-venv tests/torch/requirements.txt
exec "${PYTHON:-build/torch-venv/bin/python}" -B bench/gpu_training.py "$@"
