"""A rank's end of the negotiation: its submissions, and the thread that executes the coordinator's answers.

Submissions are collected for a cycle and sent together, or at once if the program waits for one of them. The thread reads the
coordinator's answers and executes them one after the other, so all ranks execute in the same order.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import Any, Dict, List, Protocol, Tuple

from dlflow.horovod.agreement import Request
from dlflow.horovod.common.exceptions import HorovodInternalError
from dlflow.horovod.connection import Connection


class Entry:
    """A pending request of this rank, and its result. `ready.synchronize()` returns once the source is computed."""

    __slots__ = ("request", "source", "target", "ready", "error", "session_ended", "done")

    def __init__(self, request: Request, source: Any = None, target: Any = None, ready: Any = None):
        self.request, self.source, self.target, self.ready = request, source, target, ready
        self.error, self.session_ended = "", False
        self.done = threading.Event()

    def end(self, error: str = "", session_ended: bool = False) -> None:
        self.error, self.session_ended, self.source = error, session_ended, None
        self.done.set()


class Executor(Protocol):
    """Executes operations on the session's thread; each framework has one."""

    def execute(self, entries: List[Entry]) -> None:
        """The requests differ only in name, type and shape. Sets the targets of entries."""

    def leave(self, linger: float) -> None:
        """Leaves the group."""


class Session:
    """From init() to shutdown()."""

    _LINGER = 10.0

    def __init__(self, rank: int, address: Tuple[str, int], token: str, cycle_time: float, executor: Executor):
        self.rank = rank
        self._executor, self._cycle_time = executor, cycle_time
        self._connection = Connection(socket.create_connection(address, timeout=60))
        self._connection.socket.settimeout(None)
        self._connection.send({"token": token, "rank": rank, "node": os.uname().nodename})
        self._process = os.getpid()
        self._sending = threading.Lock()  # keeps requests in order; acquired before _lock
        self._lock = threading.Lock()  # guards the following; never held while sending
        self._entries: Dict[str, Entry] = {}
        self._collected: List[Any] = []
        self._numbers: Dict[str, int] = {}
        self._known: Dict[int, Request] = {}
        self._failure = ""
        self._said_waiting = False
        self._has_collected = threading.Event()
        self._threads = [threading.Thread(target=self._run, name="dlflow horovod", daemon=True),
                         threading.Thread(target=self._send_collected, name="dlflow horovod sender", daemon=True)]
        for thread in self._threads:
            thread.start()

    def close_in_child(self) -> None:
        self._connection.close()

    def submit(self, entry: Entry) -> None:
        """Submits `entry`. Raises HorovodInternalError if the session has failed, ValueError if this name is already pending."""
        request = entry.request
        if self._process != os.getpid():
            raise HorovodInternalError(f"{request.name}: this process was forked off rank {self.rank} and is not a rank itself")
        with self._lock:
            if self._failure:
                raise HorovodInternalError(self._failure, session_ended=True)
            if request.name in self._entries:
                raise ValueError(f"rank {self.rank} submitted {request.name} twice: wait for the first one, or give it another name")
            self._entries[request.name] = entry
            number = self._numbers.get(request.name)
            self._collected.append(number if number is not None and self._known[number] == request else request)
            if len(self._collected) == 1:
                self._has_collected.set()

    def wait(self, entry: Entry) -> Any:
        """Waits for the target and returns it. Raises HorovodInternalError with the reason of a failure."""
        if not entry.done.is_set():
            self._send(waits=True)
            entry.done.wait()
        if entry.error:
            raise HorovodInternalError(entry.error, session_ended=entry.session_ended)
        return entry.target

    def _send(self, waits: bool) -> None:
        with self._sending:
            with self._lock:
                items, self._collected = self._collected, []
                self._has_collected.clear()
                if not items and (not waits or self._said_waiting):
                    return
                self._said_waiting = waits
            with contextlib.suppress(OSError):  # the receiving thread reports the reason
                self._connection.send({"items": items, "waits": waits})

    def _send_collected(self) -> None:
        while not self._failure:
            self._has_collected.wait(1)
            if self._has_collected.is_set():
                time.sleep(self._cycle_time)
                self._send(waits=False)

    def _run(self) -> None:
        failure = ""
        try:
            while not failure:
                messages, alive = self._connection.receive()
                for message in messages:
                    failure = failure or self._obey(message)
                if not alive and not failure:
                    failure = "rank 0 died: killed, crashed, or its node went down"
        except Exception as error:
            failure = f"rank {self.rank}: {error}"
            with contextlib.suppress(OSError):
                self._connection.send({"failed": str(error)})
        self._fail(failure)
        self._executor.leave(self._LINGER)
        self._connection.close()

    def _obey(self, message: Dict[str, Any]) -> str:
        """Returns the reason why the session ends, or nothing."""
        for items, error, name in message.get("do", []):
            with self._lock:
                self._said_waiting = False
                if error:
                    self._entries.pop(name).end(error)
                    continue
                entries = [self._entries.pop(self._understand(item).name) for item in items]
            try:
                self._executor.execute(entries)
            except Exception:
                with self._lock:  # so that they fail with the session
                    self._entries.update({entry.request.name: entry for entry in entries})
                raise
            for entry in entries:
                entry.end()
        return message.get("end", "")

    def _understand(self, item: Any) -> Request:
        """The request of an item, whose number may be new. Called with the lock held."""
        if isinstance(item, int):
            return self._known[item]
        number, request = item[0], Request.from_json(item[1])
        if number is not None:
            self._known[number] = request
            self._numbers[request.name] = number
        return request

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failure = reason
            entries, self._entries = list(self._entries.values()), {}
        self._has_collected.set()
        for entry in entries:
            entry.end(reason, session_ended=True)

    def shutdown(self) -> None:
        """Ends the session of all ranks. Pending operations fail."""
        if self._process != os.getpid():
            return
        self._send(waits=False)
        with contextlib.suppress(OSError):  # it has already ended
            self._connection.send({"bye": True})
        for thread in self._threads:
            thread.join(2 * self._LINGER)
