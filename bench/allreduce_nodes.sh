#!/bin/sh
# Like allreduce.sh, with one rank on each of two nodes of a SLURM that this script starts (root; TCP between network name
# spaces): first with the rules that `dlflow-train --tune` measures there and prints. Arguments go to dlflow-bench.
set -eu
cd "$(dirname "$0")/.."
echo "# $(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
/usr/bin/python3 -B tests/slurm/site.py up build >/dev/null
trap '/usr/bin/python3 -B tests/slurm/site.py down build' EXIT
root=$(/usr/bin/python3 -c 'import json; print(json.load(open("build/tests/slurm/site.json"))["root"])')
install -m 755 build/bench/dlflow-bench "$root/dlflow/bin"
on_two_nodes() {
  tests/cluster/slurm-cluster as-user alpha --root "$root" srun -N2 -n2 --mpi=pmix "$@"
}
rules=$root/alpha/home/collectives.txt
on_two_nodes env DLFLOW_COLLECTIVES="$rules" "$root/dlflow/bin/dlflow-train" --tune 64MiB
on_two_nodes "$root/dlflow/bin/dlflow-bench" --no-gloo --rules-file "$rules" "$@"
