"""The DLFLOW_* variables of a step, and which rank this process is."""

from __future__ import annotations

import os
import sys
from typing import Any, Optional


def variable(name: str) -> Optional[str]:
    return os.environ.get(name) or None


def is_step() -> bool:
    """Whether dlflow started this program."""
    return variable("DLFLOW_STEP") is not None


def torch_distributed() -> Any:
    """torch.distributed if this program has created its default group, otherwise None. Does not import it."""
    module = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module


def _number(names: tuple[str, ...], otherwise: int) -> int:
    for name in names:
        text = variable(name)
        if text is not None and text.isdigit():
            return int(text)
    return otherwise


def rank() -> int:
    distributed = torch_distributed()
    return int(distributed.get_rank()) if distributed else _number(("RANK", "DLFLOW_RANK"), 0)


def ranks() -> int:
    """The number of processes that train together, including this one."""
    distributed = torch_distributed()
    if distributed:
        return int(distributed.get_world_size())
    # A program that runs once per node gets the number of ranks, but is not a rank.
    is_rank = variable("RANK") is not None or variable("DLFLOW_RANK") is not None
    return _number(("WORLD_SIZE", "DLFLOW_RANKS"), 1) if is_rank else 1


def say(message: str) -> None:
    """Prints a message for users, once per job."""
    if rank() == 0:
        print(f"dlflow: {message}", file=sys.stderr, flush=True)
