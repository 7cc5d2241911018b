#!/bin/sh
# The cost of the store during a run: CPU time and bytes per job of four events.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
build/bench/store_events 10000
