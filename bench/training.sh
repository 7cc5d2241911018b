#!/bin/sh
# Images or tokens per second of training: PyTorch DDP from Debian and from PyPI, Horovod and TensorFlow (the peers; DDP also with channels_last and torch.compile, TensorFlow with XLA), and dlflow-train.
# Networks, batch and ranks are equal; they take turns. Only installations with a fast sgemm count as peers (bench/peers.py). `bench/training.sh lenet --rounds 5` measures one network.
set -eu
cd "$(dirname "$0")/.."
echo "$(date -u +%F), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
bench/peer_venvs
case " $* " in  # no variable keeps our own loops from AVX-512
  "  " | *" --avx2 "*)
    cmake --preset release -B build/avx2 -DCMAKE_CXX_FLAGS=-DDLFLOW_NO_AVX512 > /dev/null
    cmake --build build/avx2 --target dlflow-train > /dev/null ;;
esac
[ $# -eq 0 ] || exec /usr/bin/python3 -B bench/training.py "$@"
for processor in "" --avx2 --bf16; do
  /usr/bin/python3 -B bench/training.py $processor
done
