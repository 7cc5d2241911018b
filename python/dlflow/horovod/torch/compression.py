"""Compression of gradients for transfer: none, or 16-bit floats. `dlflow.torch.compression` has methods that send less."""

from __future__ import annotations

from typing import Any, Tuple, Type

import torch

from dlflow.horovod.common.compression import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Floats travel as 16-bit floats."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        return (tensor.half() if tensor.dtype.is_floating_point else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.to(ctx)


class Compression:
    none: Type[Compressor] = NoneCompressor
    fp16: Type[Compressor] = FP16Compressor
