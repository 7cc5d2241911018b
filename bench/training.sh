#!/bin/sh
# Images per second of training: PyTorch DDP (the peer), the same with channels_last, Horovod, and dlflow-train.
# Networks, batch and ranks are equal; they take turns. `bench/training.sh lenet --rounds 5` measures one network.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
bench/horovod_venv build/horovod-venv || echo "Horovod cannot be built here: left out" >&2
[ $# -eq 0 ] || exec /usr/bin/python3 -B bench/training.py "$@"
for processor in "" --avx2 --bf16; do
  /usr/bin/python3 -B bench/training.py $processor
done
