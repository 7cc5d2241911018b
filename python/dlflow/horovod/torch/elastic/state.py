"""The state of a training with PyTorch: models, optimizers, samplers, and Python objects."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from dlflow.horovod.common.elastic import ObjectState
from dlflow.horovod.torch import mpi_ops
from dlflow.horovod.torch.elastic.sampler import ElasticSampler
from dlflow.horovod.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters


class StateHandler:
    """An object with state_dict(), and its copy from the last save(). `share` gives all ranks the state of rank 0."""

    def __init__(self, value: Any, share: Callable[[Any], None]):
        self.value, self._share = value, share
        self.save()

    def save(self) -> None:
        self.saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self.saved)

    def sync(self) -> None:
        """Gives all ranks the state of rank 0, which becomes their common commit."""
        self._share(self.value)
        self.save()

    def set_value(self, value: Any) -> None:
        self.value = value
        self.save()


_SHARES: List[Tuple[type, Callable[[Any], None]]] = [
    (torch.nn.Module, lambda model: broadcast_parameters(model.state_dict(), root_rank=0)),
    (torch.optim.Optimizer, lambda optimizer: broadcast_optimizer_state(optimizer, root_rank=0)),
    (ElasticSampler, lambda sampler: sampler.load_state_dict(broadcast_object(sampler.state_dict())))]


def _handler(value: Any) -> Optional[StateHandler]:
    return next((StateHandler(value, share) for kind, share in _SHARES if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """Saves models, optimizers and samplers by their state_dict(), other objects as they are."""

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any):
        values = {**kwargs, "model": model, "optimizer": optimizer}
        found = {name: _handler(value) for name, value in values.items()}
        self._handlers: Dict[str, StateHandler] = {name: handler for name, handler in found.items() if handler is not None}
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(broadcast_object, mpi_ops.rank, **{name: value for name, value in values.items() if name not in self._handlers})

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_handlers" and name in self._handlers:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def _committed(self) -> Any:
        return {"objects": self._saved_state, "states": {name: handler.saved for name, handler in self._handlers.items()}}

    def _take(self, committed: Any) -> None:
        super()._take(committed["objects"])
        for name, state in committed["states"].items():
            if name in self._handlers:
                self._handlers[name].saved = state
                self._handlers[name].restore()

    def _dump(self, committed: Any, stream: Any) -> None:
        torch.save(committed, stream)

    def _parse(self, stream: Any) -> Any:
        return torch.load(stream, weights_only=False)
