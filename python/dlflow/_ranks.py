"""Agreement between the ranks of a step. Every rank makes each call, at the same place of its program."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any, Callable, List, Optional

from dlflow import _environment

#: Seconds after which an error names a rank that has not reached the same place.
PATIENCE = 600.0


class Alone:
    """A single rank; base class of the others."""
    rank, size = 0, 1

    def any(self, flag: bool) -> bool:
        return flag

    def meet(self, what: str) -> None:
        """Waits until rank 0 is here; afterwards the others may wait for its work without a time limit."""

    def gather(self, data: bytes, what: str) -> List[bytes]:
        """Returns every rank's data on rank 0, and nothing on others."""
        return [data]

    def share(self, data: Optional[bytes], what: str) -> bytes:
        """Returns rank 0's data on all ranks. The others wait for it."""
        assert data is not None
        return data

    def outcome(self, failure: Optional[str], what: str) -> str:
        """Returns the reason why rank 0's work failed, or nothing, on all ranks. The others wait for it."""
        return self.share(None if failure is None else failure.encode(), what).decode()


class Asked(Alone):
    """Ranks that communicate by a function of the caller: `agree(flag)` returns whether any rank passed true."""

    def __init__(self, agree: Callable[[bool], bool]):
        self.rank, self.size, self._agree = _environment.rank(), _environment.ranks(), agree

    def any(self, flag: bool) -> bool:
        return bool(self._agree(flag))

    def gather(self, data: bytes, what: str) -> List[bytes]:
        return [data] if self.rank == 0 else []

    def share(self, data: Optional[bytes], what: str) -> bytes:
        raise RuntimeError(f"{what}: a part differs on every rank, and a function of a flag cannot tell the ranks where to write it: "
                           f"give group= a dlflow.runtime.Group")

    def outcome(self, failure: Optional[str], what: str) -> str:
        failed = self.any(bool(failure))
        return failure or ("rank 0 could not save the checkpoint" if failed else "")


class OfRuntime(Alone):
    """The ranks of a dlflow.runtime.Group."""

    def __init__(self, group: Any):
        self.rank, self.size, self._group = group.rank, group.size, group

    def any(self, flag: bool) -> bool:
        from dlflow import runtime
        value = ctypes.c_int32(flag)
        self._group.all_reduce(ctypes.addressof(value), 1, runtime.Type.I32, runtime.Op.MAX).wait()
        return value.value != 0

    def gather(self, data: bytes, what: str) -> List[bytes]:
        parts: List[bytes] = self._group.all_gather_bytes(data)
        return parts if self.rank == 0 else []

    def share(self, data: Optional[bytes], what: str) -> bytes:
        size = ctypes.c_uint64(len(data or b""))
        self._group.broadcast(ctypes.addressof(size), 8, 0).wait()
        buffer = ctypes.create_string_buffer(data or b"", max(1, size.value))
        self._group.broadcast(ctypes.addressof(buffer), size.value, 0).wait()
        return buffer.raw[:size.value]


