"""The entry point `torch.backends` of the wheel: PyTorch 2.5 and later call it at the end of `import torch`."""

import importlib
import sys


def autoload() -> None:
    """Registers the backend "dlflow". What fails is printed and never raised: other programs of the environment import torch, too."""
    try:
        importlib.import_module("dlflow.torch")  # which may have begun to import torch itself, and then registers the backend later
    except Exception as error:
        print(f"dlflow: warning: there is no backend \"dlflow\" for PyTorch here: {error}; `python3 -m dlflow.check` looks for the cause", file=sys.stderr)
