"""Gives scripts and libraries that accept only known backends ours in place of gloo."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

VARIABLE = "DLFLOW_REPLACE_GLOO"


def backend_for(asked: Optional[str]) -> Optional[str]:
    """`asked`: "gloo", "cpu:gloo,cuda:nccl", or None, which means both."""
    if asked is None:
        return "dlflow"
    parts = [part.rpartition(":") for part in asked.split(",")]
    return ",".join(device + colon + ("dlflow" if name.lower() == "gloo" else name) for device, colon, name in parts)


def _wrapped(init: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(init)
    def init_process_group(backend: Optional[str] = None, *arguments: Any, **options: Any) -> Any:
        return init(backend_for(backend), *arguments, **options)

    return init_process_group


def replace_gloo() -> None:
    """Replaces gloo if the environment requests it; must run before other modules import the function from torch.distributed."""
    if os.environ.get(VARIABLE, "") in ("", "0"):
        return
    original = dist.init_process_group
    ours = _wrapped(original)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("torch.distributed") and vars(module).get("init_process_group") is original:
            module.init_process_group = ours  # type: ignore[attr-defined]
