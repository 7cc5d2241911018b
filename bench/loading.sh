#!/bin/sh
# Pictures per second from JPEG files: decoded, a random resized crop to 224 and to 64, mirrored, normalised; dlflow's loader and
# torchvision's, with one thread and with a thread per core.
set -eu
cd "$(dirname "$0")/.."
echo "$(uname -m), $(nproc) cores, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
tests/python/make_venv build/vision-venv bench/vision-requirements.txt || exit $?
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/vision-venv/bin/python3 bench/loading.py "$folder" build/bench/loading 1 "$(nproc)"
