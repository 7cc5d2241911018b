"""The same state on all ranks: parameters, optimizers, Python objects."""

from __future__ import annotations

import pickle
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

import torch

from dlflow.horovod.torch import mpi_ops

try:
    import cloudpickle as _pickle  # also pickles functions and classes of the script itself
except ImportError:
    _pickle = pickle


def _dump(value: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(_pickle.dumps(value)), dtype=torch.uint8)


def _load(data: torch.Tensor) -> Any:
    return pickle.loads(data.numpy().tobytes())


def broadcast_parameters(params: Union[Dict[str, Any], Iterable[Any]], root_rank: int) -> None:
    """Overwrites tensors by those of `root_rank`: a state_dict(), named_parameters() or a list of tensors."""
    if isinstance(params, dict):
        pairs: List[Tuple[Optional[str], Any]] = sorted(params.items())
    elif isinstance(params, list) or hasattr(params, "__next__"):
        pairs = [param if isinstance(param, tuple) else (None, param) for param in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    handles = [mpi_ops.broadcast_async_(tensor.detach(), root_rank, name) for name, tensor in pairs if torch.is_tensor(tensor)]
    for handle in handles:
        mpi_ops.synchronize(handle)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None) -> Any:
    """Returns the object of `root_rank` on all ranks. The others' objects do not matter: many scripts pass None."""
    name = name or "one"
    is_root = mpi_ops.rank() == root_rank
    data = _dump(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    size = mpi_ops.broadcast_(torch.tensor([data.numel()]), root_rank, f"object.{name}.size")
    if not is_root:
        data = torch.empty(int(size), dtype=torch.uint8)
    mpi_ops.broadcast_(data, root_rank, f"object.{name}")
    return obj if is_root else _load(data)


class _Shape(NamedTuple):
    """Replaces a tensor that travels separately."""
    shape: Tuple[int, ...]
    dtype: torch.dtype


def _map(state: Dict[str, Any], function: Any) -> Dict[str, Any]:
    """An optimizer's state_dict with `function(value)` in place of each value of its state."""
    values = {number: {key: function(value) for key, value in of_one.items()} for number, of_one in state["state"].items()}
    return {**state, "state": values}


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Optional[torch.nn.Module] = None) -> None:
    """Broadcasts the state and options of `root_rank`'s optimizer, also to ranks whose optimizer has no state yet. `model` is unused."""
    state = optimizer.state_dict()
    outline = _map(state, lambda value: _Shape(tuple(value.shape), value.dtype) if torch.is_tensor(value) else value)
    outline = broadcast_object(outline, root_rank, "optimizer")
    if mpi_ops.rank() != root_rank:
        state = _map(outline, lambda value: torch.empty(value.shape, dtype=value.dtype) if isinstance(value, _Shape) else value)
    broadcast_parameters({f"optimizer.{number}.{key}": value for number, of_one in state["state"].items() for key, value in of_one.items()
                          if torch.is_tensor(value)}, root_rank)
    if mpi_ops.rank() != root_rank:
        groups = optimizer.param_groups  # schedulers hold references to these dictionaries
        optimizer.load_state_dict(state)
        for group, loaded in zip(groups, optimizer.param_groups):
            group.update(loaded)
        optimizer.param_groups = groups
