"""A sampler for several ranks that continues in the middle of an epoch, also with another number of ranks."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Optional, Sized

import torch

from dlflow import _environment


class DistributedSampler(torch.utils.data.Sampler):  # type: ignore
    """Divides a data set among ranks, like `torch.utils.data.DistributedSampler`, and keeps the position.

    An epoch has one order of the samples for any number of ranks. The used samples are the beginning of that order, so any number of
    ranks can continue after it: no sample is used twice or lost. To keep the position, take batches through `track()`.

    At the end of an epoch, collectives need equally many samples on each rank: `uneven` is `"pad"` (up to ranks - 1 samples are used
    twice), `"drop"` (as many are left out) or `"keep"` (some ranks have one sample less).
    """

    def __init__(self, dataset: Sized, num_replicas: Optional[int] = None, rank: Optional[int] = None, shuffle: bool = True, seed: int = 0,
                 uneven: str = "pad"):
        if uneven not in ("pad", "drop", "keep"):
            raise ValueError(f"uneven must be 'pad', 'drop' or 'keep', not {uneven!r}")
        self.num_replicas = _environment.ranks() if num_replicas is None else num_replicas
        self.rank = _environment.rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"there is no rank {self.rank} of {self.num_replicas}")
        self.length, self.shuffle, self.seed, self.uneven = len(dataset), shuffle, seed, uneven
        self.epoch = 0
        self.used = 0  #: samples of this epoch that all ranks together have used

    def set_epoch(self, epoch: int) -> None:
        """Call it before each epoch. The epoch of the loaded checkpoint continues at its position."""
        if epoch != self.epoch:
            self.epoch, self.used = epoch, 0

    def _order(self) -> List[int]:
        if not self.shuffle:
            return list(range(self.length))
        generator = torch.Generator()
        generator.manual_seed((self.seed * 1_000_003 + self.epoch) % 2**63)
        order: List[int] = torch.randperm(self.length, generator=generator).tolist()
        return order

    def _left(self) -> List[int]:
        """The remaining samples of this epoch, of all ranks together."""
        left = self._order()[self.used:]
        missing = -len(left) % self.num_replicas
        if self.uneven == "pad" and left:
            left += (left * missing)[:missing]
        elif self.uneven == "drop" and missing:
            left = left[:len(left) - len(left) % self.num_replicas]
        return left

    def __iter__(self) -> Iterator[int]:
        return iter(self._left()[self.rank::self.num_replicas])

    def __len__(self) -> int:
        left = self.length - self.used
        whole, rest = divmod(left, self.num_replicas)
        more = {"pad": rest > 0, "drop": False, "keep": self.rank < rest}[self.uneven]
        return whole + int(more)

    def track(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Yields the batches of a DataLoader with this sampler, to the end of the epoch; the position is then after the yielded batch.

        It counts batches rather than samples drawn, because workers prefetch.
        """
        size = getattr(loader, "batch_size", None)
        if size is None:
            raise ValueError("the loader has no batch_size: give DataLoader this sampler and batch_size=")
        begin = self.used
        for number, batch in enumerate(loader, 1):
            self.used = min(begin + number * size * self.num_replicas, self.length)
            yield batch
        self.set_epoch(self.epoch + 1)

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "used": self.used, "length": self.length, "seed": self.seed, "shuffle": self.shuffle}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        for name in ("length", "seed", "shuffle"):
            if state[name] != getattr(self, name):
                raise ValueError(f"the sampler was saved with {name} {state[name]!r}, and this one has {getattr(self, name)!r}: samples "
                                 f"would be repeated or lost; restore the saved value")
        self.epoch, self.used = state["epoch"], state["used"]
