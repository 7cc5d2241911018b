#!/bin/sh
# The error of `dlflow plan`: step times predicted for 1, 2 and 4 ranks from measurements with 1 and 2, compared with trainings on links shaped to three
# bandwidths. Nodes are network name spaces, each rank has half a core (root). Arguments go to bench/plan_accuracy.py.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
exec "${PYTHON:-/usr/bin/python3}" -B bench/plan_accuracy.py "$@"
