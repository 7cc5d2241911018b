"""The engine's request to save and to end: SIGUSR1 or SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Dict, Optional

_SIGNALS = (signal.SIGUSR1, signal.SIGTERM)
_before: Dict[int, Any] = {}
_is_requested = False


def is_requested() -> bool:
    return _is_requested


def listen() -> None:
    """Starts to record these signals. The program's own handlers still run."""
    if _before:
        return
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("call dlflow.resume() or dlflow.should_stop() in the main thread first: only there can Python receive signals")
    for number in _SIGNALS:
        _before[number] = signal.signal(number, _note)
    os.register_at_fork(after_in_child=_forget)


def _note(number: int, frame: Optional[FrameType]) -> None:
    global _is_requested
    _is_requested = True
    if callable(_before[number]):
        _before[number](number, frame)


def _forget() -> None:
    """Resets a forked child, which also gets the engine's signal: data loaders must go on until the program has saved."""
    for number, before in _before.items():
        signal.signal(number, signal.SIG_IGN if number == signal.SIGUSR1 else before)
