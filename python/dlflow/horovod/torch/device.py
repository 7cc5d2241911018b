"""Tensors on GPUs: they travel through memory of the host that the GPU copies from and to by itself."""

from __future__ import annotations

from typing import Any

import torch


def is_on_device(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda"


def when_ready(tensor: torch.Tensor) -> Any:
    """Its synchronize() returns once the caller's stream has done what it does with `tensor` by now."""
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(tensor.device))
    return event


def pinned(count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, pin_memory=True)
