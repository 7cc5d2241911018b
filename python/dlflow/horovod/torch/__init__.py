"""`import horovod.torch as hvd`: Horovod's interface for PyTorch, on dlflow's runtime. docs/user/porting-from-horovod.md."""

from typing import NoReturn

from dlflow.horovod.basics import refuse
from dlflow.horovod.common.exceptions import HorovodInternalError
from dlflow.horovod.torch import elastic
from dlflow.horovod.torch.compression import Compression
from dlflow.horovod.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from dlflow.horovod.torch.mpi_ops import (Adasum, Average, Sum, allreduce, allreduce_, allreduce_async, allreduce_async_, barrier,
                                          broadcast, broadcast_, broadcast_async, broadcast_async_, init, is_initialized, local_rank,
                                          local_size, nccl_built, rank, shutdown, size, synchronize)
from dlflow.horovod.torch.optimizer import DistributedOptimizer

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "Sum", "allreduce", "allreduce_",
           "allreduce_async", "allreduce_async_", "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_",
           "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "elastic", "init", "is_initialized", "local_rank",
           "local_size", "nccl_built", "rank", "shutdown", "size", "synchronize"]

# Horovod's other names, and their replacements.
_INSTEAD = {r"(grouped_)?allgather(_async)?": "torch.distributed.all_gather()",
            r"allgather_object": "torch.distributed.all_gather_object()",
            r"alltoall(_async)?": "torch.distributed.all_to_all_single()",
            r"(grouped_)?reducescatter(_async)?": "torch.distributed.reduce_scatter()",
            r"grouped_allreduce(_async)?_?": "hvd.allreduce_async_() of each tensor, which are sent together",
            r"sparse_allreduce_async": "hvd.allreduce() of tensor.to_dense()",
            r"poll": "hvd.synchronize()",
            r"join": "torch.distributed.algorithms.join.Join",
            r"Min|Max|Product": "torch.distributed.all_reduce() with its ReduceOp",
            r"ProcessSet|global_process_set|(add|remove)_process_set": "torch.distributed.new_group()",
            r"SyncBatchNorm": "torch.nn.SyncBatchNorm, on GPUs",
            r"(start|stop)_timeline": "torch.profiler.profile",
            r"cross_rank|cross_size|is_homogeneous": "hvd.rank(), size(), local_rank() and local_size()",
            r"\w+_(built|enabled)|mpi_threads_supported": "torch.distributed.is_mpi_available() and the like"}


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, name, _INSTEAD)
