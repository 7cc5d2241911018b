"""dlflow in Python. A training script that is a step of a workflow needs a few functions of this module: docs/user/python.md.

`dlflow.runtime` has collectives between processes, `dlflow.torch` is a backend of torch.distributed.
"""

from dlflow._report import report
from dlflow._parameters import Parameters, params
from dlflow._per_rank import PerRank
from dlflow._step import Saved, checkpoint, load, resume, should_save, should_stop, stop

__all__ = ["Parameters", "PerRank", "Saved", "checkpoint", "load", "params", "report", "resume", "should_save", "should_stop", "stop"]
