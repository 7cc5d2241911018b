#!/bin/sh
# What a checkpoint of a state of 1 GiB (SIZE) costs training: written by the rank itself, and by a thread while training goes on.
# FOLDER is where it is written, by default a new folder in $TMPDIR or /tmp; needs four times the state of memory.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
folder=$(mktemp -d "${FOLDER:-${TMPDIR:-/tmp}}/checkpoint.XXXXXX")
trap 'rm -rf "$folder"' EXIT
OMP_NUM_THREADS=1 build/bench/checkpoint "$folder" "${SIZE:-1GiB}"
