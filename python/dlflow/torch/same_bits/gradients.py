"""Gradients of the virtual ranks, summed along one tree over their numbers (runtime.LeafSum), while the last backward pass still runs.

A virtual rank's backward pass leaves its gradients in `grad`. They are then added, times the virtual rank's share of the samples, to the
vector of its leaf, and `grad` is None again. In the last backward pass of a process, a hook notices each gradient: as soon as a bucket
is complete, and the user's hooks have changed its gradients, its sum over all processes begins. Buckets begin in the same order on all
ranks, the last layers first.
"""

from __future__ import annotations

import ctypes
from typing import Any, List, NamedTuple, Sequence, Tuple

import torch

from dlflow import runtime

BUCKET_BYTES = 1 << 20
_LINE = 16  # floats of a cache line: each gradient starts at one
TYPES = (torch.float32, torch.float16, torch.bfloat16)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill a piece of memory, in any order."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _strides(parameter: torch.Tensor) -> Tuple[int, ...]:
    """The gradient's strides, which PyTorch copies from its parameter."""
    return parameter.stride() if _is_dense(parameter) else torch.empty(parameter.shape, device="meta").stride()


def floats_at(address: int, count: int) -> torch.Tensor:
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def _array(pieces: Any, first: int, count: int) -> Any:
    """A part of an array of pieces, in the same memory."""
    return (runtime.Piece * count).from_buffer(pieces, first * ctypes.sizeof(runtime.Piece))


class _Bucket(NamedTuple):
    """Neighbours in the layout that travel together."""
    indices: range
    first: int
    count: int
    pieces: Any
    zeros: Any


