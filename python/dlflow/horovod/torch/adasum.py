"""Adasum: a sum of gradients that adds orthogonal components and averages parallel ones.

    adasum(a, b) = (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b

for two ranks; for more, the adasum of the adasums of both halves of the ranks. For parallel gradients of equal length it is their mean,
for orthogonal ones their sum. Each tensor has its own factors.

A rank exchanges with the one whose number differs in one bit, the lowest first, so after log2(P) exchanges each has the whole. Both
compute from the same operands in the same order: all ranks have the same bits.

Source: Maleki et al., Scaling Distributed Training with Adaptive Summation, MLSys 2021.
"""

from __future__ import annotations

import sys
from typing import List

import torch

from dlflow import runtime

_TAG = 0
_TINY = sys.float_info.min ** 0.5  # smaller squared norms count as zero: the quotient would be meaningless


def combine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """adasum(a, b) of float64 vectors."""
    product, a_squared, b_squared = (float(torch.dot(x, y)) for x, y in ((a, b), (a, a), (b, b)))
    a_factor = 1 - product / (2 * a_squared) if a_squared >= _TINY else 1.0
    b_factor = 1 - product / (2 * b_squared) if b_squared >= _TINY else 1.0
    return a_factor * a + b_factor * b


def adasum(group: runtime.Group, values: torch.Tensor, counts: List[int]) -> None:
    """Replaces contiguous `values`, tensors of `counts` elements one after the other, by their adasum over the ranks of `group`, whose
    number P is a power of two. Collective. Sends all values log2(P) times."""
    others = torch.empty_like(values)
    size = values.numel() * values.element_size()
    distance = 1
    while distance < group.size:
        partner = group.rank ^ distance
        works = [group.send(values.data_ptr(), size, partner, _TAG), group.receive(others.data_ptr(), size, partner, _TAG)]
        for work in works:
            work.wait()
        is_left = group.rank < partner
        for own, other in zip(values.split(counts), others.split(counts)):
            left, right = (own, other) if is_left else (other, own)
            own.copy_(combine(left.double(), right.double()))
        distance *= 2
