#!/bin/sh
# Compressed gradients on links shaped to 1 Gbit/s and 100 Mbit/s: time per step, bytes and loss of dlflow, PyTorch DDP and Horovod.
# Nodes are network name spaces (root). `bench/compression.sh --nodes 2 --links 1gbit`.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
bench/peer_venvs
exec /usr/bin/python3 -B bench/compression.py "$@"
