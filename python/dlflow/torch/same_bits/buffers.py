"""Buffers of modules that a forward pass changes, such as the running statistics of batch normalisation.

Every virtual rank's forward pass starts with the buffers from the beginning of the step. At the end of the step each buffer changes by
the mean of the virtual ranks' changes, weighted by their samples and added along the tree. Integers, such as a count of batches, must
change equally on all virtual ranks.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch import nn

from dlflow import runtime
from dlflow.torch.same_bits.agreement import gather
from dlflow.torch.same_bits.gradients import floats_at


_LEAST = -2**63  # of int64


class _Place:
    """The place of a buffer in a module: an assignment may replace its tensor."""

    def __init__(self, name: str, module: nn.Module, key: str):
        self.name, self._module, self._key = name, module, key
        self.is_statistic = isinstance(module, nn.modules.batchnorm._NormBase)  # changes, unless the module is temporarily in eval()
        self.start = self.tensor.detach().clone()  # value at the beginning of the step
        self.mark = self.identity()

    @property
    def tensor(self) -> torch.Tensor:
        return self._module._buffers[self._key]

    def identity(self) -> Tuple[int, int]:
        """Differs after every change."""
        tensor = self.tensor
        return id(tensor), tensor._version

    def is_marked_changed(self) -> bool:
        return self.identity() != self.mark

    def has_changed(self) -> bool:
        """Also detects batch normalisation, which does not increase the version of its running statistics."""
        return self.is_marked_changed() or not torch.equal(self.tensor, self.start)

    def restore(self) -> None:
        self.tensor.copy_(self.start)


def _numbers(tensor: torch.Tensor) -> List[int]:
    return [int(number) for number in tensor.reshape(-1).tolist()]


class Buffers:
    """The buffers of `model`, and `numbers` values of each leaf that are summed with them in each step."""

    def __init__(self, group: runtime.Group, model: nn.Module, virtual_ranks: int, numbers: int):
        self._group, self._virtual_ranks, self._num_given = group, virtual_ranks, numbers
        self._others = [_Place(f"{path}.{key}" if path else key, module, key) for path, module in model.named_modules()
                        for key, buffer in module._buffers.items() if buffer is not None]
        self._real: List[_Place] = []  # floating-point buffers that change
        self._whole: List[_Place] = []
        self._sum: Any = None

    def begin_step(self) -> None:
        with torch.no_grad():
            for place in self._others:
                if self._sum is None:
                    place.start = place.tensor.detach().clone()
                place.mark = place.identity()
            for place in self._real + self._whole:
                place.start.copy_(place.tensor)
        self._begin_whole()

    def _begin_whole(self) -> None:
        self._starts = [_numbers(place.start) for place in self._whole]
        self._limits = [_LEAST] * (2 * sum(map(len, self._starts)))  # the greatest changes, then the greatest negated ones

    def agree(self) -> None:
        """Called after this process's first forward pass: all ranks agree on the buffers that such a pass changes. Collective, once."""
        if self._sum is not None:
            return
        names: Dict[str, None] = {}
        for text in gather(self._group, json.dumps([place.name for place in self._others if place.is_statistic or place.has_changed()])):
            names.update(dict.fromkeys(json.loads(text)))
        tracked = [place for place in self._others if place.name in names]
        self._others = [place for place in self._others if place.name not in names]
        for place in tracked:
            if place.start.is_complex():
                raise TypeError(f"exact: the forward pass changes the buffer {place.name} of {place.start.dtype}; keep its real and its "
                                "imaginary part as two buffers")
        self._real = [place for place in tracked if place.start.is_floating_point()]
        self._whole = [place for place in tracked if not place.start.is_floating_point()]
        self._begin_whole()
        self._open()

    def _open(self) -> None:
        """Lays out a leaf's vector: the given numbers, then the changes of real buffers."""
        self._numbers = torch.zeros(self._num_given)
        first = self._numbers.numel()
        self._number_pieces = (runtime.Piece * 1)(runtime.Piece(0, first, self._numbers.data_ptr()))
        self._change_pieces = (runtime.Piece * len(self._real))()
        for place, piece in zip(self._real, self._change_pieces):
            piece.first, piece.count = first, place.start.numel()
            first += place.start.numel()
        self._count = first
        self._zeros = (runtime.Piece * 1)(runtime.Piece(0, self._count, None))
        self._sum = runtime.LeafSum(self._group, self._virtual_ranks, self._count)
        self._result = floats_at(self._sum.result, self._count)
        self._means = [self._result[piece.first:piece.first + piece.count].view(place.start.shape)
                       for place, piece in zip(self._real, self._change_pieces)]

    def take(self, leaf: int, weight: float, numbers: Sequence[float]) -> None:
        """Called after the forward pass of `leaf`: adds its changes and numbers to the sum, and restores the buffers."""
        for place in self._others:
            if place.is_marked_changed():
                raise runtime.InvalidInput(f"exact: a forward pass changed the buffer {place.name}, which the first one did not; "
                                           "buffers must change in every step or in none")
        changes = [now - start for place, starts in zip(self._whole, self._starts) for now, start in zip(_numbers(place.tensor), starts)]
        self._limits = [max(pair) for pair in zip(self._limits, [*changes, *(-change for change in changes)])]
        self._numbers.copy_(torch.tensor(numbers))
        self._sum.add(leaf, 1.0, self._number_pieces)
        with torch.no_grad():
            if self._real:
                kept = [change.float().contiguous() for change in
                        torch._foreach_sub([place.tensor for place in self._real], [place.start for place in self._real])]
                for piece, change in zip(self._change_pieces, kept):
                    piece.data = change.data_ptr()
                self._sum.add(leaf, weight, self._change_pieces)
            for place in self._averaged() + self._whole:
                place.restore()

    def _averaged(self) -> List[_Place]:
        """Real buffers to be averaged. A single virtual rank keeps those of its forward pass, to the last bit."""
        return self._real if self._virtual_ranks > 1 else []

    def take_nothing(self, leaves: Sequence[int]) -> None:
        """For leaves without samples."""
        for leaf in leaves:
            self._sum.add(leaf, 0.0, self._zeros)

    def finish(self) -> List[float]:
        """Changes the buffers. Returns the sums of the given numbers. Collective."""
        self._sum.start(0, self._count).wait()
        greatest, least = self._agreed_changes()
        with torch.no_grad():
            for place, mean in zip(self._averaged(), self._means):
                place.tensor.copy_(place.start + mean.to(place.start.dtype))
            first = 0
            for place, starts in zip(self._whole, self._starts):
                part = slice(first, first + len(starts))
                self._change_whole(place, starts, greatest[part], least[part])
                first += len(starts)
        return [float(number) for number in self._result[:self._num_given].tolist()]

    def _agreed_changes(self) -> Tuple[List[int], List[int]]:
        """The greatest and the least change of each integer, over all virtual ranks."""
        limits = torch.tensor(self._limits, dtype=torch.int64)
        if self._limits:
            self._group.all_reduce(limits.data_ptr(), limits.numel(), runtime.Type.I64, runtime.Op.MAX).wait()
        half = limits.numel() // 2
        return limits[:half].tolist(), (-limits[half:]).tolist()

    def _change_whole(self, place: _Place, starts: Sequence[int], greatest: Sequence[int], least: Sequence[int]) -> None:
        if greatest != least:
            raise runtime.InvalidInput(f"exact: the buffer {place.name} of {place.start.dtype} did not change by the same amount on all virtual ranks; make it depend on nothing but the number of steps, or keep it as floats, which are averaged")
        numbers = [start + change for start, change in zip(starts, greatest)]
        place.tensor.copy_(torch.tensor(numbers).view(place.start.shape))
