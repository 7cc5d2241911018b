"""The ranks' places as given by the launcher, and how ranks find each other."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional

from dlflow.horovod.agreement import ranks_text
from dlflow.horovod.connection import Connection, listen

# Launchers of several ranks that do not set the required variables.
_SILENT_LAUNCHERS = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE"]


class World(NamedTuple):
    """A rank's place among all ranks, and on its node."""
    rank: int
    size: int
    local_rank: int
    local_size: int


def place(rank: int, ranks: List[Dict[str, Any]]) -> World:
    """`ranks`: each rank's "node" and "local_rank", which is None if the launcher does not set it."""
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


def _is_with_torch() -> bool:
    """Whether PyTorch's store uses the port: torchrun opens it, and a script that uses PyTorch may."""
    return "torch" in sys.modules or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _rendezvous() -> Any:
    """PyTorch's store. By default PyTorch uses libuv for it, even if built without it, as in Debian 13."""
    from torch.distributed.rendezvous import rendezvous
    try:
        return next(iter(rendezvous("env://")))[0]
    except RuntimeError as error:
        if "without libuv" not in str(error):
            raise
    os.environ["USE_LIBUV"] = "0"
    return next(iter(rendezvous("env://")))[0]


class _Store:
    """Meets through PyTorch's store."""

    _store: Any = None  # one per process: later meetings may use it

    def __init__(self, size: int) -> None:
        if _Store._store is None:
            _Store._store = _rendezvous()
        # A separate prefix for each call of init().
        self._prefix = f"dlflow/horovod/{(self._store.add('dlflow/horovod/joined', 1) - 1) // size}/"

    def tell_all(self, rank: int, size: int, value: Any) -> List[Any]:
        self._store.set(f"{self._prefix}rank/{rank}", json.dumps(value))
        return [json.loads(self._store.get(f"{self._prefix}rank/{other}")) for other in range(size)]


class _Sockets:
    """Without PyTorch: rank 0 listens, the others send it their values, and receive all values."""

    PATIENCE = 300.0  # seconds

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._end = time.monotonic() + self.PATIENCE

    def tell_all(self, rank: int, size: int, value: Any) -> List[Any]:
        return self._gather(size, value) if rank == 0 else self._ask(rank, value)

    def _gather(self, size: int, value: Any) -> List[Any]:
        told, connections = {0: value}, {}
        with listen(self._port, size) as server, contextlib.ExitStack() as ends:
            while len(told) < size:
                server.settimeout(max(0.001, self._end - time.monotonic()))
                try:
                    connection = Connection(server.accept()[0])
                except socket.timeout:
                    missing = ranks_text(rank for rank in range(size) if rank not in told)
                    raise ValueError(f"{missing} did not come to {self._host}:{self._port} within {self.PATIENCE:g} s") from None
                ends.callback(connection.close)
                connection.socket.settimeout(5)
                with contextlib.suppress(OSError, ValueError, TypeError):  # a repeated attempt, or a stranger
                    rank, about = self._message(connection)
                    if rank in range(1, size):
                        told[rank], connections[rank] = about, connection
            everything = [told[rank] for rank in range(size)]
            for connection in connections.values():
                with contextlib.suppress(OSError):  # making the group will report it
                    connection.send(everything)
        return everything

    def _ask(self, rank: int, value: Any) -> List[Any]:
        """Retries if rank 0 does not listen yet, or is ending its last meeting."""
        while True:
            try:
                with socket.create_connection((self._host, self._port), timeout=10) as end:
                    connection = Connection(end)
                    connection.send([rank, value])
                    end.settimeout(max(0.001, self._end - time.monotonic()))
                    everything: List[Any] = self._message(connection)
                    return everything
            except OSError as error:
                if time.monotonic() > self._end:
                    raise ValueError(f"rank {rank} cannot reach rank 0 at {self._host}:{self._port} (MASTER_ADDR, MASTER_PORT): {error}") from None
                time.sleep(0.05)

    @staticmethod
    def _message(connection: Connection) -> Any:
        messages, alive = connection.receive()
        while alive and not messages:
            messages, alive = connection.receive()
        if not messages:
            raise OSError("it has ended the connection")
        return messages[0]


class Meeting:
    """Exchanges values between ranks before they are connected, at MASTER_ADDR:MASTER_PORT."""

    def __init__(self) -> None:
        self.rank, self.size = _integer("RANK") or 0, _integer("WORLD_SIZE") or 1
        self.local_rank = _integer("LOCAL_RANK")
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

    def tell_all(self, value: Any) -> List[Any]:
        """Returns each rank's value, in the order of ranks. Collective."""
        if self.size == 1:
            return [value]
        place = _Store(self.size) if _is_with_torch() else _Sockets(self.host, _integer("MASTER_PORT") or 0)
        return place.tell_all(self.rank, self.size, value)
