"""Who the ranks are: what the launcher tells each, and how they find each other."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

# Launchers that start several ranks without telling them what is needed.
_SILENT_LAUNCHERS = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE"]


class World(NamedTuple):
    """The place of a rank among all, and on its node."""
    rank: int
    size: int
    local_rank: int
    local_size: int


def place(rank: int, ranks: List[Dict[str, Any]]) -> World:
    """`ranks`: of each, its "node" and its "local_rank" there, or None where the launcher told none."""
    members = [other for other, about in enumerate(ranks) if about["node"] == ranks[rank]["node"]]
    told = [ranks[member]["local_rank"] for member in members]
    is_numbering = set(told) == set(range(len(members)))
    return World(rank, len(ranks), ranks[rank]["local_rank"] if is_numbering else members.index(rank), len(members))


def _integer(name: str) -> Optional[int]:
    text = os.environ.get(name, "")
    try:
        return int(text) if text else None
    except ValueError:
        raise ValueError(f"{name} is {text!r}; the launcher must set it to a number") from None


class Meeting:
    """Where the ranks leave messages for each other before they are connected: PyTorch's store at MASTER_ADDR:MASTER_PORT."""

    _store: Any = None  # one for the process: it may be used by later meetings

    def __init__(self) -> None:
        self.rank, self.size = _integer("RANK") or 0, _integer("WORLD_SIZE") or 1
        self.local_rank, self._own = _integer("LOCAL_RANK"), {}  # type: Dict[str, bytes]
        if "WORLD_SIZE" not in os.environ:
            for name in _SILENT_LAUNCHERS:
                if (_integer(name) or 1) > 1:
                    raise ValueError(f"{name} is {os.environ[name]}, but WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT are not set: start "
                                     "the ranks as a step of dlflow with `resources: {ranks: N}`, or set these four")
        missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
        if self.size > 1 and missing:
            raise ValueError(f"WORLD_SIZE is {self.size}, but {', '.join(missing)} not set: the launcher must set all of them")
        if not 0 <= self.rank < self.size:
            raise ValueError(f"RANK is {self.rank} and WORLD_SIZE is {self.size}: ranks are counted from 0")
        self.host = os.environ["MASTER_ADDR"] if self.size > 1 else "127.0.0.1"
        self._prefix = "dlflow/horovod/"
        if self.size > 1:
            store = self._open()
            # Ranks that call init() again meet again.
            self._prefix += f"{(store.add(self._prefix + 'joined', 1) - 1) // self.size}/"

    def _open(self) -> Any:
        if Meeting._store is None:
            from torch.distributed.rendezvous import rendezvous
            Meeting._store = next(iter(rendezvous("env://")))[0]
        return Meeting._store

    def tell(self, key: str, value: Any) -> None:
        text = json.dumps(value)
        if self.size > 1:
            self._store.set(self._prefix + key, text)
        else:
            self._own[key] = text.encode()

    def learn(self, key: str) -> Any:
        """Waits until somebody has told it."""
        return json.loads(self._store.get(self._prefix + key) if self.size > 1 else self._own[key])

    def tell_all(self, value: Any) -> List[Any]:
        """What each rank tells, in the order of ranks."""
        self.tell(f"rank/{self.rank}", value)
        return [self.learn(f"rank/{rank}") for rank in range(self.size)]
