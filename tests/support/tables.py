"""What the reference implementations read in files of predictions."""

import json
import pathlib
import subprocess
import unittest

SCRIPT = pathlib.Path(__file__).with_name("scripts") / "read_predictions.py"
FIND = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, ('netCDF4', 'pyarrow'))))"


def read_table(path, venv):
    """The columns or variables of a Parquet or netCDF file, by name, and the number of row groups; `venv` is made by tests/python/make_venv."""
    python = venv / "bin/python"
    if not python.exists() or subprocess.run([python, "-c", FIND]).returncode:
        raise unittest.SkipTest("netCDF4 and PyArrow of PyPI are not in build/venv")
    done = subprocess.run([python, "-B", SCRIPT, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
