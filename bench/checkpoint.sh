#!/bin/sh
# The cost of a checkpoint of a 1 GiB state (SIZE): written by the rank itself, and by a thread while training continues.
# It is written to FOLDER, by default a new folder in $TMPDIR or /tmp. Needs memory for four times the state.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
folder=$(mktemp -d "${FOLDER:-${TMPDIR:-/tmp}}/checkpoint.XXXXXX")
trap 'rm -rf "$folder"' EXIT
OMP_NUM_THREADS=1 build/bench/checkpoint "$folder" "${SIZE:-1GiB}"
