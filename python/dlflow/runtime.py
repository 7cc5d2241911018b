"""Collectives between processes: libdlflow_runtime, whose header (dlflow_runtime.h) documents each function.

A thin layer: it takes addresses of memory, not arrays. Framework-specific code is elsewhere (dlflow.torch).
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import os
import pathlib
import threading
import time
import traceback
from typing import Callable, List, Optional, Sequence, Tuple

ABI = 3
_LIBRARY = "libdlflow_runtime.so"


class Type(enum.IntEnum):
    F32, F64, F16, BF16, I8, U8, I32, I64, BOOL, I16 = range(10)


#: By the frameworks' names.
TYPES = {"float32": Type.F32, "float64": Type.F64, "float16": Type.F16, "bfloat16": Type.BF16, "int8": Type.I8, "uint8": Type.U8,
         "int16": Type.I16, "int32": Type.I32, "int64": Type.I64, "bool": Type.BOOL}


class Op(enum.IntEnum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)


class Method(enum.IntEnum):
    """A method of compression."""
    FP16, BF16, INT8, TOPK, MSTOPK, RANDOMK, DGC, POWERSGD = range(8)


class State(enum.IntEnum):
    """A compressor's state; the first two differ between ranks, the factors are the same on all."""
    RESIDUAL, VELOCITY, RIGHT_FACTORS = range(3)


_OK, _INVALID, _UNAVAILABLE, _PENDING = range(4)


class Error(RuntimeError):
    """Describes the failure and its reason, with ranks and nodes. The group is unusable afterwards."""


class InvalidInput(Error, ValueError):
    """The arguments are wrong, or the ranks' calls differ."""


class _Options(ctypes.Structure):
    _fields_ = [("timeout", ctypes.c_int64), ("stall_timeout", ctypes.c_int64), ("name", ctypes.c_char_p)]


class _Compression(ctypes.Structure):
    _fields_ = [("method", ctypes.c_int), ("global_top_k", ctypes.c_int), ("density", ctypes.c_double), ("warmup_epochs", ctypes.c_uint64),
                ("rank", ctypes.c_size_t), ("clip", ctypes.c_double), ("momentum", ctypes.c_double), ("seed", ctypes.c_uint64)]


class _Matrix(ctypes.Structure):
    _fields_ = [("first", ctypes.c_size_t), ("rows", ctypes.c_size_t), ("columns", ctypes.c_size_t)]


class _Leaves(ctypes.Structure):
    _fields_ = [("first", ctypes.c_size_t), ("count", ctypes.c_size_t)]


class Piece(ctypes.Structure):
    """`count` floats from element `first` of a leaf's vector on, at address `data`; None means zeros."""
    _fields_ = [("first", ctypes.c_size_t), ("count", ctypes.c_size_t), ("data", ctypes.c_void_p)]


def _find_library() -> str:
    """In the package (wheel), in the folder of a build, or below the same lib/ (`cmake --install`)."""
    own = os.environ.get("DLFLOW_RUNTIME_LIBRARY")
    if own:
        return own
    folders = pathlib.Path(os.path.abspath(__file__)).parents
    places = [folders[0] / _LIBRARY, folders[2] / "lib" / _LIBRARY, folders[3] / "dlflow" / _LIBRARY]
    for place in places:
        if place.exists():
            return str(place)
    raise Error(f"{_LIBRARY} is not at {' or '.join(map(str, places))}: reinstall dlflow, or name it in DLFLOW_RUNTIME_LIBRARY")


