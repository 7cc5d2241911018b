#!/bin/sh
# Time from launch to first step, and memory of a rank, with the backends "dlflow" and gloo and PYTHON's PyTorch (default: Debian's). Arguments go to bench/torch_start.py.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export PYTHONPATH=build/python
exec "${PYTHON:-/usr/bin/python3}" -B bench/torch_start.py "$@"
