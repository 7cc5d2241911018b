"""torch.distributed's process group over dlflow's collectives.

Nothing here is compiled against PyTorch. A method of ProcessGroup starts an operation of `dlflow.runtime` on the memory of
tensors and returns a Work. Tensors that are not contiguous go through a copy, which is copied back once the work is done. So
do tensors on GPUs, unless each rank has a GPU of its own: then NCCL performs the collective.
"""

from __future__ import annotations

import atexit
import collections
import datetime
import functools
import inspect
import os
import threading
import time
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work as TorchWork

from dlflow import _cuda, runtime
from dlflow.torch import profile, timeline

NAME = "dlflow"
LINGER = 10.0  # seconds that a leaving rank waits for the others

_TYPES = {getattr(torch, name): number for name, number in runtime.TYPES.items()}

# Skips the check of sparse tensors made from the indices of other ranks' tensors. PyTorch 1.13 always checks.
_UNCHECKED = {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}

_Base = getattr(dist, "BackendBase", dist.ProcessGroup)


def _op(op: Any) -> runtime.Op:
    for ours in runtime.Op:
        if hasattr(dist.ReduceOp, ours.name) and op == getattr(dist.ReduceOp, ours.name):
            return ours
    raise ValueError(f"dlflow has no reduction {op}; it has {', '.join(ours.name for ours in runtime.Op)}")


