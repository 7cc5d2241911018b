#!/bin/sh
# The parallel tensor operator: norms of layers, and a whole step of LAMB, on the layers of ResNet-50; computed by every rank for
# itself, or shared out among them. RANKS defaults to 2.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec mpirun --oversubscribe --bind-to none -np "${RANKS:-2}" build/bench/layer_norms