def _load() -> ctypes.CDLL:
    path = _find_library()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Error(f"{path} cannot be loaded: {error}") from None
    if library.dlflow_abi() != ABI:
        raise Error(f"{path} has interface {library.dlflow_abi()}, but this package needs {ABI}: install both from one version of dlflow")
    compressor, step = ctypes.c_void_p, ctypes.c_uint64
    data, size, number, real = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64
    sizes, out = ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p)
    group = work = queue = endpoint = leaf_sum = ctypes.c_void_p
    arguments = {
        "endpoint_open": [ctypes.c_char_p, out],
        "group_create": [endpoint, number, number, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(_Options), out],
        "urgent_all_reduce": [group, data, size, number, number, number, out],
        "reduce": [group, data, size, number, number, number, out],
        "reduce_scatter": [group, data, data, sizes, number, number, out],
        "broadcast": [group, data, size, number, out],
        "all_gather": [group, data, data, sizes, out],
        "all_to_all": [group, data, sizes, data, sizes, out],
        "gather": [group, data, size, data, number, out],
        "scatter": [group, data, size, data, number, out],
        "barrier": [group, out],
        "monitored_barrier": [group, real, out],
        "send": [group, data, size, number, number, out],
        "receive": [group, data, size, number, number, out],
        "receive_from_any": [group, data, size, number, out],
        "work_source": [work],
        "compressor_create": [ctypes.POINTER(_Compression), ctypes.POINTER(_Matrix), size, size, out],
        "compressed_all_reduce": [group, compressor, data, step, step, out],
        "leaf_sum_create": [group, size, size, out, out],
        "leaf_sum_add": [leaf_sum, size, ctypes.c_float, ctypes.POINTER(Piece), size],
        "leaf_sum_start": [leaf_sum, size, size, out],
        "work_test": [work],
        "work_wait": [work, real],
        "work_advance": [work, number],
        "queue_pop": [queue, real, ctypes.POINTER(ctypes.c_uint64)],
    }
    for name, types in arguments.items():
        function = getattr(library, "dlflow_" + name)
        function.argtypes, function.restype = types, ctypes.c_int
    library.dlflow_error.restype = ctypes.c_char_p
    library.dlflow_endpoint_address.argtypes, library.dlflow_endpoint_address.restype = [endpoint], ctypes.c_char_p
    library.dlflow_queue_create.restype = queue
    library.dlflow_compressor_state.argtypes = [compressor, number, ctypes.POINTER(size)]
    library.dlflow_compressor_state.restype = ctypes.POINTER(ctypes.c_float)
    library.dlflow_leaf_sum_leaves.argtypes, library.dlflow_leaf_sum_leaves.restype = [leaf_sum], _Leaves
    library.dlflow_leaf_sum_result.argtypes, library.dlflow_leaf_sum_result.restype = [leaf_sum], ctypes.c_void_p
    for name, types in {"endpoint_free": [endpoint], "group_free": [group, real], "work_free": [work], "compressor_free": [compressor],
                        "work_notify": [work, queue, ctypes.c_uint64]}.items():
        function = getattr(library, "dlflow_" + name)
        function.argtypes, function.restype = types, None
    return library


_lib = _load()


def _check(status: int) -> None:
    if status == _OK:
        return
    message = _lib.dlflow_error().decode(errors="replace")
    raise (InvalidInput if status == _INVALID else Error)(message)


def _sizes(sizes: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_size_t * len(sizes))(*sizes)


