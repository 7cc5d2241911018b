#!/bin/sh
# DistributedDataParallel on two nodes with a slow link between them: gloo and its fp16 hook, compared with the backend "dlflow" and its mstopk hook.
# Root; arguments go to bench/torch_nodes.py.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export PYTHONPATH=build/python
exec "${PYTHON:-/usr/bin/python3}" -B bench/torch_nodes.py "$@"
