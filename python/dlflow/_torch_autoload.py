"""The entry point `torch.backends` of the wheel: PyTorch 2.5 and later call it at the end of `import torch`."""

import importlib
import sys


def autoload() -> None:
    """Registers the backend "dlflow". Prints errors and never raises them: other programs in the environment also import torch."""
    try:
        importlib.import_module("dlflow.torch")  # if it is already being imported, it registers the backend later
    except Exception as error:
        print(f"dlflow: warning: there is no backend \"dlflow\" for PyTorch here: {error}; `python3 -m dlflow.check` looks for the cause", file=sys.stderr)
