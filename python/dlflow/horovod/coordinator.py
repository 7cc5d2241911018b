"""The coordinator: a thread of rank 0 that sends all ranks their next operations.

Each rank has a connection to it. The coordinator answers once a tensor is ready on all ranks: at once if all ranks wait for it,
otherwise after a cycle (HOROVOD_CYCLE_TIME), in which more tensors become ready for fusion. A connection that ends without goodbye means
that its rank died; the coordinator then ends all others.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Set

from dlflow.horovod.agreement import Agreement, Request
from dlflow.horovod.connection import Connection, listen
from dlflow.horovod.settings import Settings

_LINGER = 10.0  # seconds for ranks to receive what was sent


class _Peer:
    """A connected rank, once it has identified itself."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.rank = -1
        self.node = ""
        self.waits = False  # its program is blocked
        self.may_leave = False


class Coordinator:
    """Listens from the beginning; serves after start()."""

    def __init__(self, size: int, settings: Settings):
        self._size, self._settings = size, settings
        self._agreement = Agreement(size, settings.fusion_threshold, settings.cache_capacity)
        self._server = listen(0, size)
        self.port = self._server.getsockname()[1]
        self.token = secrets.token_hex(16)  # keeps strangers out
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._peers: Dict[int, _Peer] = {}
        self._unknown: List[_Peer] = []
        self._over = False
        self._over_at = 0.0
        self._ready_since: Optional[float] = None
        self._thread = threading.Thread(target=self._run, name="dlflow horovod coordinator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(_LINGER + 1)

    def close_in_child(self) -> None:
        """A forked child must not keep the connections open when this process ends."""
        self._server.close()
        for peer in list(self._peers.values()) + self._unknown:
            peer.connection.close()

    def _run(self) -> None:
        try:
            while not self._over or (self._peers and time.monotonic() < self._over_at + _LINGER):
                self._turn()
        except Exception as error:  # otherwise the ranks would wait for ever
            self._end(f"the coordinator on rank 0 failed: {error!r}", set())
            raise
        finally:
            self.close_in_child()
            self._selector.close()

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._time_to_wait()):
            if key.data is None:
                self._accept()
            else:
                self._receive(key.data)
        now = time.monotonic()
        if self._agreement.has_ready() and not self._over:
            if self._ready_since is None:
                self._ready_since = now
            everybody = all(peer.waits for peer in self._peers.values())
            if everybody or now >= self._ready_since + self._settings.cycle_time:
                self._answer()
        self._check_stalls(now)

    def _time_to_wait(self) -> float:
        if self._ready_since is not None:
            return max(0.0, self._ready_since + self._settings.cycle_time - time.monotonic())
        return 0.5  # to check for stalls, and whether all have left

    def _accept(self) -> None:
        end, _ = self._server.accept()
        peer = _Peer(Connection(end))
        self._unknown.append(peer)
        self._selector.register(end, selectors.EVENT_READ, peer)

    def _receive(self, peer: _Peer) -> None:
        try:
            messages, alive = peer.connection.receive()
        except ValueError:  # invalid JSON: a stranger
            messages, alive = [], False
        for message in messages:
            if peer.rank < 0:
                alive = self._greet(peer, message) and alive
            else:
                self._hear(peer, message)
            if not alive:
                break
        if not alive:
            self._lose(peer)

    def _greet(self, peer: _Peer, message: Any) -> bool:
        if not isinstance(message, dict) or not secrets.compare_digest(str(message.get("token")), self.token):
            return False
        peer.rank, peer.node = message["rank"], message["node"]
        self._peers[peer.rank] = peer
        self._unknown.remove(peer)
        if len(self._peers) == self._size:
            self._selector.unregister(self._server)
            self._server.close()
        return True

    def _hear(self, peer: _Peer, message: Dict[str, Any]) -> None:
        if "failed" in message:
            return self._end(message["failed"], {peer.rank})
        if "bye" in message:
            peer.may_leave = True
            return self._end(f"rank {peer.rank} (node {peer.node}) has called shutdown(), or its program has ended", set())
        now = time.monotonic()
        for item in message.get("items", []):
            self._agreement.submit(peer.rank, item if isinstance(item, int) else Request.from_json(item), now)
        peer.waits = bool(message.get("waits"))

    def _lose(self, peer: _Peer) -> None:
        self._selector.unregister(peer.connection.socket)
        peer.connection.close()
        if peer.rank < 0:
            self._unknown.remove(peer)
            return
        del self._peers[peer.rank]
        if not peer.may_leave and not self._over:
            self._end(f"rank {peer.rank} (node {peer.node}) died: killed, crashed, or its node went down", {peer.rank})

    def _send(self, peer: _Peer, message: Any) -> None:
        with contextlib.suppress(OSError):  # receive() detects it
            peer.connection.send(message)

    def _answer(self) -> None:
        self._ready_since = None
        message = {"do": self._agreement.take()}
        for peer in self._peers.values():
            peer.waits = False
            self._send(peer, message)

    def _end(self, reason: str, known_to: Set[int]) -> None:
        """Ends all ranks except those in `known_to`. Earlier answers are still executed."""
        if self._over:
            return
        if not known_to and self._agreement.has_ready():
            self._answer()
        self._over, self._over_at, self._ready_since = True, time.monotonic(), None
        for rank, peer in self._peers.items():
            if rank not in known_to:
                self._send(peer, {"end": reason})
            peer.may_leave = True
            peer.connection.end_sending()

    def _check_stalls(self, now: float) -> None:
        if self._over or not self._settings.stall_check:
            return
        for text in self._agreement.stalled(now, self._settings.stall_check_time):
            print(f"dlflow.horovod: warning: {text}", file=sys.stderr, flush=True)
        last = self._settings.stall_shutdown_time
        text = self._agreement.oldest(now, last) if last > 0 else ""
        if text:
            self._end(f"{text}; all ranks end after {last:g} s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)", set())