def _type(tensor: torch.Tensor) -> runtime.Type:
    if tensor.dtype not in _TYPES:
        raise ValueError(f"dlflow cannot reduce {tensor.dtype}; it can {', '.join(runtime.TYPES)}")
    return _TYPES[tensor.dtype]


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class Work(TorchWork):
    """An operation of a process group: done once all its parts are done and the functions in `finish` have copied the results."""

    def __init__(self, what: str, parts: Sequence[runtime.Work], result: List[torch.Tensor], kept: Sequence[torch.Tensor],
                 finish: Sequence[Callable[[], None]], timeout: Optional[float]):
        super().__init__()
        self._what, self._parts, self._result, self._kept, self._timeout = what, list(parts), result, list(kept), timeout
        self._finish = list(finish)
        self._lock = threading.Lock()
        self._error: Optional[Exception] = None
        self._done: torch.futures.Future
        self._future: Optional[torch.futures.Future] = None  # follows `_done`
        self.is_used = False  # the caller has seen how it ended
        self.waited: Optional[Callable[[float], None]] = None  # called with the time at which wait() began

    def _settle(self) -> None:
        """Called when the parts are done, perhaps by several threads. The first call copies the results to their places."""
        with self._lock:
            finish, self._finish = self._finish, []
            if self._error is None and finish:
                # Tensors made in inference mode may only be changed in it, and this may be another thread.
                with torch.inference_mode(any(tensor.is_inference() for tensor in self._result)), torch.no_grad():
                    for function in finish:
                        function()
            self._kept = []

    def _poll(self) -> bool:
        try:
            if not all(part.done() for part in self._parts):
                return False
        except runtime.Error as error:
            self._error = error
        self._settle()
        return True

    is_completed = _poll

    def is_success(self) -> bool:
        return self._poll() and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error

    def result(self) -> List[torch.Tensor]:
        return self._result

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        begin = time.perf_counter()
        limit = timeout.total_seconds() if timeout is not None and timeout > datetime.timedelta(0) else self._timeout
        try:
            for part in self._parts:
                if not part.wait(limit):
                    raise RuntimeError(f"{self._what}: timed out after {limit:g} s")
        except runtime.Error as error:
            self._error = error
            self._settle()
            self.is_used = True
            raise
        self._settle()
        self.is_used = True
        if self.waited is not None:
            self.waited(begin)
        return True

    def _source_rank(self) -> int:
        return self._parts[0].source()

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future:
        with self._lock:
            if self._future is not None:
                return self._future
            self._done = torch.futures.Future(devices=list({tensor.device for tensor in self._result if tensor.device.type == "cuda"}))
            # C++ sees an exception that a callback raises. After set_exception() it would read the value, where DDP expects tensors.
            self._future = self._done.then(self._outcome)
        if self._poll():
            self._complete()  # at once: another thread would need a core
        else:
            # Parts end in order, and a message between two ranks is a separate work.
            self._parts[-1].call_when_done(self._complete)
        return self._future

    def _outcome(self, _: Any) -> List[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result

    def _complete(self) -> None:
        self._poll()
        self._done.set_result(None)
        self.is_used = True


class _Places:
    """The tensors of an operation as contiguous memory, and the copies to make once it is done."""

    def __init__(self, rank: int, what: str):
        self.rank, self.what, self.begin = rank, what, time.perf_counter()
        self.kept: List[torch.Tensor] = []
        self.finish: List[Callable[[], None]] = []

    def error(self, text: str) -> runtime.InvalidInput:
        return runtime.InvalidInput(f"rank {self.rank}: {self.what}: {text}")

    def _checked(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cpu" and not _cuda.is_on_device(tensor):
            raise self.error(f"a tensor is on {tensor.device}; the backend dlflow takes tensors on CPUs and CUDA devices")
        if tensor.layout != torch.strided:
            raise self.error("a tensor is sparse; the backend dlflow takes dense ones, and sums sparse ones of the COO layout")
        return tensor.detach()

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self.kept.append(tensor)
        return tensor

    def _memory(self, count: int, like: torch.Tensor) -> torch.Tensor:
        return self._keep(_cuda.pinned(count, like.dtype) if _cuda.is_on_device(like) else torch.empty(count, dtype=like.dtype))

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = self._checked(tensor)
        if not _cuda.is_on_device(tensor):
            return self._keep(tensor.contiguous())
        return self._memory(tensor.numel(), tensor).view(tensor.shape).copy_(tensor)  # waits for the caller's stream

    def written(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._place(tensor)[0]

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        place, is_copy = self._place(tensor)
        if is_copy:
            place.copy_(tensor.detach())
        return place

    def _place(self, tensor: torch.Tensor) -> Tuple[torch.Tensor, bool]:
        """Memory for the tensor's new content, and whether it is separate from the tensor's own."""
        tensor = self._checked(tensor)
        if tensor.is_contiguous() and not _cuda.is_on_device(tensor):
            return self._keep(tensor), False
        place = self._memory(tensor.numel(), tensor)
        self.copied_to([tensor], place)
        return place.view(tensor.shape), True

    def copied_to(self, tensors: Sequence[torch.Tensor], place: torch.Tensor) -> None:
        """Copies consecutive parts of `place` to the tensors at the end, after the work that the caller has queued on a GPU so far."""
        ready = [_cuda.when_ready(tensor) for tensor in tensors if _cuda.is_on_device(tensor)]

        def copy() -> None:
            for event in ready:
                event.synchronize()
            for tensor, part in zip(tensors, place.split([tensor.numel() for tensor in tensors])):
                tensor.copy_(part.view(tensor.shape))

        self.finish.append(copy)

    def joined(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """One contiguous copy of all tensors in order."""
        self._same_type(tensors)
        return self.read(torch.cat([self._checked(tensor).reshape(-1) for tensor in tensors]))

    def split(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """One piece of memory whose consecutive parts are copied to the tensors at the end."""
        self._same_type(tensors)
        checked = [self._checked(tensor) for tensor in tensors]
        place = self._memory(sum(tensor.numel() for tensor in checked), checked[0])
        self.copied_to(checked, place)
        return place

    def _same_type(self, tensors: Sequence[torch.Tensor]) -> None:
        types = {tensor.dtype for tensor in tensors}
        if not types:
            raise self.error("no tensors were given")
        if len(types) != 1:
            raise self.error(f"the tensors of a list have the types {', '.join(sorted(map(str, types)))}; they must have one")

    def same(self, a: torch.Tensor, b: torch.Tensor) -> None:
        if a.dtype != b.dtype:
            raise self.error(f"the input is {a.dtype}, the output {b.dtype}; they must be the same")


def _one(tensors: Any, places: _Places) -> torch.Tensor:
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise places.error(f"{len(tensors)} tensors were given; the backend dlflow takes one for each process")
    return tensors[0]


def _device_of(value: Any) -> Optional[torch.device]:
    """The GPU that holds the first tensor in `value`, which may be a nested list; None if that tensor is on no GPU or is sparse."""
    while isinstance(value, (list, tuple)):
        if not value:
            return None
        value = value[0]
    is_on_device = isinstance(value, torch.Tensor) and value.layout == torch.strided and _cuda.is_on_device(value)
    return value.device if is_on_device else None


def _or_nccl(method: Callable[..., Any]) -> Callable[..., Any]:
    """Passes a collective of tensors on GPUs to NCCL if each rank has a GPU of its own."""
    @functools.wraps(method)
    def collective(self: "ProcessGroup", tensors: Any, *arguments: Any, **options: Any) -> Any:
        device = _device_of(tensors) or (_device_of(arguments[0]) if arguments else None)  # only the root of gather has outputs
        nccl = self._nccl(device) if device is not None else None
        if nccl is None:
            return method(self, tensors, *arguments, **options)
        name = method.__name__ if hasattr(nccl, method.__name__) else _NEW_NAMES[method.__name__]
        return getattr(nccl, name)(tensors, *arguments, **options)

    return collective


# Names in newer versions of PyTorch.
_NEW_NAMES = {"allgather_into_tensor_coalesced": "all_gather_single_coalesced",
              "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced"}


def _seconds(opts: Any) -> Optional[float]:
    timeout = getattr(opts, "timeout", None)
    if timeout is None or timeout <= datetime.timedelta(0):
        return None
    return timeout.total_seconds()


def _meet(store: Any, rank: int, size: int, timeout: datetime.timedelta, name: str) -> runtime.Group:
    """The ranks exchange their addresses through the store: rank 0 reads each one and writes the list, so P ranks make 3 P
    requests. A store may be reused for a group of the same name, so ranks are counted to number each generation of the group."""
    endpoint = runtime.Endpoint(os.environ.get("DLFLOW_MEMORY"))
    generation = (store.add("dlflow/joined", 1) - 1) // size
    store.set(f"dlflow/{generation}/{rank}", endpoint.address)
    if rank == 0:
        store.set(f"dlflow/{generation}", "\n".join(store.get(f"dlflow/{generation}/{other}").decode() for other in range(size)))
    addresses = store.get(f"dlflow/{generation}").decode().split("\n")
    stall = float(os.environ.get("DLFLOW_STALL_TIMEOUT", 60))
    return runtime.Group(endpoint, rank, addresses, timeout.total_seconds(), stall, name)


_groups: "collections.OrderedDict[int, runtime.Group]" = collections.OrderedDict()


def _leave_all() -> None:
    """Leaves all groups at once at the end of the process, since ranks may have made them in different orders."""
    threads = [threading.Thread(target=group.leave, args=(LINGER,)) for group in _groups.values()]
    _groups.clear()
    started = []
    for thread in threads:
        try:
            thread.start()
            started.append(thread)
        except RuntimeError:  # CPython 3.12.1 starts no threads at the end of a process
            thread.run()
    for thread in started:
        thread.join()


class ProcessGroup(_Base):
    """One rank's end of a group. torch.distributed makes and calls it."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta):
        super().__init__(rank, size)
        self._store, self._rank, self._size, self._timeout = store, rank, size, timeout
        self._limit: Optional[float] = None  # timeout of a work, in seconds
        self._group_name, self._group_desc = "", ""
        self._group = _meet(store, rank, size, timeout, "")
        self._timeline = timeline.of_process(rank)
        self._observers = [observer for observer in (profile.asked_for(self._group), self._timeline) if observer is not None]
        self._works: "collections.deque[Work]" = collections.deque()
        self._coalesced: Optional[List[Work]] = None  # between start_coalescing and end_coalescing
        self._with_nccl: Any = None  # PyTorch's group, made at the first request
        self._has_asked_for_nccl = False
        _groups[id(self)] = self._group

    def _nccl(self, device: torch.device) -> Any:
        """PyTorch's group over NCCL; None unless each rank has a GPU of its own. All ranks first call this in the same collective."""
        if not self._has_asked_for_nccl:
            self._has_asked_for_nccl = True
            if _cuda.each_rank_has_one(self._group, device):
                self._with_nccl = _cuda.nccl(self._store, self._rank, self._size, self._timeout)
        return self._with_nccl

    def __del__(self) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        group = getattr(self, "_group", None)
        if group is not None and _groups is not None:  # otherwise the process is ending, and _leave_all has left the group
            _groups.pop(id(self), None)
            if self._with_nccl is not None:
                self._with_nccl.shutdown()
            group.leave(LINGER)

    def abort(self) -> None:
        _groups.pop(id(self), None)
        if self._with_nccl is not None:
            self._with_nccl.abort()
        self._group.leave(0)

    # Methods that torch calls on every group.
    def getBackendName(self) -> str:
        return NAME

    def name(self) -> str:
        return NAME

    def _get_backend(self, device: Any) -> "ProcessGroup":
        """PyTorch 2 divides a group into one backend for each kind of device; this group is its own."""
        if torch.device(device).type not in ("cpu", "cuda"):
            raise RuntimeError(f"no backend for {device} in this group: dlflow is for tensors on CPUs and CUDA devices")
        return self

    get_backend = _get_backend

    @property
    def _device_types(self) -> List[torch.device]:
        """Empty until torch has registered the group: before that its flight recorder asks, which cannot record a group made in Python."""
        devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
        return [torch.device(device) for device in devices] if self in dist.distributed_c10d._world.pg_map else []

    @property
    def options(self) -> Any:
        from torch._C._distributed_c10d import Backend
        return Backend.Options(NAME, self._timeout)

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Sets the timeout of works started from now on, unless their call has its own."""
        self._timeout, self._limit = timeout, timeout.total_seconds()

    _set_default_timeout = set_timeout

    supports_splitting = supports_coalescing = supports_shrinking = False

    def supports_tensor_alloc(self, device: Any) -> bool:
        return False

    def getGroupName(self) -> str:
        return self._group_name

    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupDesc(self) -> str:
        return self._group_desc

    def setGroupDesc(self, description: str) -> None:
        self._group_desc = description

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def _work(self, places: _Places, parts: Sequence[runtime.Work], result: List[torch.Tensor], timeout: Optional[float] = None) -> Work:
        """Keeps works alive until the caller has used them, since C++ holds no reference (PyTorch 1.13 ends silently without this)."""
        work = Work(f"rank {self._rank}: {places.what}", parts, result, places.kept, places.finish,
                    self._limit if timeout is None else timeout)
        for _ in range(min(2, len(self._works))):
            if self._works[0].is_used or (len(self._works) > 4096 and self._works[0].is_completed()):
                self._works.popleft()
            else:
                self._works.rotate(-1)
        self._works.append(work)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _collective(self, places: _Places, part: runtime.Work, result: List[torch.Tensor], timeout: Optional[float] = None) -> Work:
        """Without a free core for the group's thread, the caller performs the collective itself: two threads would wait for each other."""
        one = self._observed(places) if self._observers else None
        work = self._work(places, [part], result, timeout)
        part.advance(torch.get_num_threads())
        if one is not None:
            one.returned = time.perf_counter()
            if self._timeline is not None:
                self._timeline.returned(one)
                work.waited = functools.partial(self._timeline.waited, one)
                work.get_future()  # so that its end is recorded when it happens
        return work

    def _observed(self, places: _Places) -> timeline.Collective:
        one = timeline.Collective(places.what, max(places.kept, key=_bytes, default=None), places.begin)
        places.finish.append(one.done)
        for observer in self._observers:
            observer.begin(one)
        return one

    def _places(self, what: str) -> _Places:
        return _Places(self._rank, what)

    @_or_nccl
    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        places = self._places("all_reduce")
        tensor = _one(tensors, places)
        if tensor.layout == torch.sparse_coo:
            return self._allreduce_sparse(tensor, opts)
        op = _op(getattr(opts, "reduceOp", dist.ReduceOp.SUM if opts is None else opts))
        place = places.changed(tensor)
        return self._collective(places, self._group.all_reduce(place.data_ptr(), place.numel(), _type(place), op), [tensor], _seconds(opts))

    def _allreduce_sparse(self, tensor: torch.Tensor, opts: Any) -> Work:
        """Gathers the tensors of all ranks and adds them. Waits for the exchange of their sizes."""
        places = self._places("all_reduce of sparse tensors")
        if _op(getattr(opts, "reduceOp", dist.ReduceOp.SUM)) != runtime.Op.SUM:
            raise places.error("sparse tensors can only be summed")
        mine = tensor.detach().cpu().coalesce()
        shape = [*mine.shape, mine.sparse_dim()]
        facts = torch.tensor([mine._nnz(), *shape])
        everywhere = [torch.empty_like(facts) for _ in range(self._size)]
        self.allgather([everywhere], [facts]).wait()
        for rank, theirs in enumerate(everywhere):
            if theirs.tolist()[1:] != shape:
                raise places.error(f"a tensor of shape {shape[:-1]} with {shape[-1]} sparse dimensions here, {theirs.tolist()[1:-1]} with "
                                   f"{theirs[-1]} on rank {rank}")
        counts = [int(theirs[0]) for theirs in everywhere]
        indices = [torch.empty(mine.sparse_dim(), count, dtype=torch.int64) for count in counts]
        values = [torch.empty(count, *mine.values().shape[1:], dtype=mine.dtype) for count in counts]
        gathered = self._together("all_reduce of sparse tensors",
                                  [self.allgather([indices], [mine.indices()]), self.allgather([values], [mine.values()])])

        def add() -> None:
            total = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), tensor.shape, **_UNCHECKED).coalesce()
            tensor.copy_(total.to(tensor.device))  # detach() would keep the old indices of `tensor`

        gathered._finish.append(add)
        gathered._result = [tensor]
        return gathered

    @_or_nccl
    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> Work:
        """Sums all tensors in one operation; they may overlap."""
        places = self._places("all_reduce_coalesced")
        op = _op(getattr(opts, "reduceOp", dist.ReduceOp.SUM))
        place = places.joined(tensors)
        places.copied_to([tensor.detach() for tensor in tensors], place)
        work = self._group.all_reduce(place.data_ptr(), place.numel(), _type(place), op)
        return self._collective(places, work, list(tensors), _seconds(opts))

    def compressed_mean(self, compressor: runtime.Compressor, tensor: torch.Tensor, step: int, epoch: int) -> Work:
        """Replaces a contiguous float32 tensor by the approximate mean over the ranks."""
        places = self._places("compressed all_reduce")
        place = places.changed(tensor)
        places.finish.append(lambda: place.div_(self._size))
        return self._collective(places, self._group.compressed_all_reduce(compressor, place.data_ptr(), step, epoch), [tensor])

    @_or_nccl
    def broadcast(self, tensors: Any, opts: Any = None, root: int = 0) -> Work:
        places = self._places("broadcast")
        tensor = _one(tensors, places)
        root = opts if isinstance(opts, int) else getattr(opts, "rootRank", root)
        place = places.changed(tensor)
        return self._collective(places, self._group.broadcast(place.data_ptr(), _bytes(place), root), [tensor], _seconds(opts))

    @_or_nccl
    def reduce(self, tensors: Any, opts: Any = None) -> Work:
        places = self._places("reduce")
        tensor = _one(tensors, places)
        op, root = _op(getattr(opts, "reduceOp", dist.ReduceOp.SUM)), getattr(opts, "rootRank", 0)
        place = places.changed(tensor)
        return self._collective(places, self._group.reduce(place.data_ptr(), place.numel(), _type(place), op, root), [tensor], _seconds(opts))

    @_or_nccl
    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        places = self._places("all_gather")
        source = places.read(_one(input_tensors, places))
        outputs = output_tensors if isinstance(output_tensors[0], torch.Tensor) else output_tensors[0]
        self._require_one_each(places, outputs, "output")
        target = places.split(outputs)
        places.same(source, target)
        if outputs[self._rank].numel() != source.numel():
            raise places.error(f"its tensor has {source.numel()} elements, but its place in the list has {outputs[self._rank].numel()}")
        sizes = [_bytes(tensor) for tensor in outputs]
        return self._collective(places, self._group.all_gather(source.data_ptr(), target.data_ptr(), sizes), list(outputs), _seconds(opts))

    @_or_nccl
    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        places = self._places("all_gather_into_tensor")
        source, target = places.read(input), places.written(output)
        places.same(source, target)
        if target.numel() != source.numel() * self._size:
            raise places.error(f"the output has {target.numel()} elements, but {self._size} ranks with {source.numel()} each make "
                               f"{source.numel() * self._size}")
        work = self._group.all_gather(source.data_ptr(), target.data_ptr(), [_bytes(source)] * self._size)
        return self._collective(places, work, [output], _seconds(opts))

    @_or_nccl
    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        works = [self.allgather([[outputs[i] for outputs in output_lists]], [tensor], opts) for i, tensor in enumerate(input_list)]
        return self._together("all_gather_coalesced", works)

    @_or_nccl
    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        works = [self._allgather_base(output, tensor, opts) for output, tensor in zip(outputs, inputs)]
        return self._together("all_gather_into_tensor_coalesced", works)

    @_or_nccl
    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        places = self._places("reduce_scatter")
        output = _one(output_tensors, places)
        inputs = input_tensors if isinstance(input_tensors[0], torch.Tensor) else input_tensors[0]
        self._require_one_each(places, inputs, "input")
        source, target = places.joined(inputs), places.written(output)
        return self._reduce_scatter(places, source, target, [tensor.numel() for tensor in inputs], output, opts)

    @_or_nccl
    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        places = self._places("reduce_scatter_tensor")
        source, target = places.read(input), places.written(output)
        return self._reduce_scatter(places, source, target, [target.numel()] * self._size, output, opts)

    def _reduce_scatter(self, places: _Places, source: torch.Tensor, target: torch.Tensor, counts: List[int], output: torch.Tensor,
                        opts: Any) -> Work:
        places.same(source, target)
        if sum(counts) != source.numel() or counts[self._rank] != target.numel():
            raise places.error(f"the output has {target.numel()} elements and the input {source.numel()}, for {self._size} ranks")
        op = _op(getattr(opts, "reduceOp", dist.ReduceOp.SUM))
        work = self._group.reduce_scatter(source.data_ptr(), target.data_ptr(), counts, _type(source), op)
        return self._collective(places, work, [output], _seconds(opts))

    @_or_nccl
    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        works = [self._reduce_scatter_base(output, tensor, opts) for output, tensor in zip(outputs, inputs)]
        return self._together("reduce_scatter_tensor_coalesced", works)

    @_or_nccl
    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_split_sizes: Sequence[int],
                      input_split_sizes: Sequence[int], opts: Any = None) -> Work:
        places = self._places("all_to_all_single")
        source, target = places.read(input), places.written(output)
        places.same(source, target)
        work = self._group.all_to_all(source.data_ptr(), self._split(places, source, input_split_sizes, "input"), target.data_ptr(),
                                      self._split(places, target, output_split_sizes, "output"))
        return self._collective(places, work, [output], _seconds(opts))

    def _split(self, places: _Places, tensor: torch.Tensor, sizes: Sequence[int], role: str) -> List[int]:
        """The sizes in bytes."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not sizes:
            if rows % self._size != 0:
                raise places.error(f"the {role} has {rows} rows, which {self._size} ranks cannot share evenly; give the sizes")
            sizes = [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise places.error(f"the sizes of the {role}, {list(sizes)}, are not those of {self._size} ranks with {rows} rows in all")
        row = _bytes(tensor) // rows if rows else 0
        return [size * row for size in sizes]

    @_or_nccl
    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        places = self._places("all_to_all")
        self._require_one_each(places, output_tensors, "output")
        self._require_one_each(places, input_tensors, "input")
        source, target = places.joined(input_tensors), places.split(output_tensors)
        places.same(source, target)
        work = self._group.all_to_all(source.data_ptr(), [_bytes(tensor) for tensor in input_tensors], target.data_ptr(),
                                      [_bytes(tensor) for tensor in output_tensors])
        return self._collective(places, work, list(output_tensors), _seconds(opts))

    @_or_nccl
    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        places = self._places("gather")
        source, root = places.read(_one(input_tensors, places)), getattr(opts, "rootRank", 0)
        outputs: List[torch.Tensor] = []
        target = None
        if self._rank == root:
            outputs = list(output_tensors[0])
            self._require_one_each(places, outputs, "output")
            self._require_same_size(places, outputs, source)
            target = places.split(outputs)
            places.same(source, target)
        work = self._group.gather(source.data_ptr(), _bytes(source), target.data_ptr() if target is not None else 0, root)
        return self._collective(places, work, outputs, _seconds(opts))

    @_or_nccl
    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        places = self._places("scatter")
        output, root = _one(output_tensors, places), getattr(opts, "rootRank", 0)
        target = places.written(output)
        source = None
        if self._rank == root:
            inputs = list(input_tensors[0])
            self._require_one_each(places, inputs, "input")
            self._require_same_size(places, inputs, target)
            source = places.joined(inputs)
            places.same(source, target)
        work = self._group.scatter(source.data_ptr() if source is not None else 0, _bytes(target), target.data_ptr(), root)
        return self._collective(places, work, [output], _seconds(opts))

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        places = self._places(f"send to rank {dst}")
        source = places.read(_one(tensors, places))
        return self._work(places, [self._group.send(source.data_ptr(), _bytes(source), dst, tag)], [])

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        places = self._places(f"recv from rank {src}")
        tensor = _one(tensors, places)
        target = places.written(tensor)
        return self._work(places, [self._group.receive(target.data_ptr(), _bytes(target), src, tag)], [tensor])

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        places = self._places("recv from any rank")
        tensor = _one(tensors, places)
        target = places.written(tensor)
        return self._work(places, [self._group.receive_from_any(target.data_ptr(), _bytes(target), tag)], [tensor])

    def barrier(self, opts: Any = None) -> Work:
        return self._collective(self._places("barrier"), self._group.barrier(), [], _seconds(opts))

    def monitored_barrier(self, timeout: Any = datetime.timedelta(0), wait_all_ranks: bool = False) -> None:
        """Names all missing ranks on all ranks; `wait_all_ranks` is always true. `timeout` may also be BarrierOptions."""
        timeout = getattr(timeout, "timeout", timeout)
        seconds = timeout.total_seconds() if timeout > datetime.timedelta(0) else 1800.0
        work = self._work(self._places("monitored_barrier"), [self._group.monitored_barrier(seconds)], [])
        work._timeout = None  # the operation has its own timeout
        work.wait()

    def _together(self, what: str, works: Sequence[Work]) -> Work:
        places = self._places(what)
        for work in works:
            work.is_used = True
            places.kept += work._kept
            places.finish.append(work._settle)
        together = self._work(places, [part for work in works for part in work._parts], [tensor for work in works for tensor in work._result])
        together.waited = works[-1].waited if works else None
        return together

    def _require_one_each(self, places: _Places, tensors: Sequence[torch.Tensor], role: str) -> None:
        if len(tensors) != self._size:
            raise places.error(f"{len(tensors)} {role} tensors for {self._size} ranks; give one for each")

    def _require_same_size(self, places: _Places, tensors: Sequence[torch.Tensor], like: torch.Tensor) -> None:
        for other, tensor in enumerate(tensors):
            if tensor.numel() != like.numel():
                raise places.error(f"the tensor for rank {other} has {tensor.numel()} elements, but this rank's has {like.numel()}")

    def start_coalescing(self, device: Any = None) -> None:
        """Combines the following operations into one work. Only NCCL delays them until the end."""
        nccl = self._nccl(device) if device is not None and torch.device(device).type == "cuda" else None
        if nccl is not None:
            nccl._start_coalescing()
        self._coalesced = []

    def end_coalescing(self, device: Any = None) -> Work:
        works, self._coalesced = self._coalesced, None
        if self._with_nccl is not None and device is not None and torch.device(device).type == "cuda":
            return self._with_nccl._end_coalescing()
        return self._together("coalesced operations", works or [])

    # Names of the same methods in newer versions of PyTorch.
    allreduce_sparse = allreduce
    all_gather_single = allgather_into_tensor = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = reduce_scatter_tensor = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    alltoall_single = all_to_all_single = alltoall_base
    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing


def own_group(group: Optional[Any]) -> Optional[ProcessGroup]:
    """The part of a torch.distributed group that this backend serves; None if there is none. By default the group of all ranks."""
    group = dist.distributed_c10d._get_default_group() if group is None else group
    if not isinstance(group, ProcessGroup) and hasattr(group, "_get_backend"):
        group = group._get_backend(torch.device("cpu"))
    return group if isinstance(group, ProcessGroup) else None


def monitored_barrier(group: Optional[Any] = None, timeout: datetime.timedelta = datetime.timedelta(minutes=30)) -> None:
    """Like torch.distributed.monitored_barrier, which older versions of PyTorch refuse for backends other than gloo."""
    own = own_group(group)
    if own is None:
        raise ValueError("dlflow.torch.monitored_barrier needs a group of the backend dlflow; others have torch.distributed.monitored_barrier")
    own.monitored_barrier(timeout)


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> ProcessGroup:
    return ProcessGroup(store, rank, size, timeout)


def _do_without_libuv() -> None:
    """PyTorch meets by libuv unless told otherwise, even if it was built without it, as Debian 13's was."""
    try:
        dist.TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False)
    except RuntimeError as error:
        if "libuv" in str(error):
            os.environ.setdefault("USE_LIBUV", "0")


def register() -> None:
    """Registers the backend, once per process."""
    if hasattr(dist.Backend, NAME.upper()):
        return
    if "USE_LIBUV" not in os.environ:
        _do_without_libuv()
    options = {"devices": ["cpu", "cuda"]} if "devices" in inspect.signature(dist.Backend.register_backend).parameters else {}
    dist.Backend.register_backend(NAME, _create, **options)
    atexit.register(_leave_all)
