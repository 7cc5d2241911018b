"""hvd.elastic: training that goes on from its last commit; how, is said in dlflow.horovod.common.elastic."""

from typing import Any, Callable

from dlflow.horovod.common.elastic import ObjectState, State, run_fn
from dlflow.horovod.torch.elastic.sampler import ElasticSampler
from dlflow.horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function whose first argument is a state. It begins with the last commit of an earlier pass."""
    return run_fn(func)
