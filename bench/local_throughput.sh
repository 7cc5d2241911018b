#!/bin/sh
# Steps per second and milliseconds per hop of the local back end: `dlflow run` as a user calls it,
# state on disk, from the YAML file to the last step's record. The peer, HyperQueue 0.27, with its
# journal on, on 2 cores: 5,000 tasks of /bin/true at 764/s, 45 ms per hop of a chain of 1,000
# (Parsl 2026.7.20 threads: 561/s).
set -eu
cd "$(dirname "$0")/.."
program=$PWD/build/bin/dlflow
steps=${1:-5000}
hops=${2:-1000}
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export DLFLOW_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"
cd "$folder"

python3 - "$steps" "$hops" <<'PYTHON'
import sys
steps, hops = map(int, sys.argv[1:])
with open("wide.yaml", "w") as file:
    file.write("name: wide\nsteps:\n  step:\n    run: [/bin/true]\n    matrix:\n")
    file.write(f"      n: [{', '.join(map(str, range(steps)))}]\n")
with open("chain.yaml", "w") as file:
    file.write("name: chain\nsteps:\n")
    for hop in range(hops):
        needs = f", needs: [s{hop - 1}]" if hop else ""
        # Its own number makes each step other work; equal steps would be reused, not run.
        file.write(f"  s{hop}: {{run: [/bin/true, '{hop}']{needs}}}\n")
PYTHON

# Wall-clock seconds of `dlflow run FILE`; its states must all be succeeded.
seconds() {
  begin=$(date +%s.%N)
  "$program" run "$1" --quiet >/dev/null
  end=$(date +%s.%N)
  echo "$begin $end" | awk '{printf "%.3f", $2 - $1}'
}

report() {
  awk -v what="$1" -v peer="$2" -v ours="$3" -v unit="$4" -v ratio="$5" \
    'BEGIN { printf "%-28s peer %7.1f %s   ours %7.1f %s   ratio %.2f\n", what, peer, unit, ours, unit, ratio }'
}

for repetition in 1 2 3; do
  sed -i "s/^name: wide.*/name: wide$repetition/; s/^name: chain.*/name: chain$repetition/" wide.yaml chain.yaml
  rm -rf "$DLFLOW_HOME" dlflow-runs  # or the second would find the results of the first
  took=$(seconds wide.yaml)
  rate=$(awk "BEGIN { print $steps / $took }")
  report "$steps steps" 764 "$rate" "/s" "$(awk "BEGIN { print $rate / 764 }")"
  took=$(seconds chain.yaml)
  hop=$(awk "BEGIN { print $took * 1000 / $hops }")
  report "chain of $hops" 45 "$hop" "ms/hop" "$(awk "BEGIN { print 45 / $hop }")"
done
