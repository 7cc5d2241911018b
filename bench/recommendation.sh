#!/bin/sh
# A DLRM whose tables are divided among the ranks, compared with one whose tables are replicated on each rank, with PYTHON's PyTorch (default: Debian's).
# Arguments go to bench/recommendation.py.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export PYTHONPATH=build/python
exec "${PYTHON:-/usr/bin/python3}" -B bench/recommendation.py "$@"
