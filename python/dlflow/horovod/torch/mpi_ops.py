"""Collectives of tensors by name. The module has Horovod's name, because scripts import from it; no MPI is used.

A function with `_async` gives a handle at once, for poll() and synchronize(). One with `_` at its end changes its tensor in place. A
tensor without a name gets one from a counter, so ranks must submit such tensors in the same order; join() sets the counters back.
"""

from __future__ import annotations

import enum
import itertools
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, Union

import torch

from dlflow.horovod.agreement import Request
from dlflow.horovod.common.exceptions import HorovodInternalError
from dlflow.horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from dlflow.horovod.session import Entry
from dlflow.horovod.torch import basics
from dlflow.horovod.torch.basics import (ccl_built, context, cross_rank, cross_size, cuda_built, ddl_built, gloo_built, gloo_enabled,
                                         is_homogeneous, is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
                                         mpi_threads_supported, nccl_built, rank, rocm_built, size, start_timeline, stop_timeline)
from dlflow.horovod.torch.compression import Compression, Compressor
from dlflow.horovod.torch.execution import NAMES

__all__ = ["ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built", "gloo_built", "gloo_enabled", "is_homogeneous",
           "is_initialized", "local_rank", "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "rocm_built",
           "size", "start_timeline", "stop_timeline", "add_process_set", "remove_process_set", "rank"]


class ReduceOp(enum.IntEnum):
    Average, Sum, Adasum, Min, Max, Product = range(6)


Average, Sum, Adasum, Min, Max, Product = ReduceOp

Tensors = Sequence[torch.Tensor]

_handles: Dict[int, Entry] = {}
_next_handle = itertools.count(1)


def init(*args: Any, **kwargs: Any) -> None:
    """`comm`: all ranks, or nothing; `process_sets`: a list of ProcessSet, or "dynamic". Collective."""
    basics.init(*args, **kwargs)


