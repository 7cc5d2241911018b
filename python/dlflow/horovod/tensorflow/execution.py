"""Executes the agreed operations on NumPy arrays, by the collectives of `dlflow.runtime`."""

from __future__ import annotations

from typing import Dict, List

import numpy as np

from dlflow import runtime
from dlflow.horovod.agreement import Request
from dlflow.horovod.session import Entry


def _scale(values: np.ndarray, factor: float) -> None:
    if factor != 1.0:
        is_wide = values.dtype in (np.float32, np.float64)
        is_whole = np.issubdtype(values.dtype, np.integer)
        values[...] = (values if is_wide else values.astype(np.float64 if is_whole else np.float32)) * factor


class Execution:
    """The group of the ranks. One thread calls it."""

    def __init__(self, group: runtime.Group):
        self._group = group

    def execute(self, entries: List[Entry]) -> None:
        """Tensors of one type travel together, in a copy that becomes their targets."""
        by_type: Dict[str, List[Entry]] = {}
        for entry in entries:
            by_type.setdefault(entry.request.dtype, []).append(entry)
        for of_type in by_type.values():
            values = np.concatenate([entry.source.reshape(-1) for entry in of_type])
            self._exchange(of_type[0].request, values)
            ends = np.cumsum([entry.source.size for entry in of_type])
            for entry, piece in zip(of_type, np.split(values, ends[:-1])):
                entry.target = piece.reshape(entry.source.shape)

    def leave(self, linger: float) -> None:
        self._group.leave(linger)

    def _exchange(self, request: Request, values: np.ndarray) -> None:
        """Works in place."""
        if request.kind == "broadcast":
            self._group.broadcast(values.ctypes.data, values.nbytes, request.root).wait()
            return
        is_mean = request.op == "average"
        # A sum of fp16 may be infinite although the mean is not: the ranks divide it on the way.
        op = runtime.Op.AVG if is_mean and values.dtype == np.float16 else runtime.Op.SUM
        _scale(values, request.prescale)
        self._group.all_reduce(values.ctypes.data, values.size, runtime.TYPES[request.dtype], op).wait()
        _scale(values, request.postscale / (self._group.size if is_mean and op == runtime.Op.SUM else 1))
