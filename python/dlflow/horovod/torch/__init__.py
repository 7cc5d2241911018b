"""`import horovod.torch as hvd`: Horovod's interface for PyTorch, on dlflow's runtime. docs/user/porting-from-horovod.md."""

from dlflow.horovod.common.exceptions import HorovodInternalError
from dlflow.horovod.torch import elastic
from dlflow.horovod.torch.compression import Compression
from dlflow.horovod.torch.functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from dlflow.horovod.torch.mpi_ops import (Adasum, Average, Max, Min, ProcessSet, Product, Sum, add_process_set, allgather,
                                          allgather_async, allreduce, allreduce_, allreduce_async, allreduce_async_, alltoall,
                                          alltoall_async, barrier, broadcast, broadcast_, broadcast_async, broadcast_async_, ccl_built,
                                          cross_rank, cross_size, cuda_built, ddl_built, global_process_set, gloo_built, gloo_enabled,
                                          grouped_allgather, grouped_allgather_async, grouped_allreduce, grouped_allreduce_,
                                          grouped_allreduce_async, grouped_allreduce_async_, grouped_reducescatter,
                                          grouped_reducescatter_async, init, is_homogeneous, is_initialized, join, local_rank, local_size,
                                          mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, poll, rank, reducescatter,
                                          reducescatter_async, remove_process_set, rocm_built, shutdown, size, sparse_allreduce_async,
                                          start_timeline, stop_timeline, synchronize)
from dlflow.horovod.torch.optimizer import DistributedOptimizer
from dlflow.horovod.torch.sync_batch_norm import SyncBatchNorm

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "Max", "Min", "ProcessSet", "Product", "Sum",
           "SyncBatchNorm", "add_process_set", "allgather", "allgather_async", "allgather_object", "allreduce", "allreduce_",
           "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_", "broadcast_async",
           "broadcast_async_", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "ccl_built", "cross_rank",
           "cross_size", "cuda_built", "ddl_built", "elastic", "global_process_set", "gloo_built", "gloo_enabled", "grouped_allgather",
           "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_",
           "grouped_reducescatter", "grouped_reducescatter_async", "init", "is_homogeneous", "is_initialized", "join", "local_rank",
           "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "poll", "rank", "reducescatter",
           "reducescatter_async", "remove_process_set", "rocm_built", "shutdown", "size", "sparse_allreduce_async", "start_timeline",
           "stop_timeline", "synchronize"]