def shutdown() -> None:
    _handles.clear()
    basics.shutdown()


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _op_of(op: Optional[int], average: Optional[bool]) -> ReduceOp:
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if average is not None:
        warnings.warn("Parameter `average` has been replaced with `op` and will be removed in v1.0", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    return Average if op is None else ReduceOp(op)


def _check(kind: str, name: Optional[str], tensors: Tensors, reduces: bool) -> None:
    what = kind if name is None else f"{kind} of {name}"
    if not tensors:
        raise ValueError(f"{what}: the list of tensors is empty")
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise ValueError(f"{what}: the tensor is on {tensor.device}; dlflow's Horovod interface is for CPU tensors")
        if tensor.layout != torch.strided:
            raise ValueError(f"{what}: the tensor is sparse; sparse_allreduce_async() is for such")
        if reduces and str(tensor.dtype)[6:] not in NAMES:
            raise ValueError(f"{what}: tensors of {tensor.dtype} cannot be reduced; those of {', '.join(NAMES)} can")


def _submit(kind: str, tensors: Tensors, outputs: Any, name: Optional[str], process_set: ProcessSet, own: Any = None,
            **details: Any) -> Entry:
    """Starts the operation, which `details` describe like Request."""
    known = context()
    if process_set.process_set_id is None:
        raise ValueError(f"{process_set} is not known to the ranks: give it to hvd.init() or hvd.add_process_set()")
    members = known.ranks_of(process_set.process_set_id)
    if known.rank() not in members:
        raise ValueError(f"rank {known.rank()} is not part of {process_set}")
    if name is None:
        name = known.made_up_name(process_set.process_set_id, kind)
    request = Request(kind, process_set.process_set_id, f"{kind}.{name}", tuple(str(tensor.dtype)[6:] for tensor in tensors),
                      tuple(tuple(tensor.shape) for tensor in tensors), **details)
    entry = Entry(request, tuple(tensors), outputs, own)
    known.session.submit(entry)
    return entry


def _handle(entry: Entry) -> int:
    handle = next(_next_handle)
    _handles[handle] = entry
    return handle


def poll(handle: int) -> bool:
    """Whether synchronize() would return at once."""
    if handle not in _handles:
        raise ValueError(f"there is no operation with the handle {handle}; synchronize() has ended it")
    return context().session.poll(_handles[handle])


def synchronize(handle: int) -> Any:
    """Waits for the operation; its output, or a tuple of those of a grouped one. None if it was waited for before."""
    entry = _handles.get(handle)
    if entry is None:
        return None
    try:
        context().session.wait(entry)
    finally:
        _handles.pop(handle, None)
    return _result(entry)


def _result(entry: Entry) -> Any:
    """In the form in which the operation's caller expects it."""
    if entry.request.kind == "alltoall":
        output, received = entry.outputs
        return output, torch.tensor(received, dtype=torch.int32)
    if isinstance(entry.outputs, tuple) and not isinstance(entry, _Grouped):
        return entry.outputs[0]
    return entry.outputs


class _Grouped(Entry):
    """An operation on a list of tensors."""

    __slots__ = ()


def _grouped(entry: Entry) -> Entry:
    entry.__class__ = _Grouped
    return entry


# ---- allreduce ----

def _allreduce(tensors: Tensors, outputs: Tensors, name: Optional[str], op: ReduceOp, prescale_factor: float, postscale_factor: float,
               process_set: ProcessSet) -> Entry:
    _check("allreduce", name, tensors, reduces=True)
    if op == Adasum:
        if process_set.process_set_id != 0:
            raise NotImplementedError("Adasum does not support non-global process sets yet.")
        if not _is_power_of_two(size()):
            raise NotImplementedError(f"Adasum is for 2, 4, 8, ... ranks; these are {size()}")
        if not all(tensor.dtype.is_floating_point for tensor in tensors):
            raise ValueError("Adasum is for tensors of floats")
    return _submit("allreduce", tensors, tuple(outputs), name, process_set, op=op.name.lower(), prescale=float(prescale_factor),
                   postscale=float(postscale_factor))


def _like(tensors: Tensors) -> List[torch.Tensor]:
    return [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in tensors]


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> int:
    _check("allreduce", name, [tensor], reduces=True)
    return _handle(_allreduce([tensor], _like([tensor]), name, _op_of(op, average), prescale_factor, postscale_factor, process_set))


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> int:
    return _handle(_allreduce([tensor], [tensor], name, _op_of(op, average), prescale_factor, postscale_factor, process_set))


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Tuple[Any, ...], tensor: torch.Tensor) -> torch.Tensor:
        name, ctx.op, ctx.prescale, ctx.postscale, ctx.process_set = how
        return synchronize(allreduce_async(tensor, None, name, ctx.op, ctx.prescale, ctx.postscale, ctx.process_set))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, allreduce(gradients[0], op=ctx.op, prescale_factor=ctx.prescale, postscale_factor=ctx.postscale,
                               process_set=ctx.process_set)


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Type[Compressor] = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Gradients flow back through it."""
    sent, ctx = compression.compress(tensor)
    how = (name, _op_of(op, average), prescale_factor, postscale_factor, process_set)
    return compression.decompress(_Allreduce.apply(how, sent), ctx)


def grouped_allreduce_async(tensors: Tensors, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> int:
    """All tensors or none, in one exchange."""
    _check("grouped_allreduce", name, tensors, reduces=True)
    return _handle(_grouped(_allreduce(tensors, _like(tensors), name, _op_of(op, average), prescale_factor, postscale_factor, process_set)))


def grouped_allreduce_async_(tensors: Tensors, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                             prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> int:
    return _handle(_grouped(_allreduce(tensors, tensors, name, _op_of(op, average), prescale_factor, postscale_factor, process_set)))


def grouped_allreduce_(tensors: Tensors, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> Tuple[torch.Tensor, ...]:
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set))


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Tuple[Any, ...], *tensors: torch.Tensor) -> Any:
        name, ctx.op, ctx.prescale, ctx.postscale, ctx.process_set = how
        return synchronize(grouped_allreduce_async(tensors, None, name, ctx.op, ctx.prescale, ctx.postscale, ctx.process_set))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *grouped_allreduce(list(gradients), op=ctx.op, prescale_factor=ctx.prescale, postscale_factor=ctx.postscale,
                                         process_set=ctx.process_set))


def grouped_allreduce(tensors: Tensors, average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Type[Compressor] = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    sent = [compression.compress(tensor) for tensor in tensors]
    how = (name, _op_of(op, average), prescale_factor, postscale_factor, process_set)
    reduced = _GroupedAllreduce.apply(how, *(tensor for tensor, _ in sent))
    return [compression.decompress(tensor, ctx) for tensor, (_, ctx) in zip(reduced, sent)]


def sparse_allreduce_async(tensor: torch.Tensor, name: str, op: int, process_set: ProcessSet = global_process_set) -> Any:
    """A function that waits and gives the sum or mean of sparse tensors: the entries of all ranks, one after the other."""
    if op not in (Average, Sum):
        raise ValueError(f"sparse tensors have Sum and Average alone; {ReduceOp(op).name} was asked for")
    indices = allgather_async(tensor._indices().t().contiguous(), name=f"{name}.indices", process_set=process_set)
    values = allgather_async(tensor._values(), name=f"{name}.values", process_set=process_set)

    def finish() -> torch.Tensor:
        all_indices, all_values = synchronize(indices), synchronize(values)
        if op == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.size(), dtype=tensor.dtype)

    return finish


# ---- allgather ----

def _allgather(tensors: Tensors, name: Optional[str], process_set: ProcessSet) -> Entry:
    _check("allgather", name, tensors, reduces=False)
    if any(tensor.dim() == 0 for tensor in tensors):
        raise ValueError(f"rank {rank()}: allgather joins tensors along their first dimension; this one has none")
    return _submit("allgather", tensors, (), name, process_set, own=[tensor.shape[0] for tensor in tensors])


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    return _handle(_allgather([tensor], name, process_set))


def grouped_allgather_async(tensors: Tensors, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    return _handle(_grouped(_allgather(tensors, name, process_set)))


def _own_part(gradient: torch.Tensor, rows: int, all_rows: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    own = process_set.rank()
    return gradient.narrow(0, int(all_rows[:own].sum()), rows)


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Tuple[Any, ...], *tensors: torch.Tensor) -> Any:
        name, ctx.process_set = how
        ctx.rows = [tensor.shape[0] for tensor in tensors]
        return synchronize(grouped_allgather_async(tensors, name, ctx.process_set))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        reduced = grouped_allreduce(list(gradients), op=Average, process_set=ctx.process_set)
        all_rows = grouped_allgather([torch.tensor([rows]) for rows in ctx.rows], process_set=ctx.process_set)
        return (None, *(_own_part(gradient, *rows, ctx.process_set) for gradient, *rows in zip(reduced, ctx.rows, all_rows)))


def grouped_allgather(tensors: Tensors, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """Each tensor's parts of all ranks, one after the other along the first dimension, which may differ between ranks."""
    return _GroupedAllgather.apply((name, process_set), *tensors)