class OfTorch(Alone):
    """The ranks of torch.distributed's default group.

    Flags are combined by a collective. Data is gathered through the store by which the ranks met: it identifies a missing rank on every
    backend, while a collective would only wait.
    """
    _calls = 0

    def __init__(self, distributed: Any):
        self._distributed = distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def any(self, flag: bool) -> bool:
        import torch
        nccl = self._distributed.get_backend() == "nccl"
        value = torch.tensor([int(flag)], dtype=torch.int32, device=torch.device("cuda", torch.cuda.current_device()) if nccl else "cpu")
        self._distributed.all_reduce(value, op=self._distributed.ReduceOp.MAX)
        return bool(value.item())

    def _store(self) -> Any:
        return self._distributed.distributed_c10d._get_default_store()

    def meet(self, what: str) -> None:
        call = self._next()
        if self.rank == 0:
            self._store().add(call, 1)
        else:
            self._await(call, f"rank 0 does not call {what}: call it on every rank")

    def gather(self, data: bytes, what: str) -> List[bytes]:
        store, call = self._store(), self._next()
        if self.rank != 0:
            store.set(f"{call}/{self.rank}", data)
            store.add(f"{call}/there/{self.rank}", 1)
            return []
        parts = [data]
        for other in range(1, self.size):
            self._await(f"{call}/there/{other}", f"rank {other} does not call {what}: call it on every rank, not on rank 0 alone")
            parts.append(bytes(store.get(f"{call}/{other}")))
            store.delete_key(f"{call}/{other}")  # otherwise every checkpoint would leave data there
        return parts

    def share(self, data: Optional[bytes], what: str) -> bytes:
        store, call = self._store(), self._next()
        if self.rank == 0:
            assert data is not None
            store.set(f"{call}/shared", data)
            store.add(f"{call}/there", 1)
            # The store may end with this process, so all ranks must have read it before.
            self._await(f"{call}/read", f"not every rank calls {what}: call it on every rank, not on rank 0 alone", count=self.size - 1)
            return data
        self._await(f"{call}/there", f"rank 0 does not call {what}: call it on every rank", is_patient=True)
        told = bytes(store.get(f"{call}/shared"))
        store.add(f"{call}/read", 1)
        return told

    @classmethod
    def _next(cls) -> str:
        cls._calls += 1
        return f"dlflow/step/{cls._calls}"

    def _await(self, key: str, problem: str, is_patient: bool = False, count: int = 1) -> None:
        """Polls: a blocking wait would keep other threads from the store."""
        end = float("inf") if is_patient else time.monotonic() + PATIENCE
        pause = 0.001
        while self._store().add(key, 0) < count:
            if time.monotonic() > end:
                raise RuntimeError(problem)
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


_chosen: Any = None


def choose(group: Any) -> None:
    """Sets the `group` argument of this package's functions; None keeps the last one."""
    global _chosen
    if group is None:
        return
    if not callable(group) and not isinstance(getattr(group, "rank", None), int):
        raise TypeError(f"group is a {type(group).__name__}: give a dlflow.runtime.Group, or a function of a flag that "
                        f"returns whether any rank gave true; the groups of torch.distributed are found without it")
    _chosen = group


def met() -> Optional[Alone]:
    """The ranks of this step, if they can already exchange more than a flag."""
    if _chosen is not None:
        return None if callable(_chosen) else OfRuntime(_chosen)
    is_alone = _environment.torch_distributed() is None and _environment.ranks() > 1
    return None if is_alone else agreement("resume")


_has_warned = False


def _warn_of_worlds_of_one() -> None:
    """Printed by the first rank of a step whose ranks each made their own group: each trains alone, and writes to the same places."""
    global _has_warned
    ranks = os.environ.get("DLFLOW_RANKS", "1")
    if _has_warned or ranks == "1" or os.environ.get("DLFLOW_RANK") != "0":
        return
    _has_warned = True
    _environment.say(f"warning: this step has {ranks} ranks, but torch.distributed has a world of one here: the ranks do not train together. Leave world_size "
                     f"and rank of init_process_group() out, and let no framework start ranks of its own; or ask for one rank")


def agreement(what: str) -> Alone:
    """The ranks of this step. Raises if there are several that cannot communicate."""
    if _chosen is not None:
        return Asked(_chosen) if callable(_chosen) else OfRuntime(_chosen)
    distributed = _environment.torch_distributed()
    if distributed is not None:
        if distributed.get_world_size() > 1:
            return OfTorch(distributed)
        _warn_of_worlds_of_one()
        return Alone()
    if _environment.ranks() == 1:
        return Alone()
    raise RuntimeError(f"{what}: the {_environment.ranks()} ranks have to agree, and torch.distributed has no group yet. Call "
                       f"init_process_group() first, or give group=: a dlflow.runtime.Group, or a function of a flag that "
                       f"returns whether any rank gave true")
