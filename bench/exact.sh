#!/bin/sh
# Exact mode over the whole training set: fails unless the weights on 1, 2, 3, 4 and 8 ranks have the same bits.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
exec /usr/bin/python3 -B bench/exact.py "$@"
