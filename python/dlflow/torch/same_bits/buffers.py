"""Buffers of modules that a forward pass changes, as the running statistics of batch normalisation.

Every virtual rank's forward pass begins with the buffers that the step began with. At the end of the step each buffer changes by the
mean of the virtual ranks' changes, weighted by their samples and added along the tree. Whole numbers, as a count of batches, must change
alike on all virtual ranks.
"""

from __future__ import annotations

import json
from typing import Any, List, NamedTuple, Sequence, Tuple

import torch
from torch import nn

from dlflow import runtime
from dlflow.torch.same_bits.agreement import gather
from dlflow.torch.same_bits.gradients import floats_at


class _Place:
    """Where a module has a buffer: an assignment may put another tensor there."""

    def __init__(self, name: str, module: nn.Module, key: str):
        self.name, self._module, self._key = name, module, key
        self.start = self.tensor.detach().clone()  # as the step began
        self.mark = self.identity()

    @property
    def tensor(self) -> torch.Tensor:
        return self._module._buffers[self._key]

    def identity(self) -> Tuple[int, int]:
        """Another one after every change."""
        tensor = self.tensor
        return id(tensor), tensor._version

    def is_marked_changed(self) -> bool:
        return self.identity() != self.mark

    def has_changed(self) -> bool:
        """Also by batch normalisation, which leaves no mark on its running statistics."""
        return self.is_marked_changed() or not torch.equal(self.tensor, self.start)


class _Tracked(NamedTuple):
    place: _Place
    deltas: Sequence[torch.Tensor]  # of a leaf, float32: the change and, of whole numbers, its square
    sums: Sequence[torch.Tensor]  # their means over the virtual ranks


class Buffers:
    """The buffers of `model`, and the numbers of a step that travel with them: `numbers` of each leaf, which are added."""

    def __init__(self, group: runtime.Group, model: nn.Module, virtual_ranks: int, numbers: int):
        self._group, self._virtual_ranks = group, virtual_ranks
        self._places = [_Place(f"{path}.{key}" if path else key, module, key) for path, module in model.named_modules()
                        for key, buffer in module._buffers.items() if buffer is not None]
        self._tracked: List[_Tracked] = []
        self._numbers = torch.zeros(numbers)
        self._sum: Any = None

    def begin_step(self) -> None:
        with torch.no_grad():
            for place in self._places:
                if self._sum is None:
                    place.start = place.tensor.detach().clone()
                place.mark = place.identity()
            for place, _, _ in self._tracked:
                place.start.copy_(place.tensor)

    def agree(self) -> None:
        """After the first forward pass of this process: all ranks learn which buffers such a pass changes. Collective, once."""
        if self._sum is not None:
            return
        names = set()
        for text in gather(self._group, json.dumps([place.name for place in self._places if place.has_changed()])):
            names.update(json.loads(text))
        tracked = [place for place in self._places if place.name in names]
        self._places = [place for place in self._places if place.name not in names]
        parts: List[List[torch.Tensor]] = []
        for place in tracked:
            if place.tensor.is_complex():
                raise TypeError(f"exact: the forward pass changes the buffer {place.name} of {place.tensor.dtype}; only real ones are summed")
            count = 1 if place.tensor.is_floating_point() else 2
            parts.append([torch.zeros(place.tensor.shape) for _ in range(count)])
        self._open(tracked, parts)

    def _open(self, tracked: Sequence[_Place], parts: Sequence[Sequence[torch.Tensor]]) -> None:
        """Makes the sum of the numbers and the changes, one after the other."""
        deltas = [delta for of_place in parts for delta in of_place]
        count = self._numbers.numel() + sum(delta.numel() for delta in deltas)
        self._sum, self._count = runtime.LeafSum(self._group, self._virtual_ranks, count), count
        self._result = floats_at(self._sum.result, count)
        self._number_pieces = (runtime.Piece * 1)(runtime.Piece(0, self._numbers.numel(), self._numbers.data_ptr()))
        self._delta_pieces, first = (runtime.Piece * len(deltas))(), self._numbers.numel()
        for piece, delta in zip(self._delta_pieces, deltas):
            piece.first, piece.count, piece.data = first, delta.numel(), delta.data_ptr()
            first += delta.numel()
        self._zeros = (runtime.Piece * 1)(runtime.Piece(0, count, None))
        first = self._numbers.numel()
        for place, of_place in zip(tracked, parts):
            sums = []
            for delta in of_place:
                sums.append(self._result[first:first + delta.numel()].view(delta.shape))
                first += delta.numel()
            self._tracked.append(_Tracked(place, of_place, sums))

    def take(self, leaf: int, weight: float, numbers: Sequence[float]) -> None:
        """The forward pass of `leaf` is over: its changes and numbers become part of the sum; the buffers are as before."""
        for place in self._places:
            if place.is_marked_changed():
                raise runtime.InvalidInput(f"exact: a forward pass changed the buffer {place.name}, which the first one did not; "
                                           "buffers must change in every step or in none")
        self._numbers.copy_(torch.tensor(numbers))
        with torch.no_grad():
            for place, deltas, _ in self._tracked:
                if len(deltas) == 1:
                    torch.sub(place.tensor, place.start, out=deltas[0])
                else:
                    torch.sub(place.tensor.float(), place.start.float(), out=deltas[0])
                    torch.mul(deltas[0], deltas[0], out=deltas[1])
                place.tensor.copy_(place.start)
        self._sum.add(leaf, 1.0, self._number_pieces)
        self._sum.add(leaf, weight, self._delta_pieces)

    def take_nothing(self, leaves: Sequence[int]) -> None:
        """Of leaves without samples."""
        for leaf in leaves:
            self._sum.add(leaf, 0.0, self._zeros)

    def finish(self) -> List[float]:
        """Changes the buffers. Returns the sums of the numbers. Collective."""
        self._sum.start(0, self._count).wait()
        with torch.no_grad():
            for place, _, sums in self._tracked:
                if len(sums) == 1:
                    torch.add(place.start, sums[0].to(place.start.dtype), out=place.tensor)
                else:
                    self._change_whole_numbers(place, *sums)
        return self._result[:self._numbers.numel()].tolist()

    def _change_whole_numbers(self, place: _Place, mean: torch.Tensor, square: torch.Tensor) -> None:
        if bool(((square - mean * mean).abs() > 1e-3 * square.clamp(min=1)).any()):
            raise runtime.InvalidInput(f"exact: the buffer {place.name} of {place.start.dtype} did not change by the same on all virtual "
                                       "ranks; make it depend on nothing but the number of steps, or keep it as floats, which are averaged")
        place.tensor.copy_((place.start.float() + mean).round() if place.start.dtype == torch.bool else place.start + mean.round().to(place.start.dtype))
