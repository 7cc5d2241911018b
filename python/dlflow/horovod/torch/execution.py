"""Executes on tensors what all ranks have agreed on, by the collectives of `dlflow.runtime`."""

from __future__ import annotations

from typing import Dict, List, Tuple

import torch

from dlflow import runtime
from dlflow.horovod.agreement import Request
from dlflow.horovod.session import Entry
from dlflow.horovod.torch import device
from dlflow.horovod.torch.adasum import adasum


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _scale(tensor: torch.Tensor, factor: float) -> None:
    if factor == 1.0:
        return
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor.copy_(tensor.float().mul_(factor))  # mul_ would round the factor first
    elif tensor.dtype.is_floating_point:
        tensor.mul_(factor)
    else:
        tensor.copy_(tensor.double().mul_(factor))  # towards zero


class Execution:
    """The group of the ranks, and the buffers in which small tensors are fused. One thread calls it."""

    def __init__(self, group: runtime.Group):
        self._group = group
        self._buffers: Dict[Tuple[torch.dtype, bool], torch.Tensor] = {}

    def execute(self, entries: List[Entry]) -> None:
        for entry in entries:
            if entry.ready is not None:
                entry.ready.synchronize()
        with torch.no_grad():
            if entries[0].request.kind == "broadcast":
                return self._broadcast(entries)
            by_type: Dict[torch.dtype, List[Entry]] = {}
            for entry in entries:
                by_type.setdefault(entry.target.dtype, []).append(entry)
            for of_type in by_type.values():
                self._allreduce(of_type)

    def leave(self, linger: float) -> None:
        self._group.leave(linger)

    def _buffer(self, entries: List[Entry], dtype: torch.dtype, count: int) -> torch.Tensor:
        """Pinned if one of the entries is on a device: on other ranks none may be."""
        is_pinned = any(device.is_on_device(entry.target) for entry in entries)
        known = self._buffers.get((dtype, is_pinned))
        if known is None or known.numel() < count:
            known = self._buffers[dtype, is_pinned] = device.pinned(count, dtype) if is_pinned else torch.empty(count, dtype=dtype)
        return known[:count]

    def _allreduce(self, entries: List[Entry]) -> None:
        """All are of one type."""
        target, request = entries[0].target, entries[0].request
        if _is_in_place(entries):
            _copy(entries[0].source, target)
            self._reduce(request, target.view(-1), [target.numel()])
            return
        counts = [entry.target.numel() for entry in entries]
        buffer = self._buffer(entries, target.dtype, sum(counts))
        pieces = buffer.split(counts)
        for entry, piece in zip(entries, pieces):
            piece.copy_(entry.source.reshape(-1))
        self._reduce(request, buffer, counts)
        for entry, piece in zip(entries, pieces):
            entry.target.copy_(piece.view(entry.target.shape))

    def _reduce(self, request: Request, values: torch.Tensor, counts: List[int]) -> None:
        """Reduces contiguous `values`, of several tensors with `counts` elements, in place."""
        _scale(values, request.prescale)
        factor = request.postscale
        if request.op == "adasum":
            adasum(self._group, values, counts)
        else:
            is_mean = request.op == "average"
            # The sum of fp16 may be infinite where the mean is not: the ranks divide it on the way.
            op = runtime.Op.AVG if is_mean and values.dtype == torch.float16 else runtime.Op.SUM
            self._group.all_reduce(values.data_ptr(), values.numel(), runtime.TYPES[request.dtype], op).wait()
            if is_mean and op == runtime.Op.SUM:
                factor /= self._group.size
        _scale(values, factor)

    def _broadcast(self, entries: List[Entry]) -> None:
        root = entries[0].request.root
        is_root = self._group.rank == root
        if _is_in_place(entries):
            target = entries[0].target
            if is_root:
                _copy(entries[0].source, target)
            self._group.broadcast(target.data_ptr(), _bytes(target), root).wait()
            return
        sizes = [_bytes(entry.target) for entry in entries]
        buffer = self._buffer(entries, torch.uint8, sum(sizes))
        pieces = buffer.split(sizes)
        for entry, piece in zip(entries, pieces):
            if is_root:
                piece.copy_(_as_bytes(entry.source))
        self._group.broadcast(buffer.data_ptr(), buffer.numel(), root).wait()
        for entry, piece in zip(entries, pieces):
            values = torch.empty(entry.target.shape, dtype=entry.target.dtype)
            _as_bytes(values).copy_(piece)
            entry.target.copy_(values)


def _is_in_place(entries: List[Entry]) -> bool:
    """Whether the one target itself travels."""
    target = entries[0].target
    return len(entries) == 1 and target.is_contiguous() and not device.is_on_device(target)


def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
    """Nothing if it is done in place."""
    if target.data_ptr() != source.data_ptr():
        target.copy_(source)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor, its own if it is contiguous."""
    return tensor.contiguous().view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
