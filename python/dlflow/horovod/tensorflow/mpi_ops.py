"""Collectives of TensorFlow's tensors by name. The module has Horovod's name, because scripts import from it; no MPI is used.

TensorFlow passes tensors as NumPy arrays to a single call per operation, which waits inside, so that two calls cannot block each other
in TensorFlow's threads. A graph makes its calls in program order.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Sequence, Type

import numpy as np
import tensorflow as tf

from dlflow import runtime
from dlflow.horovod import basics
from dlflow.horovod.agreement import Request
from dlflow.horovod.basics import Average, Sum, context, is_initialized, local_rank, local_size, nccl_built, op_of, rank, shutdown, size
from dlflow.horovod.common.exceptions import HorovodInternalError
from dlflow.horovod.session import Entry
from dlflow.horovod.tensorflow.compression import Compression, Compressor
from dlflow.horovod.tensorflow.execution import Execution

__all__ = ["Average", "Sum", "is_initialized", "local_rank", "local_size", "nccl_built", "rank", "shutdown", "size"]

init = functools.partial(basics.init, Execution)
_as_it_is = tf.autograph.experimental.do_not_convert  # a tf.function must not translate it


def _exchange(kind: str, names: Sequence[Optional[str]], details: Dict[str, Any], *arrays: np.ndarray) -> List[np.ndarray]:
    """Submits all and waits for all, even if some fail. `details` describe the operation like Request."""
    session, entries, failed = context().session, [], None
    for name, array in zip(names, arrays):
        request = Request(kind, f"{kind}.{name or context().made_up_name(kind)}", array.dtype.name, array.shape, **details)
        entries.append(Entry(request, array))
        session.submit(entries[-1])
    for entry in entries:
        try:
            session.wait(entry)
        except HorovodInternalError as error:
            failed = failed or error
    if failed:
        raise failed
    return [entry.target for entry in entries]


def run(kind: str, tensors: Sequence[Any], names: Sequence[Optional[str]], **details: Any) -> List[Any]:
    """The results of one operation for each tensor; also works in a graph. Collective."""
    context()  # without init() a graph would fail only when it runs
    for tensor, name in zip(tensors, names):
        if tensor.dtype.name not in runtime.TYPES:
            raise ValueError(f"{kind} of {name or 'a tensor'}: {tensor.dtype.name} cannot be sent; {', '.join(runtime.TYPES)} can")
    if not tensors:
        return []
    results = tf.nest.flatten(tf.numpy_function(functools.partial(_exchange, kind, names, details), list(tensors),
                                                [tensor.dtype for tensor in tensors]))
    for result, tensor in zip(results, tensors):
        result.set_shape(tensor.shape)
    return results


def reduced(tensors: Sequence[Any], names: Sequence[Optional[str]], op: Optional[int], compression: Type[Compressor],
            prescale: float = 1.0, postscale: float = 1.0) -> List[Any]:
    """The tensors, reduced over all ranks. Sparse ones become dense."""
    operation = op_of(op, None)
    if operation not in (Average, Sum):
        raise NotImplementedError(f"op={operation.name} is for PyTorch here (horovod.torch); TensorFlow has Average and Sum")
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    results = run("allreduce", [sent for sent, _ in pairs], names, op=operation.name.lower(), prescale=float(prescale),
                  postscale=float(postscale))
    return [compression.decompress(result, ctx) for result, (_, ctx) in zip(results, pairs)]


@_as_it_is
def allreduce(tensor: Any, average: Optional[bool] = None, device_dense: str = "", device_sparse: str = "",
              compression: Type[Compressor] = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, name: Optional[str] = None) -> Any:
    """Gradients flow back through it."""
    operation = op_of(op, average)

    @tf.custom_gradient
    def reduce(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            back = name and f"{name}.gradient"
            return reduced([upstream], [back], operation, compression, prescale_factor, postscale_factor)[0]
        return reduced([value], [name], operation, compression, prescale_factor, postscale_factor)[0], gradient

    return reduce(tf.convert_to_tensor(tensor))


@_as_it_is
def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """No gradient flows back through it."""
    return _from_root([tf.stop_gradient(tf.convert_to_tensor(tensor))], root_rank, [name])[0]


@_as_it_is
def broadcast_variables(variables: Sequence[Any], root_rank: int) -> None:
    """Overwrites variables by those of `root_rank`."""
    variables = list(variables)
    names = [f"variable.{number}" for number in range(len(variables))]
    for variable, value in zip(variables, _from_root([tf.convert_to_tensor(one) for one in variables], root_rank, names)):
        variable.assign(value)


def _from_root(tensors: List[Any], root_rank: int, names: Sequence[Optional[str]]) -> List[Any]:
    if not 0 <= root_rank < size():
        raise ValueError(f"rank {rank()}: broadcast from rank {root_rank}, but the ranks are 0 to {size() - 1}")
    return run("broadcast", tensors, names, root=root_rank)
