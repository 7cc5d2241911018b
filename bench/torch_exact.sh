#!/bin/sh
# The cost of equal bits on any number of ranks, compared with DistributedDataParallel, with PYTHON's PyTorch (default: Debian's).
# Arguments go to bench/torch_exact.py.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export PYTHONPATH=build/python
exec "${PYTHON:-/usr/bin/python3}" -B bench/torch_exact.py "$@"