def allgather(tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    return grouped_allgather([tensor], name, process_set)[0]


# ---- broadcast ----

def _broadcast(tensor: torch.Tensor, output: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> int:
    members = context().ranks_of(process_set.process_set_id or 0)
    if root_rank not in members:
        raise ValueError(f"rank {rank()}: broadcast from rank {root_rank}, which is not among the ranks {members}")
    return _handle(_submit("broadcast", [tensor], (output,), name, process_set, root=members.index(root_rank)))


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    _check("broadcast", name, [tensor], reduces=False)
    return _broadcast(tensor, _like([tensor])[0], root_rank, name, process_set)


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    _check("broadcast", name, [tensor], reduces=False)
    return _broadcast(tensor, tensor, root_rank, name, process_set)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Tuple[Any, ...], tensor: torch.Tensor) -> torch.Tensor:
        ctx.root_rank, name, ctx.process_set = how
        return synchronize(broadcast_async(tensor, ctx.root_rank, name, ctx.process_set))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        reduced = allreduce(gradients[0], op=Average, process_set=ctx.process_set)
        return None, reduced if rank() == ctx.root_rank else torch.zeros_like(reduced)


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    return _Broadcast.apply((root_rank, name, process_set), tensor)


# ---- alltoall ----

def alltoall_async(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]] = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> int:
    """`splits`: how many rows go to each rank; evenly without. The output comes with how many came from each rank."""
    _check("alltoall", name, [tensor], reduces=False)
    if tensor.dim() == 0:
        raise ValueError(f"rank {rank()}: alltoall divides tensors along their first dimension; this one has none")
    if isinstance(splits, torch.Tensor) and splits.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"rank {rank()}: the splits of alltoall are integers, and not {splits.dtype}")
    members, rows = process_set.size() or 0, tensor.shape[0]
    if splits is None:
        if members and rows % members:
            raise ValueError(f"rank {rank()}: alltoall of {rows} rows, which {members} ranks cannot share evenly: give splits")
        parts = [rows // members] * members if members else []
    else:
        parts = [int(part) for part in splits]
        if len(parts) != members or sum(parts) > rows or any(part < 0 for part in parts):
            raise ValueError(f"rank {rank()}: the splits {parts} of alltoall do not share {rows} rows among {members} ranks")
    return _handle(_submit("alltoall", [tensor], (), name, process_set, own=parts))


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Tuple[Any, ...], tensor: torch.Tensor) -> Any:
        splits, name, ctx.process_set = how
        output, ctx.received = synchronize(alltoall_async(tensor, splits, name, ctx.process_set))
        ctx.mark_non_differentiable(ctx.received)
        return output, ctx.received

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, alltoall(gradients[0], splits=ctx.received, process_set=ctx.process_set)[0]


