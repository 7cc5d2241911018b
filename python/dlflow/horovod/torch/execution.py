"""Executes on tensors what all ranks have agreed on: the collectives of `dlflow.runtime`, a group for each process set."""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from dlflow import runtime
from dlflow.horovod.agreement import Request
from dlflow.horovod.session import Entry
from dlflow.horovod.timeline import Timeline
from dlflow.horovod.torch.adasum import adasum

_TYPES = {torch.float32: runtime.Type.F32, torch.float64: runtime.Type.F64, torch.float16: runtime.Type.F16,
          torch.bfloat16: runtime.Type.BF16, torch.int8: runtime.Type.I8, torch.uint8: runtime.Type.U8,
          torch.int32: runtime.Type.I32, torch.int64: runtime.Type.I64, torch.bool: runtime.Type.BOOL}
#: An average is a sum that is divided here, but of fp16, whose sum may be infinite where the mean is not.
_OPS = {"average": runtime.Op.SUM, "sum": runtime.Op.SUM, "min": runtime.Op.MIN, "max": runtime.Op.MAX, "product": runtime.Op.PRODUCT}

NAMES = {str(dtype)[6:]: dtype for dtype in [*_TYPES, torch.int16]}  # of types, in requests


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


def _reduction(request: Request, dtype: torch.dtype, size: int) -> Tuple[runtime.Op, float]:
    """What the ranks do, and by what the result is multiplied then."""
    if request.op == "average" and dtype == torch.float16:
        return runtime.Op.AVG, request.postscale
    return _OPS[request.op], request.postscale / (size if request.op == "average" else 1)


