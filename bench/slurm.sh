#!/bin/sh
# Submission and end-to-end time on a real SLURM that this script starts (root): a bare loop of sbatch (the peer) and
# `dlflow run --profile`, turn by turn; Snakemake on the same chain of steps; the cost of a job's supervisor.
# `bench/slurm.sh pack`: short elements with and without sharing of jobs.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
/usr/bin/python3 -B tests/slurm/site.py up build --set MaxJobCount=20000 >/dev/null
trap '/usr/bin/python3 -B tests/slurm/site.py down build' EXIT
if [ "${1:-}" = pack ]; then
  DLFLOW_BUILD=$PWD/build PYTHONPATH=tests/slurm /usr/bin/python3 -B bench/slurm.py pack
  exit
fi
tests/python/make_venv build/slurm-bench-venv bench/slurm-requirements.txt
# A place that the clusters' user can read.
venv=$(/usr/bin/python3 -c 'import json; print(json.load(open("build/tests/slurm/site.json"))["root"])')/snakemake
cp -r build/slurm-bench-venv "$venv"
DLFLOW_SNAKEMAKE=$venv DLFLOW_BUILD=$PWD/build PYTHONPATH=tests/slurm /usr/bin/python3 -B bench/slurm.py "$@"