def alltoall(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]] = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Any:
    """The output; with `splits`, a tuple of it and how many rows came from each rank."""
    output, received = _Alltoall.apply((splits, name, process_set), tensor)
    return output if splits is None else (output, received)


# ---- reducescatter ----

def _reducescatter(tensors: Tensors, name: Optional[str], op: int, process_set: ProcessSet, prescale: float, postscale: float) -> Entry:
    _check("reducescatter", name, tensors, reduces=True)
    if op not in (Average, Sum):
        raise HorovodInternalError(f"reducescatter has Sum and Average alone; {ReduceOp(op).name} was asked for")
    if any(tensor.dim() == 0 for tensor in tensors):
        raise ValueError(f"rank {rank()}: reducescatter divides tensors along their first dimension; this one has none")
    return _submit("reducescatter", tensors, (), name, process_set, op=ReduceOp(op).name.lower(), prescale=float(prescale),
                   postscale=float(postscale))


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average, process_set: ProcessSet = global_process_set,
                        prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> int:
    return _handle(_reducescatter([tensor], name, op, process_set, prescale_factor, postscale_factor))


def grouped_reducescatter_async(tensors: Tensors, name: Optional[str] = None, op: int = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:
    return _handle(_grouped(_reducescatter(tensors, name, op, process_set, prescale_factor, postscale_factor)))


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Tuple[Any, ...], *tensors: torch.Tensor) -> Any:
        name, ctx.op, ctx.process_set, ctx.prescale, ctx.postscale = how
        return synchronize(grouped_reducescatter_async(tensors, name, ctx.op, ctx.process_set, ctx.prescale, ctx.postscale))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        factor = ctx.prescale * ctx.postscale * (ctx.process_set.size() if ctx.op == Sum else 1)
        return (None, *grouped_allgather([gradient * factor for gradient in gradients], process_set=ctx.process_set))


def grouped_reducescatter(tensors: Tensors, name: Optional[str] = None, compression: Type[Compressor] = Compression.none,
                          op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[torch.Tensor]:
    """Each rank gets its rows of the sums or means; the first ranks get one more where they do not divide evenly."""
    sent = [compression.compress(tensor) for tensor in tensors]
    reduced = _GroupedReducescatter.apply((name, op, process_set, prescale_factor, postscale_factor), *(tensor for tensor, _ in sent))
    return [compression.decompress(tensor, ctx) for tensor, (_, ctx) in zip(reduced, sent)]


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Type[Compressor] = Compression.none, op: int = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]


# ---- without tensors ----

def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns once all ranks of the set have called it."""
    context().session.wait(_submit("barrier", [], None, None, process_set))


def join(device: int = -1) -> int:
    """This rank has no more data. It adds zeros to what others still reduce, until all have called it; the rank that did so last."""
    last = context().session.wait(_submit("join", [], None, None, global_process_set))
    context().joined()
    return last
