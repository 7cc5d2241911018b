#!/bin/sh
# The share of a training step in oneDNN's products, and their speed compared with this core's sgemm. `bench/roofline.sh resnet50` measures one network.
set -eu
cd "$(dirname "$0")/.."
echo "$(date -u +%F), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), load $(cut -d' ' -f1 /proc/loadavg)"
exec /usr/bin/python3 -B bench/roofline.py "$@"
