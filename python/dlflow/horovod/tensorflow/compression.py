"""Compression of gradients for transfer: none, or 16-bit floats."""

from __future__ import annotations

from typing import Any, Tuple, Type

import tensorflow as tf

from dlflow.horovod.common.compression import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Floats travel as 16-bit floats."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        return (tf.cast(tensor, tf.float16) if tensor.dtype.is_floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tf.cast(tensor, ctx)


class Compression:
    none: Type[Compressor] = NoneCompressor
    fp16: Type[Compressor] = FP16Compressor