class GradientSum:
    """The sum over all virtual ranks of their gradients and reports; collective."""

    def __init__(self, group: runtime.Group, named_parameters: Sequence[Tuple[str, torch.Tensor]], virtual_ranks: int):
        named = list(reversed(named_parameters))  # the order of the backward pass
        self.names, self._parameters = [name for name, _ in named], [parameter for _, parameter in named]
        self._strides = [_strides(parameter) for parameter in self._parameters]
        self._as_is = [parameter.dtype == torch.float32 for parameter in self._parameters]
        offsets = [0]
        for parameter in self._parameters:
            offsets.append(offsets[-1] + -(-parameter.numel() // _LINE) * _LINE)
        self._offsets = offsets
        self._sum = runtime.LeafSum(group, virtual_ranks, max(1, offsets[-1]))
        self.leaves = self._sum.leaves
        result = floats_at(self._sum.result, max(1, offsets[-1]))
        self._views = [result.as_strided(parameter.shape, strides, offset)
                       for parameter, strides, offset in zip(self._parameters, self._strides, offsets)]
        self._pieces, self._zeros = self._make_pieces(), self._make_pieces()
        self._buckets = self._make_buckets(BUCKET_BYTES)
        self._bucket_of = [number for number, bucket in enumerate(self._buckets) for _ in bucket.indices]
        self._hooks = [self._hook(index, parameter) for index, parameter in enumerate(self._parameters)]
        self._last = False  # whether this process's last backward pass in a step runs
        self._leaf, self._weight = 0, 0.0
        self._missing: List[int] = []  # number of missing gradients, by bucket
        self._seen = [False] * len(self._parameters)
        self._started: List[runtime.Work] = []
        self._used = [0.0] * len(self._parameters)  # by parameter: 1 if the leaf has a gradient

    def _make_pieces(self) -> Any:
        pieces = (runtime.Piece * len(self._parameters))()
        for piece, parameter, offset in zip(pieces, self._parameters, self._offsets):
            piece.first, piece.count = offset, parameter.numel()
        return pieces

    def _make_buckets(self, max_bytes: int) -> List[_Bucket]:
        bounds = [0]
        for index in range(len(self._parameters)):
            if index > bounds[-1] and 4 * (self._offsets[index + 1] - self._offsets[bounds[-1]]) > max_bytes:
                bounds.append(index)
        bounds.append(len(self._parameters))
        return [_Bucket(range(begin, end), self._offsets[begin], self._offsets[end] - self._offsets[begin],
                        _array(self._pieces, begin, end - begin), _array(self._zeros, begin, end - begin))
                for begin, end in zip(bounds, bounds[1:]) if end > begin]

    def _hook(self, index: int, parameter: torch.Tensor) -> Any:
        """Calls _ready once `grad` is set. Returns an object that must stay alive."""
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            return parameter.register_post_accumulate_grad_hook(lambda _: self._ready(index))
        with torch.enable_grad():
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_: self._ready(index))
        return node

    def begin_leaf(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def begin_step(self) -> None:
        self._started = []
        self._missing = [len(bucket.indices) for bucket in self._buckets]
        self._seen = [False] * len(self._parameters)

    def backward(self, loss: torch.Tensor, leaf: int, weight: float, is_last: bool) -> None:
        """Runs the backward pass of `leaf`, whose share of the samples is `weight`."""
        self._leaf, self._weight, self._last = leaf, weight, is_last
        try:
            loss.backward()
        finally:
            self._last = False
        if is_last:
            self._start_all()
        else:
            self._take(range(len(self._parameters)), self._pieces)

    def _take(self, indices: range, pieces: Any) -> None:
        """Adds the gradients of the leaf to the sum."""
        kept = []
        for index, piece in zip(indices, pieces):
            gradient = self._parameters[index].grad
            self._used[index] = 0.0 if gradient is None else 1.0
            if gradient is None:
                piece.data = None
                continue
            if gradient.layout != torch.strided:
                raise TypeError(f"exact: the gradient of {self.names[index]} is sparse; use dense ones (sparse=False)")
            if not self._as_is[index] or gradient.stride() != self._strides[index]:
                gradient = torch.empty_strided(gradient.shape, self._strides[index], dtype=torch.float32).copy_(gradient)
                kept.append(gradient)
            piece.data = gradient.data_ptr()
        self._sum.add(self._leaf, self._weight, pieces)

    def _ready(self, index: int) -> None:
        if not self._last:
            return
        bucket = self._bucket_of[index]
        if self._seen[index]:
            if bucket < len(self._started):
                raise RuntimeError(f"exact: the gradient of {self.names[index]} comes in several parts, one of them late; where "
                                   "torch.utils.checkpoint is used, give use_reentrant=False")
            return
        # Buckets begin one gradient late, because the user's hooks on the current one have yet to run.
        while len(self._started) < len(self._buckets) and self._missing[len(self._started)] == 0:
            self._start_next()
        self._seen[index] = True
        self._missing[bucket] -= 1

    def _start_next(self) -> None:
        bucket = self._buckets[len(self._started)]
        self._take(bucket.indices, bucket.pieces)
        for leaf in range(self._leaf + 1, self.leaves.stop):  # without samples in this step
            self._sum.add(leaf, 0.0, bucket.zeros)
        self._started.append(self._sum.start(bucket.first, bucket.count))

    def _start_all(self) -> None:
        while len(self._started) < len(self._buckets):
            self._start_next()

    def start_without_samples(self) -> None:
        """Called in a step in which no virtual rank of this process has samples."""
        for leaf in self.leaves:
            self._sum.add(leaf, 0.0, self._zeros)
        self._started = [self._sum.start(bucket.first, bucket.count) for bucket in self._buckets]

    def used(self) -> List[float]:
        """For the leaf of the last backward pass: 1 for each parameter with a gradient."""
        return list(self._used)

    def finish(self, used: Sequence[float]) -> None:
        """Sets each `grad` to the sum, or to None if no virtual rank has one; `used`: the number that have one."""
        for work in self._started:
            work.wait()
        for parameter, view, as_is, count in zip(self._parameters, self._views, self._as_is, used):
            parameter.grad = None if count == 0 else view if as_is else view.to(parameter.dtype)
