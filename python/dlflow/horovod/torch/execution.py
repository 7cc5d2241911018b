"""Executes the agreed operations on tensors, by the collectives of `dlflow.runtime`."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from dlflow import _cuda, runtime
from dlflow.horovod.agreement import Request
from dlflow.horovod.session import Entry
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
        tensor.copy_(tensor.double().mul_(factor))  # rounds towards zero


class Execution:
    """The group of the ranks, and the buffers in which small tensors are fused. Used by one thread."""

    def __init__(self, group: runtime.Group):
        self._group = group
        self._buffers: Dict[Tuple[torch.dtype, bool], torch.Tensor] = {}
        self._nccl: Any = None
        self._has_asked_for_nccl = False

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
                if _cuda.is_on_device(of_type[0].target) and of_type[0].request.op != "adasum" and self._has_nccl(of_type[0].target.device):
                    self._allreduce_on_gpus(of_type)
                else:
                    self._allreduce(of_type)

    def leave(self, linger: float) -> None:
        self._group.leave(linger)

    def _has_nccl(self, device: torch.device) -> bool:
        """All ranks call it together, in their first allreduce on a GPU."""
        if not self._has_asked_for_nccl:
            self._has_asked_for_nccl = True
            if _cuda.each_rank_has_one(self._group, device):
                self._nccl = _cuda.Communicator(self._group, device)
        return self._nccl is not None

    def _allreduce_on_gpus(self, entries: List[Entry]) -> None:
        request, counts = entries[0].request, [entry.target.numel() for entry in entries]
        with self._nccl:
            values = torch.cat([entry.source.reshape(-1) for entry in entries])
            # A sum of fp16 may be infinite although the mean is not.
            is_divided_before = request.op == "average" and values.dtype == torch.float16
            _scale(values, request.prescale / self._group.size if is_divided_before else request.prescale)
            self._nccl.sum(values)
            is_divided_after = request.op == "average" and not is_divided_before
            _scale(values, request.postscale / self._group.size if is_divided_after else request.postscale)
            for entry, piece in zip(entries, values.split(counts)):
                entry.target.copy_(piece.view(entry.target.shape))

    def _buffer(self, entries: List[Entry], dtype: torch.dtype, count: int) -> torch.Tensor:
        """A fusion buffer, pinned if the entries are on a device."""
        is_pinned = _cuda.is_on_device(entries[0].target)
        known = self._buffers.get((dtype, is_pinned))
        if known is None or known.numel() < count:
            known = self._buffers[dtype, is_pinned] = _cuda.pinned(count, dtype) if is_pinned else torch.empty(count, dtype=dtype)
        return known[:count]

    def _allreduce(self, entries: List[Entry]) -> None:
        """All entries have the same type."""
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
            # A sum of fp16 may be infinite although the mean is not: the ranks divide it on the way.
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
    """Whether the only target itself can be sent."""
    target = entries[0].target
    return len(entries) == 1 and target.is_contiguous() and not _cuda.is_on_device(target)


def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
    """Does nothing for an operation in place."""
    if target.data_ptr() != source.data_ptr():
        target.copy_(source)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor, without a copy if it is contiguous."""
    return tensor.contiguous().view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
