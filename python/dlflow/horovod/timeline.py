"""A file that chrome://tracing and Perfetto show: what each tensor waits for and when it is reduced.

Rank 0 writes it. Each tensor is a row. NEGOTIATE_... lasts from its first submission to the agreement, with a mark when each rank
has it; then comes the collective, with its copies into and out of the fusion buffer.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Dict, List, Optional, TextIO

from dlflow.horovod.agreement import Request


class Timeline:
    """Any thread may call it; nothing is written before start()."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: Optional[TextIO] = None
        self._rows: Dict[str, int] = {}
        self._negotiating: Dict[str, str] = {}  # name: kind
        self._first = True
        self._mark_cycles = False
        self._began = 0.0

    def start(self, path: str, mark_cycles: bool) -> None:
        """Raises OSError if the file cannot be written."""
        self.stop()
        with self._lock:
            self._file = open(path, "w", encoding="utf-8")
            self._file.write("[")
            self._rows, self._negotiating, self._first = {}, {}, True
            self._mark_cycles, self._began = mark_cycles, time.monotonic()

    def stop(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.write("\n]\n")
                self._file.close()
                self._file = None

    def _write(self, event: Dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(("\n" if self._first else ",\n") + json.dumps(event))
        self._first = False

    def _event(self, name: str, phase: str, **more: Any) -> None:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self._rows) + 1
            self._write({"name": "process_name", "ph": "M", "pid": row, "args": {"name": name}})
        self._write({"ph": phase, "ts": int(1e6 * (time.monotonic() - self._began)), "pid": row, "tid": 0, **more})

    def submitted(self, request: Request, rank: int) -> None:
        if self._file is None:
            return
        with self._lock:
            if self._file is None:
                return
            if request.name not in self._negotiating:
                self._negotiating[request.name] = request.kind
                self._event(request.name, "B", name=f"NEGOTIATE_{request.kind.upper()}")
            self._event(request.name, "X", name=str(rank), dur=0)

    def agreed(self, names: List[str]) -> None:
        if self._file is None:
            return
        with self._lock:
            for name in names:
                if self._file is not None and self._negotiating.pop(name, None):
                    self._event(name, "E")

    def cycle(self) -> None:
        if self._file is None or not self._mark_cycles:
            return
        with self._lock:
            if self._file is not None:
                self._event("CYCLE", "i", name="CYCLE_START", s="g")

    def begin(self, names: List[str], what: str, **arguments: Any) -> None:
        self._phase(names, "B", name=what, args=arguments)

    def end(self, names: List[str]) -> None:
        self._phase(names, "E")

    def _phase(self, names: List[str], phase: str, **more: Any) -> None:
        if self._file is None:
            return
        with self._lock:
            for name in names:
                if self._file is not None:
                    self._event(name, phase, **more)
