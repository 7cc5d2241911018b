"""Horovod's environment variables that have an effect here."""

from __future__ import annotations

import os
from typing import NamedTuple


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise ValueError(f"{name} is {text!r}; it must be a number") from None


def _is_set(name: str) -> bool:
    """Horovod's meaning of a switch: a number other than 0."""
    return _number(name, 0) != 0


class Settings(NamedTuple):
    """Bytes and seconds."""
    fusion_threshold: int
    cycle_time: float
    cache_capacity: int
    stall_check: bool
    stall_check_time: float
    stall_shutdown_time: float

    @classmethod
    def from_environment(cls) -> "Settings":
        if os.environ.get("HOROVOD_TIMELINE"):
            raise ValueError("HOROVOD_TIMELINE is set, but dlflow's Horovod interface writes no timeline: unset it, and use torch.profiler")
        stall_check_time = _number("HOROVOD_STALL_CHECK_TIME_SECONDS", 60)
        return cls(fusion_threshold=int(_number("HOROVOD_FUSION_THRESHOLD", 128 << 20)),
                   cycle_time=_number("HOROVOD_CYCLE_TIME", 1) / 1000,
                   cache_capacity=int(_number("HOROVOD_CACHE_CAPACITY", 1024)),
                   stall_check=stall_check_time > 0 and not _is_set("HOROVOD_STALL_CHECK_DISABLE"),
                   stall_check_time=stall_check_time,
                   stall_shutdown_time=_number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0))