class Work:
    """A pending operation. Its memory must not change until done() or wait() returns true."""

    # Python handles signals only when a call returns.
    _SLICE_MS = 200

    def __init__(self, handle: ctypes.c_void_p):
        self._handle = handle

    # At exit, globals may be destroyed before works.
    def __del__(self, _free: Callable[..., None] = _lib.dlflow_work_free) -> None:
        _free(self._handle)

    def done(self) -> bool:
        """Whether it has ended. Raises its error."""
        status = _lib.dlflow_work_test(self._handle)
        if status == _PENDING:
            return False
        _check(status)
        return True

    def wait(self, timeout: Optional[float] = None) -> bool:
        """False if it is not done within `timeout` seconds. Raises its error."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = self._SLICE_MS if deadline is None else int(1000 * (deadline - time.monotonic()))
            status = _lib.dlflow_work_wait(self._handle, min(max(left, 0), self._SLICE_MS))
            if status != _PENDING:
                _check(status)
                return True
            if left <= 0:
                return False

    def advance(self, threads: int) -> None:
        """Executes it while it progresses, before the caller continues, if ranks with so many `threads` leave no core idle.

        Errors are raised by done() and wait().
        """
        _lib.dlflow_work_advance(self._handle, threads)

    def source(self) -> int:
        """The sender of a completed receive from any rank."""
        return int(_lib.dlflow_work_source(self._handle))

    def call_when_done(self, function: Callable[[], None]) -> None:
        """Calls `function` on a thread that all works share. At most once per work."""
        _Completer.instance().add(self._handle, function)


class _Completer:
    """The thread that calls functions of completed works."""

    _instance: Optional["_Completer"] = None
    _lock = threading.Lock()

    @classmethod
    def instance(cls) -> "_Completer":
        with cls._lock:
            if cls._instance is None or cls._instance._process != os.getpid():
                cls._instance = cls()
            return cls._instance

    def __init__(self) -> None:
        self._process = os.getpid()
        self._queue = ctypes.c_void_p(_lib.dlflow_queue_create())
        self._functions: dict[int, Callable[[], None]] = {}
        self._next = 0
        threading.Thread(target=self._run, name="dlflow futures", daemon=True).start()

    def add(self, handle: ctypes.c_void_p, function: Callable[[], None]) -> None:
        with self._lock:
            self._next += 1
            number = self._next
        self._functions[number] = function
        _lib.dlflow_work_notify(handle, self._queue, number)

    def _run(self) -> None:
        number = ctypes.c_uint64()
        while True:
            if _lib.dlflow_queue_pop(self._queue, 1000, ctypes.byref(number)) == _OK:
                try:
                    self._functions.pop(number.value)()
                except Exception:  # of one function: the others are still called
                    traceback.print_exc()


class Compressor:
    """A rank's state for the compressed sums of a buffer of `count` floats. `matrices`: (first element, rows, columns) of each
    compressed part, ascending; the rest is summed as it is."""

    def __init__(self, method: Method, matrices: Sequence[Tuple[int, int, int]], count: int, *, global_top_k: bool = False,
                 density: float = 0.01, warmup_epochs: int = 0, rank: int = 2, clip: float = 0, momentum: float = 0, seed: int = 0):
        how = _Compression(method, global_top_k, density, warmup_epochs, rank, clip, momentum, seed)
        self._handle = ctypes.c_void_p()
        _check(_lib.dlflow_compressor_create(ctypes.byref(how), (_Matrix * len(matrices))(*matrices), len(matrices), count,
                                             ctypes.byref(self._handle)))

    def state(self, part: State) -> ctypes.Array:
        """The numbers themselves. They may be read or written while no sum is under way and this object lives."""
        count = ctypes.c_size_t()
        place = _lib.dlflow_compressor_state(self._handle, part, ctypes.byref(count))
        return (ctypes.c_float * count.value).from_address(ctypes.addressof(place.contents)) if count.value else (ctypes.c_float * 0)()

    def __del__(self, _free: Callable[..., None] = _lib.dlflow_compressor_free) -> None:
        if self._handle:
            _free(self._handle)


class Endpoint:
    """The address where other ranks find this one: send them `address` by any means."""

    def __init__(self, memory: Optional[str] = None):
        """Ranks with the same text `memory` share memory; by default those of one machine do."""
        self._handle = ctypes.c_void_p()
        _check(_lib.dlflow_endpoint_open(memory.encode() if memory else None, ctypes.byref(self._handle)))
        self.address: str = _lib.dlflow_endpoint_address(self._handle).decode()

    def __del__(self, _free: Callable[..., None] = _lib.dlflow_endpoint_free) -> None:
        if self._handle:
            _free(self._handle)


class Group:
    """One rank's end of a group of processes. Addresses are integers (`tensor.data_ptr()`), sizes are bytes."""

    def __init__(self, endpoint: Endpoint, rank: int, addresses: Sequence[str], timeout: float = 1800, stall_timeout: float = 60,
                 name: str = ""):
        """Collective: waits for the ranks with these addresses, in the order of ranks."""
        self.rank, self.size, self.name = rank, len(addresses), name
        self._handle: Optional[ctypes.c_void_p] = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(addresses))(*(address.encode() for address in addresses))
        options = _Options(max(1, int(timeout * 1000)), max(1, int(stall_timeout * 1000)), name.encode())
        _check(_lib.dlflow_group_create(endpoint._handle, rank, len(addresses), texts, ctypes.byref(options), ctypes.byref(self._handle)))

    def leave(self, linger: float = 10) -> None:
        """The last call; waits for the others to leave, too, for at most `linger` seconds."""
        handle, self._handle = self._handle, None
        if handle:
            _lib.dlflow_group_free(handle, int(linger * 1000))

    def _require_joined(self) -> None:
        if not self._handle:
            raise Error(f"rank {self.rank} has left the group {self.name}: make a new one")

    def _start(self, function: Callable[..., int], *arguments: object) -> Work:
        self._require_joined()
        work = ctypes.c_void_p()
        _check(function(self._handle, *arguments, ctypes.byref(work)))
        return Work(work)

    def all_reduce(self, data: int, count: int, dtype: Type, op: Op, urgency: int = 0) -> Work:
        return self._start(_lib.dlflow_urgent_all_reduce, data, count, dtype, op, urgency)

    def compressed_all_reduce(self, compressor: Compressor, data: int, step: int, epoch: int) -> Work:
        return self._start(_lib.dlflow_compressed_all_reduce, compressor._handle, data, step, epoch)

    def reduce(self, data: int, count: int, dtype: Type, op: Op, root: int) -> Work:
        return self._start(_lib.dlflow_reduce, data, count, dtype, op, root)

    def reduce_scatter(self, source: int, target: int, counts: Sequence[int], dtype: Type, op: Op) -> Work:
        return self._start(_lib.dlflow_reduce_scatter, source, target, _sizes(counts), dtype, op)

    def broadcast(self, data: int, size: int, root: int) -> Work:
        return self._start(_lib.dlflow_broadcast, data, size, root)

    def all_gather(self, source: int, target: int, sizes: Sequence[int]) -> Work:
        return self._start(_lib.dlflow_all_gather, source, target, _sizes(sizes))

    def all_gather_bytes(self, data: bytes) -> List[bytes]:
        """Returns each rank's data, of any length, in the order of ranks; waits for it."""
        sizes, own = (ctypes.c_uint64 * self.size)(), ctypes.c_uint64(len(data))
        self.all_gather(ctypes.addressof(own), ctypes.addressof(sizes), [8] * self.size).wait()
        source, target = ctypes.create_string_buffer(data, max(1, len(data))), ctypes.create_string_buffer(max(1, sum(sizes)))
        self.all_gather(ctypes.addressof(source), ctypes.addressof(target), list(sizes)).wait()
        together = target.raw
        return [together[end - size:end] for size, end in zip(sizes, itertools.accumulate(sizes))]

    def all_to_all(self, source: int, source_sizes: Sequence[int], target: int, target_sizes: Sequence[int]) -> Work:
        return self._start(_lib.dlflow_all_to_all, source, _sizes(source_sizes), target, _sizes(target_sizes))

    def gather(self, source: int, size: int, target: int, root: int) -> Work:
        return self._start(_lib.dlflow_gather, source, size, target, root)

    def scatter(self, source: int, size: int, target: int, root: int) -> Work:
        return self._start(_lib.dlflow_scatter, source, size, target, root)

    def barrier(self) -> Work:
        return self._start(_lib.dlflow_barrier)

    def monitored_barrier(self, timeout: float) -> Work:
        return self._start(_lib.dlflow_monitored_barrier, int(timeout * 1000))

    def send(self, data: int, size: int, to: int, tag: int) -> Work:
        return self._start(_lib.dlflow_send, data, size, to, tag)

    def receive(self, data: int, size: int, source: int, tag: int) -> Work:
        return self._start(_lib.dlflow_receive, data, size, source, tag)

    def receive_from_any(self, data: int, size: int, tag: int) -> Work:
        return self._start(_lib.dlflow_receive_from_any, data, size, tag)


