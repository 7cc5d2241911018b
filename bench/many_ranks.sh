#!/bin/sh
# A group of many processes on this machine, without MPI: time until it has formed, memory of a rank, time to sum 1 MiB, and
# time until all ranks name a killed one. Each node of 16 ranks (NODE) has its own memory, as on a cluster.
# RANKS lists the numbers of ranks, by default 64, 256, 512 and 1,024.
set -eu
cd "$(dirname "$0")/.."
for ranks in ${RANKS:-64 256 512 1024}; do
  echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
  build/bench/many_ranks "$ranks" "${NODE:-16}"
done
