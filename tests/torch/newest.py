"""newest.py TEST [ARGUMENT...]: runs TEST beside this file with PyPI's PyTorch, from the virtual environment that `./dev test` makes."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from pypi import NEWEST, missing  # noqa: E402

if reason := missing("torch", NEWEST):
    print(f"skipped case: {sys.argv[1]}: {reason}")
    sys.exit(77)
os.execv(NEWEST, [NEWEST, "-B", pathlib.Path(__file__).parent / sys.argv[1], *sys.argv[2:]])
