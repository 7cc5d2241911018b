"""newest.py TEST [ARGUMENT...]: runs TEST beside this file with PyPI's PyTorch, from the virtual environment that bench/peer_venvs makes."""

import os
import pathlib
import subprocess
import sys

PYTHON = pathlib.Path(os.environ["DLFLOW_BUILD"]) / "torch-venv/bin/python"

FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"

if not PYTHON.exists() or subprocess.run([PYTHON, "-c", FIND]).returncode:
    print(f"skipped case: {sys.argv[1]}: PyTorch of PyPI is not there: bench/peer_venvs installs it")
    sys.exit(77)
os.execv(PYTHON, [PYTHON, "-B", pathlib.Path(__file__).parent / sys.argv[1], *sys.argv[2:]])
