#!/bin/sh
# Submission and end-to-end time on a real SLURM that this script starts (root): a bare loop of sbatch (the peer) and
# `dlflow run --profile`, turn by turn.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
/usr/bin/python3 -B tests/slurm/site.py up build --set MaxJobCount=20000 >/dev/null
trap '/usr/bin/python3 -B tests/slurm/site.py down build' EXIT
DLFLOW_BUILD=$PWD/build PYTHONPATH=tests/slurm /usr/bin/python3 -B bench/slurm.py "$@"
