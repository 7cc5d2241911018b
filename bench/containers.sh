#!/bin/sh
# The cost of a container for a training with Debian's PyTorch on two ranks: without one, and in each installed runtime. Arguments go
# to bench/containers.py.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
cmake --build build --target wheel >/dev/null
exec /usr/bin/python3 -B bench/containers.py "$@"
