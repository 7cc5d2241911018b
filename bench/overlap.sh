#!/bin/sh
# A step whose gradients are summed by messages while it computes: sent only at the end, advanced by the rank between layers, or by a thread.
# RANKS defaults to 2.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec mpirun --oversubscribe --bind-to none -np "${RANKS:-2}" build/bench/overlap