class LeafSum:
    """Sums vectors of `count` floats, one for each of `num_leaves` leaves that the ranks of `group` share, along a binary tree over the
    leaves' numbers: the same bits on any number of ranks. Collective."""

    def __init__(self, group: Group, num_leaves: int, count: int):
        self._group = group
        self._handle = ctypes.c_void_p()
        group._start(_lib.dlflow_leaf_sum_create, num_leaves, count, ctypes.byref(self._handle)).wait()
        leaves = _lib.dlflow_leaf_sum_leaves(self._handle)
        self.leaves = range(leaves.first, leaves.first + leaves.count)  # of this rank
        self.result: int = _lib.dlflow_leaf_sum_result(self._handle)  # the address of `count` floats

    def add(self, leaf: int, scale: float, pieces: "ctypes.Array[Piece]") -> None:
        """Adds `scale` times the pieces as elements of `leaf`. Each element gets the leaves one after the other, once each."""
        self._group._require_joined()
        _check(_lib.dlflow_leaf_sum_add(self._handle, leaf, scale, pieces, len(pieces)))

    def start(self, first: int, count: int) -> Work:
        """Sums these elements of all leaves, once all ranks have added them. Collective."""
        return self._group._start(lambda group, *arguments: _lib.dlflow_leaf_sum_start(self._handle, *arguments), first, count)
