#!/bin/sh
# Steps per second, and milliseconds per hop of a chain, on two cores with state on disk: HyperQueue (the peer, from
# PyPI, server and one worker) and `dlflow run` as a user calls it, turn by turn; and a bare loop of fork and exec, the
# highest rate at which this machine starts /bin/true. Then `dlflow run` with its state in memory (tmpfs) and on disk, turn
# by turn: the disk of TMPDIR, and an ext4 with a journal if root may mount one.
# `bench/local_throughput.sh 5000 1000` sets steps and hops; a commit given before them is also built and measured.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
tests/python/make_venv build/bench-venv bench/requirements.txt
case ${1:-0} in
  *[!0-9]*)
    earlier=$(bench/commit_build "$1" programs)/bin/dlflow
    shift
    set -- --earlier "$earlier" "$@"
    ;;
esac
exec build/bench-venv/bin/python -B bench/local_throughput.py build/bin/dlflow "$@"
