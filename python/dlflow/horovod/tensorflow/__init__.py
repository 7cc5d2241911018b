"""`import horovod.tensorflow as hvd`: Horovod's interface for TensorFlow 2, on dlflow's runtime. docs/user/porting-from-horovod.md."""

from typing import NoReturn

from dlflow.horovod.basics import refuse
from dlflow.horovod.common.exceptions import HorovodInternalError
from dlflow.horovod.tensorflow.compression import Compression
from dlflow.horovod.tensorflow.gradients import DistributedGradientTape, DistributedOptimizer
from dlflow.horovod.tensorflow.mpi_ops import (Average, Sum, allreduce, broadcast, broadcast_variables, init, is_initialized, local_rank,
                                               local_size, nccl_built, rank, shutdown, size)

__all__ = ["Average", "Compression", "DistributedGradientTape", "DistributedOptimizer", "HorovodInternalError", "Sum", "allreduce",
           "broadcast", "broadcast_variables", "init", "is_initialized", "local_rank", "local_size", "nccl_built", "rank", "shutdown", "size"]

# Horovod's other names, and their replacements.
INSTEAD = {r"broadcast_(global_variables|object(_fn)?|)|BroadcastGlobalVariablesHook": "hvd.broadcast_variables() and hvd.broadcast()",
           r"grouped_allreduce": "hvd.allreduce() of each tensor",
           r"(grouped_)?(allgather|reducescatter)|allgather_object|alltoall": "tf.concat() of what hvd.broadcast() gives from each rank",
           r"Adasum|Min|Max|Product": "hvd.Average or hvd.Sum",
           r"join|barrier": "hvd.allreduce() of a number",
           r"PartialDistributed\w+|LocalGradient\w+": "hvd.DistributedGradientTape on the variables that are shared",
           r"ProcessSet|global_process_set|(add|remove)_process_set": "a step for each set of ranks",
           r"SyncBatchNormalization": "tf.keras.layers.BatchNormalization and a larger batch on each rank",
           r"elastic": "a step with `checkpoint:`, and tf.train.Checkpoint in $DLFLOW_CHECKPOINTS",
           r"(start|stop)_timeline": "tf.profiler.experimental",
           r"load_model": "tf.keras.models.load_model(), then compile() with hvd.DistributedOptimizer",
           r"cross_rank|cross_size|is_homogeneous": "hvd.rank(), size(), local_rank() and local_size()",
           r"\w+_(built|enabled)|mpi_threads_supported|gpu_available": "tf.config.list_physical_devices()"}


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, name, INSTEAD)
