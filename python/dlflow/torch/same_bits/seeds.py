"""Random numbers that depend only on a key (seed, epoch, step, virtual rank)."""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
from typing import Any, Iterator

import torch


def seed_of(*key: Any) -> int:
    """A non-negative seed of 63 bits."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "little") >> 1


def seed(*key: Any) -> None:
    """Seeds the CPU generators of PyTorch, of Python and, if it is loaded, of NumPy."""
    number = seed_of(*key)
    torch.default_generator.manual_seed(number)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)


@contextlib.contextmanager
def seeded(*key: Any) -> Iterator[None]:
    """Seeds the generators within the block, and restores them afterwards."""
    torch_state, python_state, numpy = torch.default_generator.get_state(), random.getstate(), sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    seed(*key)
    try:
        yield
    finally:
        torch.default_generator.set_state(torch_state)
        random.setstate(python_state)
        if numpy is not None and numpy_state is not None:
            numpy.random.set_state(numpy_state)
