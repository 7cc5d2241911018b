#!/bin/sh
# Time to sum numbers of fp32, or of --type, over the ranks of this machine: MPI_Allreduce, gloo and dlflow in one run (dlflow-bench --help).
# RANKS lists the numbers of ranks, by default 2, 3, 4 and 8; arguments go to dlflow-bench.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for ranks in ${RANKS:-2 3 4 8}; do
  mpirun --oversubscribe --bind-to none -np "$ranks" build/bench/dlflow-bench "$@"
done
