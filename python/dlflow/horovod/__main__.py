"""Prints the folder for PYTHONPATH in which `import horovod` finds this package."""

import pathlib

print(pathlib.Path(__file__).absolute().parent / "path")
