"""The session of this process: init() to shutdown(), its ranks and process sets."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple, Union

from dlflow import runtime
from dlflow.horovod import settings
from dlflow.horovod.agreement import Request
from dlflow.horovod.common import process_sets as sets
from dlflow.horovod.common.process_sets import ProcessSet
from dlflow.horovod.coordinator import Coordinator
from dlflow.horovod.session import Entry, Session
from dlflow.horovod.timeline import Timeline
from dlflow.horovod.torch.execution import Execution, make_group
from dlflow.horovod.world import Meeting, World, place


class Context:
    """All that init() makes. Alive until shutdown()."""

    def __init__(self) -> None:
        meeting = Meeting()
        own = settings.Settings.from_environment()
        self.timeline = Timeline()
        path = os.environ.get("HOROVOD_TIMELINE", "")
        if meeting.rank == 0 and path not in ("", "DYNAMIC"):  # first: others may submit as soon as the coordinator is there
            self.timeline.start(path, settings.is_set("HOROVOD_TIMELINE_MARK_CYCLES"))
        self.coordinator = Coordinator(meeting.size, own, self.timeline) if meeting.rank == 0 else None
        endpoint = runtime.Endpoint(os.environ.get("DLFLOW_MEMORY"))
        if self.coordinator:
            self.coordinator.start()
            meeting.tell("coordinator", [meeting.host, self.coordinator.port, self.coordinator.token])
        about = meeting.tell_all({"address": endpoint.address, "node": _node(), "local_rank": meeting.local_rank})
        host, port, token = meeting.learn("coordinator")
        self.world: World = place(meeting.rank, about)
        group = make_group(endpoint, meeting.rank, [one["address"] for one in about], "")
        self.execution = Execution(meeting.rank, group, self.timeline)
        self.session = Session(meeting.rank, (host, port), token, own.cycle_time, self.execution)
        self._counters: Dict[Tuple[int, str], int] = {}  # of requests without a name
        self._joins = 0
        self._process = os.getpid()

    def rank(self) -> int:
        return self.world.rank

    def ranks_of(self, process_set_id: int) -> List[int]:
        if process_set_id not in self.execution.sets:
            raise ValueError(f"there is no process set {process_set_id}; it was removed, or it is of an earlier init()")
        return self.execution.sets[process_set_id]

    def add_process_set(self, ranks: Sequence[int], static: bool = False) -> int:
        if not static and not settings.is_set("HOROVOD_DYNAMIC_PROCESS_SETS"):
            raise ValueError('set HOROVOD_DYNAMIC_PROCESS_SETS=1 or call hvd.init(process_sets="dynamic") to add process sets later')
        ranks = list(ranks)
        outside = [rank for rank in ranks if not 0 <= rank < self.world.size]
        if not ranks or outside or len(set(ranks)) != len(ranks):
            raise ValueError(f"a process set has some of the ranks 0 to {self.world.size - 1}, each once: {ranks}")
        if ranks in self.execution.sets.values():
            raise ValueError(f"there is a process set of the ranks {ranks} already")
        member = self.world.rank in ranks
        endpoint = runtime.Endpoint(os.environ.get("DLFLOW_MEMORY")) if member else None
        request = Request("add_set", 0, f"add_process_set({ranks})")
        return self.call(Entry(request, (endpoint,), own=endpoint.address if endpoint else None))

    def remove_process_set(self, process_set_id: int) -> None:
        self.call(Entry(Request("remove_set", 0, f"remove_process_set({process_set_id})", root=process_set_id)))

    def call(self, entry: Entry) -> Any:
        self.session.submit(entry)
        return self.session.wait(entry)

    def made_up_name(self, process_set_id: int, kind: str) -> str:
        """Of a request without one: ranks make these in the same order, or have joined in between."""
        key = (process_set_id, kind)
        self._counters[key] = self._counters.get(key, 0) + 1
        return f"noname.{self._joins if process_set_id == 0 else 0}.{self._counters[key]}"

    def joined(self) -> None:
        """All ranks have. Those that had less data have made fewer names."""
        self._joins += 1
        self._counters = {key: count for key, count in self._counters.items() if key[0] != 0}

    def end(self) -> None:
        if self._process != os.getpid():
            return
        self.session.shutdown()
        if self.coordinator:
            self.coordinator.join()
        self.timeline.stop()

    def close_in_child(self) -> None:
        self.session.close_in_child()
        if self.coordinator:
            self.coordinator.close_in_child()


def _node() -> str:
    """Ranks of one machine give the same text; where the launcher counts nodes, its count decides."""
    return os.environ.get("GROUP_RANK") or os.uname().nodename


_context: Optional[Context] = None
_lock = threading.Lock()


def context() -> Context:
    if _context is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _context


def init(comm: Optional[Sequence[int]] = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Collective: waits for all ranks. Does nothing if it was called before."""
    global _context
    known = list(comm) if isinstance(comm, (list, tuple)) else [] if comm is None else _refuse_communicator()
    if isinstance(process_sets, str) and process_sets.lower() == "dynamic":
        os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"], process_sets = "1", None
    with _lock:
        if _context is not None:
            return
        made = Context()
        _context = made
    if known and sorted(known) != list(range(made.world.size)):
        shutdown()
        raise ValueError(f"hvd.init(comm={known}): dlflow starts all {made.world.size} ranks; for some of them use hvd.ProcessSet")
    sets._begin(made, process_sets or [])


def _refuse_communicator() -> NoReturn:
    raise ValueError("hvd.init(comm=...) takes a list of ranks; dlflow uses no MPI and takes no MPI communicator")


def shutdown() -> None:
    """Ends the session on all ranks: what others still submit fails. Does nothing without init()."""
    global _context
    with _lock:
        ended, _context = _context, None
    if ended is not None:
        sets._end()
        ended.end()


def _before_fork() -> None:
    if _context is not None:
        _context.timeline.flush()  # else the child writes it again


def _close_in_child() -> None:
    if _context is not None:
        _context.close_in_child()


atexit.register(shutdown)
os.register_at_fork(before=_before_fork, after_in_child=_close_in_child)


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


def cross_rank() -> int:
    """The number of this node among those that have a rank with this local rank."""
    return context().world.cross_rank


def cross_size() -> int:
    return context().world.cross_size


def is_homogeneous() -> bool:
    """Whether all nodes have the same number of ranks."""
    return context().world.is_homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Rank 0 writes what happens from now on to this file, for chrome://tracing; on other ranks it does nothing."""
    if context().world.rank == 0:
        context().timeline.start(file_path, mark_cycles)


def stop_timeline() -> None:
    context().timeline.stop()


def mpi_threads_supported() -> bool:
    raise ValueError("dlflow's Horovod interface uses no MPI, so mpi_threads_supported() has no answer; mpi_enabled() says False")


def mpi_enabled() -> bool:
    return False


def mpi_built() -> bool:
    return False


def gloo_enabled() -> bool:
    return False


def gloo_built() -> bool:
    return False


def nccl_built() -> int:
    return 0


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False


def cuda_built() -> bool:
    return False


def rocm_built() -> bool:
    return False
