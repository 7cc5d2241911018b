#!/bin/sh
# Ways to cooperate on 4 nodes whose links are shaped to 1 Gbit/s: accuracy, bytes and time of each, compared with the synchronous way.
# Nodes are network name spaces (root). `bench/cooperation.sh lenet --link 100mbit --epochs 1`.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
exec /usr/bin/python3 -B bench/cooperation.py "$@"
