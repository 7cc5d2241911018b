#!/bin/sh
# The results of a network trained in dlflow-train, in PyTorch and (lenet) in Keras on TensorFlow, on the same data with the same settings:
# mean and deviation over seeds. `bench/parity.sh lenet --seeds 5` trains one network. Missing frameworks are named.
set -eu
cd "$(dirname "$0")/.."
echo "# $(date -u +%F), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
tests/python/make_venv build/torch-venv tests/torch/requirements.txt >&2 || echo "PyTorch and TensorFlow cannot be installed from PyPI: Debian's PyTorch is taken" >&2
exec /usr/bin/python3 -B bench/parity.py "$@"
