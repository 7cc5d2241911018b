#!/bin/sh
# How long a large workflow takes from text to plan, and how much memory: two steps with a matrix
# each, job for job. The peer, Snakemake 9.27, was measured with `snakemake -n` on a fan-out and a
# merge: 1,002 jobs 1.2 s; 10,002 jobs 6.4 s, 208 MB; 60,002 jobs 44 s, 895 MB.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
for jobs in 1000 10000 100000; do
  build/bench/plan_scale "$jobs"
done
