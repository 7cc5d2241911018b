#!/bin/sh
# usage: bench/horovod_venv.sh FOLDER: a virtual environment with Horovod, built once against Debian's PyTorch and MPI (some minutes).
# Fails where that cannot be done; the benches then leave Horovod out by name.
set -eu
venv=$1 version=0.28.1
[ ! -e "$venv/horovod-$version" ] || exit 0
rm -rf "$venv"
/usr/bin/python3 -m venv --system-site-packages "$venv"
echo "building Horovod $version (log: $venv/build.log)" >&2
HOROVOD_WITH_MPI=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITHOUT_GLOO=1 \
  "$venv/bin/pip" install --no-build-isolation "horovod==$version" >"$venv/build.log" 2>&1
touch "$venv/horovod-$version"
