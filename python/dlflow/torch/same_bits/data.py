"""The samples of each step, divided into leaves, one for each virtual rank; they do not depend on the process that loads them."""

from __future__ import annotations

import array
import hashlib
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

import torch
from torch.utils import data

from dlflow.torch.same_bits.seeds import seed_of, seeded


class Leaf(NamedTuple):
    """The samples of one virtual rank in one step."""
    epoch: int
    step: int
    number: int  # of the virtual rank
    indices: List[Any]


def leaf_sizes(samples: int, batch: int, leaves: int) -> List[int]:
    """Divides the `samples` of a step, at most `batch`. Leaves are filled to their usual size one after the other; less than half a leaf
    is added to the previous one, so that no leaf has too few samples for a meaningful mean and variance."""
    usual = [batch * (number + 1) // leaves - batch * number // leaves for number in range(leaves)]
    sizes = []
    for number, size in enumerate(usual):
        taken = min(size, samples - sum(sizes))
        if 0 < 2 * taken < size and number > 0:
            sizes[-1] += taken
            taken = 0
        sizes.append(taken)
    return sizes


class _Samples(data.Dataset):
    """Loads a leaf: its random numbers depend only on (seed, epoch, step, virtual rank), not on the process."""

    def __init__(self, dataset: Any, collate: Any, seed: int):
        self._dataset, self._collate, self._seed = dataset, collate, seed

    def __getitem__(self, leaf: Leaf) -> Any:
        with seeded(self._seed, "samples", leaf.epoch, leaf.step, leaf.number):
            if getattr(self._dataset, "__getitems__", None):
                return self._collate(self._dataset.__getitems__(leaf.indices))
            return self._collate([self._dataset[index] for index in leaf.indices])


class _Order(data.Sampler):
    """The leaves that a DataLoader loads next: set before each epoch."""

    def __init__(self) -> None:
        self.leaves: Sequence[Leaf] = ()

    def __iter__(self) -> Iterator[Leaf]:
        return iter(self.leaves)

    def __len__(self) -> int:
        return len(self.leaves)


def _itself(value: Any) -> Any:
    return value


def require_supported(loader: data.DataLoader, virtual_ranks: int) -> None:
    """Raises TypeError or ValueError with an alternative."""
    if not isinstance(loader, data.DataLoader):
        raise TypeError(f"exact: the loader is a {type(loader).__name__}; give a torch.utils.data.DataLoader")
    if isinstance(loader.dataset, data.IterableDataset):
        raise TypeError("exact: the loader's dataset is an IterableDataset, whose samples have no numbers to be shared out by; "
                        "give one with __getitem__ and __len__")
    if type(loader.batch_sampler) is not data.BatchSampler:
        raise TypeError("exact: the loader has a batch_sampler of its own, or none; give batch_size and, if need be, a sampler: "
                        "exact divides the batches itself")
    if isinstance(loader.sampler, data.distributed.DistributedSampler):
        raise TypeError("exact: the loader has a DistributedSampler, which gives each rank other samples; leave it out, and give "
                        "shuffle=True: exact shares out the samples itself")
    if loader.batch_size < virtual_ranks:
        raise ValueError(f"exact: batch_size={loader.batch_size} samples cannot be divided into {virtual_ranks} virtual ranks; "
                         "batch_size counts the samples of all ranks together")


class Leaves:
    """A DataLoader's samples, epoch by epoch, in leaves."""

    def __init__(self, loader: data.DataLoader, virtual_ranks: int, seed: int):
        require_supported(loader, virtual_ranks)
        self._sampler, self._seed, self._virtual_ranks = loader.sampler, seed, virtual_ranks
        self.batch, self._drop_last, self._samples = loader.batch_size, loader.drop_last, len(loader.dataset)
        self._order = _Order()
        options: Dict[str, Any] = {"num_workers": loader.num_workers, "pin_memory": loader.pin_memory, "timeout": loader.timeout,
                                   "worker_init_fn": loader.worker_init_fn, "multiprocessing_context": loader.multiprocessing_context}
        if loader.num_workers > 0:
            options.update(prefetch_factor=loader.prefetch_factor, persistent_workers=loader.persistent_workers)
        self._loader = data.DataLoader(_Samples(loader.dataset, loader.collate_fn, seed), batch_size=None, sampler=self._order,
                                       collate_fn=_itself, generator=torch.Generator().manual_seed(seed_of(seed, "workers")), **options)

    def settings(self) -> Dict[str, Any]:
        """Everything that determines the samples of each step."""
        return {"seed": self._seed, "virtual_ranks": self._virtual_ranks, "batch_size": self.batch, "drop_last": self._drop_last,
                "samples": self._samples, "sampler": type(self._sampler).__name__}

    def order(self, epoch: int) -> List[Any]:
        """The sample numbers of an epoch in the sampler's order, with random numbers that depend on (seed, epoch)."""
        with seeded(self._seed, "order", epoch):
            if isinstance(getattr(self._sampler, "generator", None), torch.Generator):
                self._sampler.generator.manual_seed(seed_of(self._seed, "order", epoch))
            if hasattr(self._sampler, "set_epoch"):
                self._sampler.set_epoch(epoch)
            return list(self._sampler)

    def __len__(self) -> int:
        """The number of steps of an epoch."""
        samples = len(self._sampler)
        return samples // self.batch if self._drop_last else -(-samples // self.batch)

    def steps(self, epoch: int, order: Sequence[Any]) -> List[List[Leaf]]:
        """The leaves of each step of the epoch, including those without samples."""
        steps = []
        for step, first in enumerate(range(0, len(order), self.batch)):
            samples = order[first:first + self.batch]
            if len(samples) < self.batch and self._drop_last:
                break
            leaves, begin = [], 0
            for number, size in enumerate(leaf_sizes(len(samples), self.batch, self._virtual_ranks)):
                leaves.append(Leaf(epoch, step, number, list(samples[begin:begin + size])))
                begin += size
            steps.append(leaves)
        return steps

    def load(self, leaves: Sequence[Leaf]) -> Iterator[Any]:
        """The collated samples of each leaf, loaded ahead of time if the loader has workers."""
        self._order.leaves = leaves
        return iter(self._loader)


def hash_of(values: Sequence[Any]) -> str:
    try:
        content = array.array("q", values).tobytes()
    except (TypeError, OverflowError):
        content = repr(values).encode()
    return hashlib.sha256(content).hexdigest()[:16]
