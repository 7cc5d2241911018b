"""What DistributedOptimizer and collectives take as `compression`, for tensors of any framework."""

from __future__ import annotations

from typing import Any, Tuple


class Compressor:
    """Scripts may have their own."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """What is sent, and what decompress() has to know."""
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
