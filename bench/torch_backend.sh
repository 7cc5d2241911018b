#!/bin/sh
# The backends "dlflow" and gloo of torch.distributed, with PYTHON's PyTorch (default: Debian's); arguments go to bench/torch_backend.py.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export PYTHONPATH=build/python
exec "${PYTHON:-/usr/bin/python3}" -B bench/torch_backend.py "$@"
