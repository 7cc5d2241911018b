#!/bin/sh
# Training from a source of 10 MB/s with `cache:` (the throttle is in the program: a file system that gives so many bytes
# per second to all ranks), beside the same training from mapped files that are in memory; and how much of a set that is
# twice as large as the memory is found there, by the known order (Belady's MIN) and by the last use (LRU).
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
OMP_NUM_THREADS=1 build/bench/data_cache "$folder"
