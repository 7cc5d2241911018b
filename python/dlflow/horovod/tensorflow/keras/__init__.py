"""`import horovod.tensorflow.keras as hvd`: Horovod's interface for Keras on TensorFlow."""

from typing import NoReturn

from dlflow.horovod.basics import refuse
from dlflow.horovod.tensorflow import (INSTEAD, Average, Compression, DistributedOptimizer, HorovodInternalError, Sum, allreduce, broadcast,
                                       init, is_initialized, local_rank, local_size, nccl_built, rank, shutdown, size)
from dlflow.horovod.tensorflow.keras import callbacks

__all__ = ["Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "Sum", "allreduce", "broadcast", "callbacks", "init",
           "is_initialized", "local_rank", "local_size", "nccl_built", "rank", "shutdown", "size"]


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, name, INSTEAD)
