#!/bin/sh
# Time and memory that a large workflow takes from text to plan: two steps with a matrix each, dependent
# element by element. The peer, Snakemake 9.27, was measured with `snakemake -n` on a fan-out and a
# merge: 1,002 jobs 1.2 s; 10,002 jobs 6.4 s, 208 MB; 60,002 jobs 44 s, 895 MB.
# `bench/plan_scale.sh COMMIT` also builds that commit and runs both five times in turns.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
if [ $# -eq 0 ]; then
  for jobs in 1000 10000 100000; do
    build/bench/plan_scale "$jobs"
  done
  exit
fi
earlier=$(bench/commit_build "$1" plan_scale)/bench/plan_scale
for jobs in 10000 100000 1000000; do
  for turn in 1 2 3 4 5; do
    echo "earlier $("$earlier" "$jobs")"
    echo "now $(build/bench/plan_scale "$jobs")"
  done | awk -v commit="$1" -v jobs="$jobs" '
    # The minimum of five turns is the one least disturbed by other work on the machine.
    !($1 in time) || $4 < time[$1] { time[$1] = $4 }
    { memory[$1] = $(NF - 1) }
    END {
      printf "%7d jobs: %s %.3f s, %d MB; now %.3f s, %d MB; ratio %.2f and %.2f\n", jobs, commit, time["earlier"],
        memory["earlier"], time["now"], memory["now"], time["now"] / time["earlier"], memory["now"] / memory["earlier"]
    }'
done