def first_rows(rows: int, size: int) -> List[int]:
    """How many of `rows` each rank gets of a reducescatter: the first ranks get one more."""
    return [rows // size + (rank < rows % size) for rank in range(size)]


class Execution:
    """The groups of a rank, and the buffers in which small tensors are fused. One thread calls it."""

    def __init__(self, rank: int, group: runtime.Group, timeline: Timeline):
        self._rank, self._timeline = rank, timeline
        self._groups: Dict[int, runtime.Group] = {0: group}
        self.sets: Dict[int, List[int]] = {0: list(range(group.size))}  # the ranks of each
        self._buffers: Dict[torch.dtype, torch.Tensor] = {}
        self._calls: Dict[str, Callable[..., None]] = {
            "allreduce": self._allreduce, "broadcast": self._broadcast, "allgather": self._allgather, "alltoall": self._alltoall,
            "reducescatter": self._reducescatter, "barrier": self._nothing, "join": self._join, "add_set": self._add_set,
            "remove_set": self._remove_set}

    def execute(self, kind: str, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        names = [request.name for request in requests]
        with torch.no_grad():
            self._timeline.begin(names, kind.upper(), shapes=requests[0].shapes, types=requests[0].types)
            self._calls[kind](requests, entries, own)
            self._timeline.end(names)

    def leave(self, linger: float) -> None:
        for group in self._groups.values():
            group.leave(linger)

    def _buffer(self, dtype: torch.dtype, count: int) -> torch.Tensor:
        known = self._buffers.get(dtype)
        if known is None or known.numel() < count:
            known = self._buffers[dtype] = torch.empty(count, dtype=dtype)
        return known[:count]

    def _allreduce(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        by_type: Dict[str, List[Tuple[int, Optional[torch.Tensor], Optional[torch.Tensor]]]] = {}
        for request, entry in zip(requests, entries):
            for i, (name, shape) in enumerate(zip(request.types, request.shapes)):
                source, target = (entry.inputs[i].detach(), entry.outputs[i].detach()) if entry else (None, None)
                by_type.setdefault(name, []).append((math.prod(shape), source, target))
        for name, tensors in by_type.items():
            self._allreduce_of_type(NAMES[name], requests, tensors)

    def _allreduce_of_type(self, dtype: torch.dtype, requests: List[Request],
                           tensors: List[Tuple[int, Optional[torch.Tensor], Optional[torch.Tensor]]]) -> None:
        counts = [count for count, _, _ in tensors]
        _, source, target = tensors[0]
        if len(tensors) == 1 and target is not None and source is not None and target.is_contiguous():
            if target.data_ptr() != source.data_ptr():
                target.copy_(source)
            self._reduce(requests[0], target.view(-1), counts)
            return
        names = [request.name for request in requests]
        self._timeline.begin(names, "MEMCPY_IN_FUSION_BUFFER")
        buffer = self._buffer(dtype, sum(counts))
        pieces = buffer.split(counts)
        for (_, source, _), piece in zip(tensors, pieces):
            if source is None:
                piece.zero_()
            else:
                piece.copy_(source.reshape(-1))
        self._timeline.end(names)
        self._reduce(requests[0], buffer, counts)
        self._timeline.begin(names, "MEMCPY_OUT_FUSION_BUFFER")
        for (_, _, target), piece in zip(tensors, pieces):
            if target is not None:
                target.copy_(piece.view(target.shape))
        self._timeline.end(names)

    def _reduce(self, request: Request, values: torch.Tensor, counts: List[int]) -> None:
        """Reduces contiguous `values`, of several tensors with `counts` elements, in place."""
        group = self._groups[request.set]
        _scale(values, request.prescale)
        if request.op == "adasum":
            adasum(group, values, counts)
            return _scale(values, request.postscale)
        op, factor = _reduction(request, values.dtype, group.size)
        wide = values.int() if values.dtype == torch.int16 else values
        group.all_reduce(wide.data_ptr(), wide.numel(), _TYPES[wide.dtype], op).wait()
        if wide is not values:
            values.copy_(wide)
        _scale(values, factor)

    def _broadcast(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        group, root = self._groups[requests[0].set], requests[0].root
        pairs = [(source.detach(), target.detach()) for entry in entries if entry for source, target in zip(entry.inputs, entry.outputs)]
        if len(pairs) == 1 and pairs[0][1].is_contiguous():
            source, target = pairs[0]
            if group.rank == root and target.data_ptr() != source.data_ptr():
                target.copy_(source)
            group.broadcast(target.data_ptr(), _bytes(target), root).wait()
            return
        sizes = [_bytes(target) for _, target in pairs]
        buffer = self._buffer(torch.uint8, sum(sizes))
        for (source, target), piece in zip(pairs, buffer.split(sizes)):
            if group.rank == root:
                piece.copy_(_as_bytes(source))
        group.broadcast(buffer.data_ptr(), buffer.numel(), root).wait()
        for (source, target), piece in zip(pairs, buffer.split(sizes)):
            values = torch.empty(target.shape, dtype=target.dtype)
            _as_bytes(values).copy_(piece)
            target.copy_(values)

    def _allgather(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        """`own`: of each rank, the first dimension of each tensor."""
        (request,), (entry,) = requests, entries
        assert entry is not None
        group, outputs = self._groups[request.set], []
        for i, source in enumerate(entry.inputs):
            source = source.detach().contiguous()
            rows = [dimensions[i] for dimensions in own]
            row_bytes = source.element_size() * math.prod(source.shape[1:])
            target = torch.empty((sum(rows), *source.shape[1:]), dtype=source.dtype)
            group.all_gather(source.data_ptr(), target.data_ptr(), [count * row_bytes for count in rows]).wait()
            outputs.append(target)
        entry.outputs = tuple(outputs)

    def _alltoall(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        """`own`: of each rank, how many rows it sends to each."""
        (request,), (entry,) = requests, entries
        assert entry is not None
        group, source = self._groups[request.set], entry.inputs[0].detach().contiguous()
        received = [splits[group.rank] for splits in own]
        row_bytes = source.element_size() * math.prod(source.shape[1:])
        target = torch.empty((sum(received), *source.shape[1:]), dtype=source.dtype)
        group.all_to_all(source.data_ptr(), [count * row_bytes for count in own[group.rank]], target.data_ptr(),
                         [count * row_bytes for count in received]).wait()
        entry.outputs = (target, received)

    def _reducescatter(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        (request,), (entry,) = requests, entries
        assert entry is not None
        group, outputs = self._groups[request.set], []
        for source in entry.inputs:
            values = source.detach().contiguous()
            if values.dtype == torch.int16 or request.prescale != 1.0:
                values = values.to(torch.int32) if values.dtype == torch.int16 else values.clone()
            _scale(values, request.prescale)
            rows, width = first_rows(source.shape[0], group.size), math.prod(source.shape[1:])
            target = torch.empty((rows[group.rank], *source.shape[1:]), dtype=values.dtype)
            op, factor = _reduction(request, values.dtype, group.size)
            group.reduce_scatter(values.data_ptr(), target.data_ptr(), [count * width for count in rows], _TYPES[values.dtype], op).wait()
            _scale(target, factor)
            outputs.append(target.to(source.dtype))
        entry.outputs = tuple(outputs)

    def _nothing(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        """All ranks have agreed, which is all."""

    def _join(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        assert entries[0] is not None
        entries[0].outputs = own[0]

    def _add_set(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        """`own`: the new set's number, its ranks and their addresses."""
        number, members, addresses = own
        assert entries[0] is not None
        self.sets[number] = members
        if self._rank in members:
            endpoint = entries[0].inputs[0]
            self._groups[number] = make_group(endpoint, members.index(self._rank), addresses, f"process set {number}")
        entries[0].outputs = number

    def _remove_set(self, requests: List[Request], entries: List[Optional[Entry]], own: List[Any]) -> None:
        number = requests[0].root
        del self.sets[number]
        if number in self._groups:
            self._groups.pop(number).leave(10)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor, its own if it is contiguous."""
    return tensor.contiguous().view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def make_group(endpoint: runtime.Endpoint, rank: int, addresses: Sequence[str], name: str) -> runtime.Group:
    return runtime.Group(endpoint, rank, addresses, stall_timeout=float(os.environ.get("DLFLOW_STALL_TIMEOUT", 60)), name=name)
