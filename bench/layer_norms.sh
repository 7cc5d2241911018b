#!/bin/sh
# The parallel tensor operator: norms of layers, and a whole step of LAMB, on the layers of ResNet-50; computed by every rank for
# itself, or divided among them. RANKS lists the numbers of ranks, by default 2 and 4.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for ranks in ${RANKS:-2 4}; do
  mpirun --oversubscribe --bind-to none -np "$ranks" build/bench/layer_norms
done
