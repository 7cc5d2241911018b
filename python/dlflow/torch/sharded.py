"""The parts of a checkpoint that PyTorch 2 has sharded over the ranks: torch.distributed.checkpoint in the checkpoint's own folder.

They are saved by parameter name, so any number of ranks can load them.
"""

from __future__ import annotations

import pathlib
from typing import Any, Dict, Mapping, Tuple

import torch

from dlflow import _environment, _folder


def save(place: pathlib.Path, parts: Mapping[str, Any], all_parts: Mapping[str, Any]) -> Dict[str, Tuple[int, str]]:
    """Collective. Returns the files that this rank wrote into `place`: file -> bytes, SHA-256."""
    dcp = _dcp()
    before = set(place.iterdir())
    dcp.save({name: _state(name, part, all_parts) for name, part in parts.items()}, storage_writer=dcp.FileSystemWriter(str(place)))
    own = f"__{_environment.rank()}_"
    written = {}
    for path in set(place.iterdir()) - before:
        # The common plan, written by rank 0, and this rank's data.
        if path.name.startswith(own) or (path.name == ".metadata" and _environment.rank() == 0):
            written[path.name] = _folder.hash_file(path)
    return written


def load(path: pathlib.Path, name: str, part: Any, parts: Mapping[str, Any]) -> None:
    """Collective."""
    dcp = _dcp()
    state = {name: _state(name, part, parts)}
    dcp.load(state, storage_reader=dcp.FileSystemReader(str(path)))
    states = _states()
    if isinstance(part, torch.optim.Optimizer):
        states.set_optimizer_state_dict(_model(name, parts), part, state[name])
    elif isinstance(part, torch.nn.Module):
        states.set_model_state_dict(part, state[name])
    else:
        part.load_state_dict(state[name])


def _state(name: str, part: Any, parts: Mapping[str, Any]) -> Any:
    """The state by parameter name, complete even before the first step."""
    if isinstance(part, torch.optim.Optimizer):
        return _states().get_optimizer_state_dict(_model(name, parts), part)
    return _states().get_model_state_dict(part) if isinstance(part, torch.nn.Module) else part.state_dict()


def _model(name: str, parts: Mapping[str, Any]) -> Any:
    models = [part for part in parts.values() if isinstance(part, torch.nn.Module)]
    if len(models) != 1:
        raise ValueError(f"{name} is divided among the ranks: also give the model that has its parameters, and no other")
    return models[0]


def _dcp() -> Any:
    try:
        import torch.distributed.checkpoint as dcp
        dcp.save, dcp.load  # noqa: B018
        return dcp
    except (ImportError, AttributeError):
        raise RuntimeError(f"the model is divided among the ranks, and PyTorch {torch.__version__} cannot save that: it needs 2.2 or "
                           f"newer, or a whole state (FULL_STATE_DICT)") from None


def _states() -> Any:
    import torch.distributed.checkpoint.state_dict as states
    return states
