"""Packages that `./dev test` installs from PyPI for tests, and the reason to skip a test without them."""

import os
import pathlib
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ["DLFLOW_BUILD"]) if "DLFLOW_BUILD" in os.environ else pathlib.Path(os.environ["DLFLOW_BIN"]).parent
DEBIAN = pathlib.Path("/usr/bin/python3")
NEWEST = BUILD / "torch-venv/bin/python"  # contains tests/torch/requirements.txt
HOROVOD = BUILD / "horovod-venv/bin/python"  # made by bench/horovod_venv
TENSORFLOW = BUILD / "tests/tensorflow/bin/python"  # contains tests/torch/tensorflow-requirements.txt


def has(module, python):
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return pathlib.Path(python).exists() and subprocess.run([python, "-c", find], capture_output=True).returncode == 0


def is_closed_to_others(python):
    """Whether it is inaccessible to the ordinary user of a test cluster, as in a checkout below /root."""
    return "DLFLOW_SITE" in os.environ and any(not folder.stat().st_mode & 0o001 for folder in python.parents)


def missing(module, python):
    """The reason why `python` cannot import `module`; empty if it can."""
    if has(module, python):
        return "other users may not enter the folder of this checkout" if is_closed_to_others(python) else ""
    if python == DEBIAN:
        return f"Debian's python3-{module} is not installed"
    if python == TENSORFLOW and sys.version_info >= (3, 12):
        return "TensorFlow 2.15 has no wheel for this Python"
    left_out = BUILD / "horovod-venv/left-out"
    if python == HOROVOD and left_out.exists():
        return left_out.read_text().strip()
    return f"{module} of PyPI is not in {python.parents[1].name}: ./dev test installs it, and says why it could not"


def needs(module, python=NEWEST):
    reason = missing(module, python)
    return unittest.skipIf(reason, reason)


def need_torchrun(case):
    """Skips `case` if Debian's PyTorch is built without libuv, which its torchrun always uses."""
    store = "import torch.distributed as dist; dist.TCPStore('127.0.0.1', 0, 1, True)"
    if b"libuv" in subprocess.run([DEBIAN, "-c", store], capture_output=True).stderr:
        case.skipTest("torchrun of Debian's PyTorch needs libuv, which this release builds it without")
