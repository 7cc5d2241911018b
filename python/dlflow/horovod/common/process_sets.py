"""Process sets: ranks that do collectives of their own."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Protocol, Sequence, Union


class _Ranks(Protocol):
    """What a process set has to know of the session."""

    def rank(self) -> int: ...

    def ranks_of(self, process_set_id: int) -> List[int]:
        """Raises ValueError if there is no such process set."""

    def add_process_set(self, ranks: Sequence[int]) -> int: ...

    def remove_process_set(self, process_set_id: int) -> None: ...


_session: Optional[_Ranks] = None


def _require_session() -> _Ranks:
    if _session is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _session


class ProcessSet:
    """Some ranks, in ascending order. Collectives can use it once it is known to all ranks: hvd.init() or add_process_set()."""

    def __init__(self, ranks_or_comm: Sequence[int]):
        try:
            ranks = sorted(ranks_or_comm)
        except TypeError:
            raise ValueError("a process set is a list of ranks; dlflow uses no MPI and takes no MPI communicator") from None
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(f"a process set is a list of ranks, which are integers: {ranks}")
        self.ranks: Optional[List[int]] = ranks
        self.process_set_id: Optional[int] = None
        self.mpi_comm = None

    def size(self) -> Optional[int]:
        """None unless all ranks know it."""
        return None if self.process_set_id is None else len(_require_session().ranks_of(self.process_set_id))

    def rank(self) -> Optional[int]:
        """This process's place in it; None unless all ranks know it. Collectives are told global ranks, and not this one."""
        if self.process_set_id is None:
            return None
        ranks, own = _require_session().ranks_of(self.process_set_id), _require_session().rank()
        if own not in ranks:
            raise ValueError(f"rank {own} is not part of {self}")
        return ranks.index(own)

    def included(self) -> Optional[bool]:
        return None if self.ranks is None else _require_session().rank() in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Collective over all ranks, also those outside. Needs HOROVOD_DYNAMIC_PROCESS_SETS=1 or hvd.init(process_sets="dynamic")."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    assert process_set.ranks is not None
    process_set.process_set_id = _require_session().add_process_set(process_set.ranks)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Collective over all ranks. False if it is the global one, or not known."""
    if not process_set.process_set_id:
        return False
    number, process_set.process_set_id = process_set.process_set_id, None
    try:
        _require_session().ranks_of(number)
    except ValueError:
        return False
    _require_session().remove_process_set(number)
    return True


def _begin(session: Any, process_sets: Sequence[ProcessSet]) -> None:
    """After hvd.init(): all sets are new."""
    global _session
    _session = session
    global_process_set.ranks = session.ranks_of(0)
    seen: Dict[int, ProcessSet] = {}
    for process_set in process_sets:
        if id(process_set) in seen:
            raise ValueError(f"process_sets has {process_set} twice")
        seen[id(process_set)] = process_set
        assert process_set.ranks is not None
        process_set.process_set_id = session.add_process_set(process_set.ranks, static=True)


def _end() -> None:
    global _session
    _session = None
