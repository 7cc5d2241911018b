"""The session of this process, from init() to shutdown(), and its place among the ranks. Frameworks share it."""

from __future__ import annotations

import atexit
import collections
import enum
import os
import re
import threading
import warnings
from typing import Any, Callable, Counter, Dict, NoReturn, Optional

from dlflow import runtime
from dlflow.horovod.coordinator import Coordinator
from dlflow.horovod.session import Executor, Session
from dlflow.horovod.settings import Settings
from dlflow.horovod.world import Meeting, World, place

# Creates the executor of collectives on a framework's tensors.
MakeExecutor = Callable[[runtime.Group], Executor]


class ReduceOp(enum.IntEnum):
    Average, Sum, Adasum = range(3)


Average, Sum, Adasum = ReduceOp


def op_of(op: Optional[int], average: Optional[bool]) -> ReduceOp:
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if average is not None:
        warnings.warn("Parameter `average` has been replaced with `op` and will be removed in v1.0", DeprecationWarning, stacklevel=4)
        return Average if average else Sum
    return Average if op is None else ReduceOp(op)


def refuse(module: str, name: str, instead_of: Dict[str, str]) -> NoReturn:
    """Raises for a name that `module` lacks; `instead_of` maps patterns of Horovod's other names to their replacements."""
    for names, instead in instead_of.items():
        if re.fullmatch(names, name):
            raise AttributeError(f"hvd.{name} is beyond Horovod's published examples, which dlflow covers; use {instead} instead")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class Context:
    """Everything that init() creates. Lives until shutdown()."""

    def __init__(self, make_executor: MakeExecutor) -> None:
        self.make_executor = make_executor
        meeting = Meeting()
        settings = Settings.from_environment()
        self.coordinator = Coordinator(meeting.size, settings) if meeting.rank == 0 else None
        endpoint = runtime.Endpoint(os.environ.get("DLFLOW_MEMORY"))
        if self.coordinator:
            self.coordinator.start()
        own = {"address": endpoint.address, "node": _node(), "local_rank": meeting.local_rank}
        about = meeting.tell_all({**own, "coordinator": self.coordinator and [self.coordinator.port, self.coordinator.token]})
        port, token = about[0]["coordinator"]
        self.world: World = place(meeting.rank, about)
        group = runtime.Group(endpoint, meeting.rank, [one["address"] for one in about],
                              stall_timeout=float(os.environ.get("DLFLOW_STALL_TIMEOUT", 60)))
        self.session = Session(meeting.rank, (meeting.host, port), token, settings.cycle_time, make_executor(group))
        self._counters: Counter[str] = collections.Counter()  # for requests without a name
        self._process = os.getpid()

    def made_up_name(self, kind: str) -> str:
        """Names an unnamed request: ranks make these in the same order."""
        self._counters[kind] += 1
        return f"noname.{self._counters[kind]}"

    def end(self) -> None:
        if self._process != os.getpid():
            return
        self.session.shutdown()
        if self.coordinator:
            self.coordinator.join()

    def close_in_child(self) -> None:
        self.session.close_in_child()
        if self.coordinator:
            self.coordinator.close_in_child()


def _node() -> str:
    """The same text for ranks of one machine; if the launcher counts nodes, for ranks of one such node."""
    return os.environ.get("GROUP_RANK") or os.uname().nodename


_context: Optional[Context] = None
_lock = threading.Lock()


def context() -> Context:
    if _context is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _context


def init(make_executor: MakeExecutor, comm: Any = None, process_sets: Any = None) -> None:
    """Collective: waits for all ranks. Does nothing if it was already called for the same framework."""
    global _context
    if comm is not None or process_sets is not None:
        raise NotImplementedError("hvd.init() takes no `comm` and no `process_sets` here: a session has all ranks that dlflow has started; "
                                  "torch.distributed.new_group() makes groups of some")
    with _lock:
        if _context is None:
            _context = Context(make_executor)
        elif _context.make_executor is not make_executor:
            raise ValueError("hvd.init() was called for another framework before: call hvd.shutdown() of that one first")


def shutdown() -> None:
    """Ends the session on all ranks: pending submissions of others fail. Does nothing without init()."""
    global _context
    with _lock:
        ended, _context = _context, None
    if ended is not None:
        ended.end()


def _close_in_child() -> None:
    if _context is not None:
        _context.close_in_child()


atexit.register(shutdown)
os.register_at_fork(after_in_child=_close_in_child)


def is_initialized() -> bool:
    return _context is not None


def rank() -> int:
    return context().world.rank


def size() -> int:
    return context().world.size


def local_rank() -> int:
    return context().world.local_rank


def local_size() -> int:
    return context().world.local_size


def nccl_built() -> int:
    return 0
