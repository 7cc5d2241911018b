"""Metrics: shown by `dlflow status` while a step runs, and used by `require:` and `dlflow results` at its end."""

from __future__ import annotations

import json
import os
import pathlib
import time
from typing import Any, Dict, Union

from dlflow import _environment

Value = Union[int, float, str]

_summary: Dict[str, Union[int, float]] = {}


def report(**metrics: Any) -> None:
    """Reports the progress of training: `report(loss=0.3, epoch=2, step=400)`. Every rank may call it; only rank 0's call counts.

    The last value of each number is checked by `require:` and shown by `dlflow results`. `epoch`, `epochs`, `step`, `steps`, `loss`,
    `accuracy`, `images_per_s`, `eta_s`, `progress` (0 to 1) and `message` are shown while the step runs. Numbers may be tensors of one
    element. Outside of dlflow the metrics are printed.
    """
    if _environment.rank() != 0:
        return
    values = {name: _plain(name, value) for name, value in metrics.items()}
    lines, summary = _environment.variable("DLFLOW_METRICS"), _environment.variable("DLFLOW_SUMMARY")
    if not _summary and summary is not None:
        _summary.update(_of_earlier_passes(pathlib.Path(summary)))
    _summary.update({name: value for name, value in values.items() if not isinstance(value, str)})
    if lines is None or summary is None:
        words = (f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items())
        print("  ".join(words), flush=True)
        return
    descriptor = os.open(lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, (json.dumps({"at": round(time.time(), 3), **values}) + "\n").encode())  # in a single write, since readers skip partial lines
    finally:
        os.close(descriptor)
    temporary = pathlib.Path(f"{summary}.tmp.{os.getpid()}")
    temporary.write_text(json.dumps(_summary) + "\n")
    temporary.rename(summary)


def _of_earlier_passes(summary: pathlib.Path) -> Dict[str, Union[int, float]]:
    """The metrics of earlier passes, which still count: a resumed pass finds their file."""
    try:
        return dict(json.loads(summary.read_text()))
    except (OSError, ValueError):
        return {}


def _plain(name: str, value: Any) -> Value:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return int(value)
    item = getattr(value, "item", None)
    if callable(item):
        value = item()
    if isinstance(value, int):
        return int(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is a {type(value).__name__}: dlflow.report() takes numbers and texts") from None
