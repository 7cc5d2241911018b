#!/bin/sh
# The time of a step if the results of layers get less memory: `activation_memory` of a train step. One rank, one thread.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed 's/^input: .*/input: [3, 64, 64]/' workflows/models/resnet50.yaml >"$folder/resnet50.yaml"
OMP_NUM_THREADS=1 build/bench/activation_memory "$folder/resnet50.yaml" 16
OMP_NUM_THREADS=1 build/bench/activation_memory workflows/models/gpt-small.yaml 8
