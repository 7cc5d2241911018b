"""The `compression` argument of DistributedOptimizer and collectives, for tensors of any framework."""

from __future__ import annotations

from typing import Any, Tuple


class Compressor:
    """The base class; scripts may define their own."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """Returns the data to send, and the context for decompress()."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        raise NotImplementedError


class NoneCompressor(Compressor):
    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor
