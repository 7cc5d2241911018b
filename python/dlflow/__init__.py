"""dlflow in Python. A training script that is a step of a workflow needs a few functions of this module: docs/user/python.md.

`dlflow.runtime` has collectives between processes, `dlflow.torch` is a backend of torch.distributed.
"""

from typing import TYPE_CHECKING

from dlflow._report import report
from dlflow._parameters import Parameters, params
from dlflow._per_rank import PerRank
from dlflow._step import Saved, checkpoint, load, resume, should_save, should_stop, stop

__version__: str

if not TYPE_CHECKING:  # otherwise every name would belong to this module
    def __getattr__(name):
        """Looks up `__version__` of the installed package on demand: most scripts never need it."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import metadata
        return metadata.version("dlflow")

__all__ = ["Parameters", "PerRank", "Saved", "checkpoint", "load", "params", "report", "resume", "should_save", "should_stop", "stop"]
