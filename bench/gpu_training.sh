#!/bin/sh
# Images per second of training on one GPU: PyTorch (the peer: without options, with channels_last, compiled) and dlflow-train.
# Networks, batch, data and precision (fp32, no TF32) are equal; they take turns. `PYTHON` names a Python that has PyTorch with CUDA,
# by default the one with PyTorch from PyPI.
set -eu
cd "$(dirname "$0")/.."
. bench/needs_gpu
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
[ -n "${PYTHON:-}" ] || tests/python/make_venv build/torch-venv tests/torch/requirements.txt
exec "${PYTHON:-build/torch-venv/bin/python}" -B bench/gpu_training.py "$@"
