"""Collectives of tensors by name. The module has Horovod's name, because scripts import from it; no MPI is used.

A function with `_async` returns a handle at once, for synchronize(). A trailing `_` means in place. A tensor without a name gets one
from a counter, so ranks must submit such tensors in the same order.
"""

from __future__ import annotations

import functools
from typing import Any, Optional, Type

import torch

from dlflow import _cuda, runtime
from dlflow.horovod import basics
from dlflow.horovod.agreement import Request
from dlflow.horovod.basics import (Adasum, Average, Sum, context, is_initialized, local_rank, local_size, nccl_built, op_of, rank, shutdown,
                                   size)
from dlflow.horovod.session import Entry
from dlflow.horovod.torch.compression import Compression, Compressor
from dlflow.horovod.torch.execution import Execution

__all__ = ["Adasum", "Average", "Sum", "is_initialized", "local_rank", "local_size", "nccl_built", "rank", "shutdown", "size"]

init = functools.partial(basics.init, Execution)


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _type_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype)[6:]


def _submit(kind: str, tensor: torch.Tensor, in_place: bool, name: Optional[str], **details: Any) -> Entry:
    """Starts the operation, which `details` describe like Request; returns its handle."""
    what = f"{kind} of {name or 'a tensor'}"
    is_on_device = _cuda.is_on_device(tensor)
    if tensor.device.type != "cpu" and not is_on_device:
        raise ValueError(f"{what}: the tensor is on {tensor.device}; dlflow's Horovod interface is for tensors on CPUs and CUDA devices")
    if tensor.layout != torch.strided:
        raise NotImplementedError(f"{what}: the tensor is sparse; make it dense by to_dense(), and an embedding by sparse=False")
    request = Request(kind, f"{kind}.{name or context().made_up_name(kind)}", _type_name(tensor), tuple(tensor.shape),
                      device="cuda" if is_on_device else "cpu", **details)
    target = tensor if in_place else torch.empty_like(tensor, memory_format=torch.contiguous_format)
    entry = Entry(request, tensor, target, _cuda.when_ready(tensor) if is_on_device else None)
    context().session.submit(entry)
    return entry


def synchronize(handle: Entry) -> torch.Tensor:
    """Waits for the operation and returns its output."""
    return context().session.wait(handle)


def _allreduce(tensor: torch.Tensor, in_place: bool, average: Optional[bool], name: Optional[str], op: Optional[int],
               prescale_factor: float, postscale_factor: float) -> Entry:
    operation = op_of(op, average)
    if _type_name(tensor) not in runtime.TYPES:
        raise ValueError(f"allreduce of {name or 'a tensor'}: {tensor.dtype} cannot be reduced; {', '.join(runtime.TYPES)} can")
    if operation == Adasum and not _is_power_of_two(size()):
        raise NotImplementedError(f"Adasum is for 2, 4, 8, ... ranks; these are {size()}")
    if operation == Adasum and not tensor.dtype.is_floating_point:
        raise ValueError("Adasum is for tensors of floats")
    return _submit("allreduce", tensor, in_place, name, op=operation.name.lower(), prescale=float(prescale_factor),
                   postscale=float(postscale_factor))


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Entry:
    return _allreduce(tensor, False, average, name, op, prescale_factor, postscale_factor)


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Entry:
    return _allreduce(tensor, True, average, name, op, prescale_factor, postscale_factor)


def allreduce_(*args: Any, **kwargs: Any) -> torch.Tensor:
    return synchronize(allreduce_async_(*args, **kwargs))


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], *how: Any) -> torch.Tensor:
        ctx.how = how
        return synchronize(allreduce_async(tensor, None, name, *how))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return synchronize(allreduce_async(gradients[0], None, None, *ctx.how)), None, None, None, None


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Type[Compressor] = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0) -> torch.Tensor:
    """Gradients flow back through it."""
    sent, ctx = compression.compress(tensor)
    return compression.decompress(_Allreduce.apply(sent, name, op_of(op, average), prescale_factor, postscale_factor), ctx)


def _broadcast(tensor: torch.Tensor, in_place: bool, root_rank: int, name: Optional[str]) -> Entry:
    if not 0 <= root_rank < size():
        raise ValueError(f"rank {rank()}: broadcast from rank {root_rank}, but the ranks are 0 to {size() - 1}")
    return _submit("broadcast", tensor, in_place, name, root=root_rank)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> Entry:
    return _broadcast(tensor, False, root_rank, name)


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> Entry:
    return _broadcast(tensor, True, root_rank, name)


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    if tensor.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError("no gradient flows through hvd.broadcast(): give it tensor.detach(), or use "
                                  "torch.distributed.nn.functional.broadcast()")
    return synchronize(broadcast_async(tensor, root_rank, name))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    return synchronize(broadcast_async_(tensor, root_rank, name))


def barrier() -> None:
    """Returns once all ranks have called it."""
    allreduce(torch.zeros(1), name="barrier")
