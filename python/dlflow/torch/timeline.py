"""DLFLOW_TIMELINE: collectives of a script over the backend `dlflow`, and its waits for them, in the format of `dlflow-train`'s timeline.json.

A step ends with each backward pass that sums gradients. Each rank writes its own file: a collective write could fail with the script.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pathlib
import socket
import sys
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional

import torch

MOST_STEPS, STEPS_BEFORE = 1000, 10
_MOST_COLLECTIVES = 100_000
_ROWS = ("steps", "computation", "communication", "waiting for communication")
_STEP, _COMMUNICATION, _WAITING = 0, 2, 3
_timeline: Optional["Timeline"] = None  # the one of this process


class Collective:
    """A collective: when the caller asked for it, when the call returned, and when it was done."""

    def __init__(self, name: str, tensor: Optional[torch.Tensor], begin: float):
        self.name = name
        self.begin = self.returned = self.end = begin
        self.bytes, self.dtype = (tensor.numel() * tensor.element_size(), tensor.dtype) if tensor is not None else (0, None)
        self.is_waited_for = False  # Work.wait() was called

    def done(self) -> None:
        self.end = time.perf_counter()


class _Span(NamedTuple):
    row: int
    name: str
    begin: float
    end: float
    bytes: Optional[int] = None


def of_process(rank: int) -> Optional["Timeline"]:
    """The timeline of this process, if it is requested; `rank` is the rank in its first group, which has all ranks."""
    global _timeline
    text = os.environ.get("DLFLOW_TIMELINE", "")
    if text and _timeline is None:
        if not text.isdecimal() or not 1 <= int(text) <= MOST_STEPS:
            raise ValueError(f"DLFLOW_TIMELINE: '{text}' is not a whole number from 1 to {MOST_STEPS}")
        _timeline = Timeline(rank, int(text))
    return _timeline


class Timeline:
    def __init__(self, rank: int, steps: int):
        self._rank, self._steps = rank, steps
        self._collectives: List[Collective] = []
        self._waits: List[_Span] = []
        self._first = 0  # number of the first collective of this step
        self._ends: List[float] = []  # ends of steps
        self._computed_at: Optional[float] = None  # set while a backward pass ends
        self._ended = False
        atexit.register(self.write)

    def begin(self, one: Collective) -> None:
        if self._ended:
            return
        self._collectives.append(one)
        if len(self._collectives) >= _MOST_COLLECTIVES:
            return self.write()
        if "reduce" not in one.name or torch.is_grad_enabled():
            return  # the call below would also be correct, but takes two milliseconds in PyTorch 1.13
        with contextlib.suppress(RuntimeError):  # not in a backward pass
            torch.autograd.Variable._execution_engine.queue_callback(self._computed)

    def returned(self, one: Collective) -> None:
        """Records the call itself as a wait, since it only communicated."""
        self._wait(one, one.begin, one.returned)

    def waited(self, one: Collective, begin: float) -> None:
        """Records that the caller has waited for it since `begin`."""
        one.is_waited_for = True
        self._wait(one, begin, time.perf_counter())

    def _wait(self, one: Collective, begin: float, end: float) -> None:
        if not self._ended and threading.current_thread() is threading.main_thread():
            self._waits.append(_Span(_WAITING, one.name, begin, end))

    def _computed(self) -> None:
        """Called at the end of a backward pass, before DistributedDataParallel waits for its sums; a callback queued now runs after them."""
        if self._computed_at is None and not self._ended:
            self._computed_at = time.perf_counter()
            torch.autograd.Variable._execution_engine.queue_callback(self._end_step)

    def _end_step(self) -> None:
        begin, self._computed_at = self._computed_at or 0.0, None
        ended = [one for one in self._collectives[self._first:] if one.end > begin and not one.is_waited_for]
        for one in sorted(ended, key=lambda one: one.end):
            self._wait(one, begin, one.end)
            begin = one.end
        self._first = len(self._collectives)
        self._ends.append(time.perf_counter())
        if len(self._ends) == STEPS_BEFORE + self._steps:
            self.write()

    def write(self) -> None:
        """Also called at the end of the process: a script with fewer steps gets all of them."""
        if self._ended:
            return
        self._ended = True
        spans = [_Span(_STEP, "step", begin, end) for begin, end in zip(self._ends, self._ends[1:])] + self._waits
        spans += [_Span(_COMMUNICATION, one.name, one.begin, one.end, one.bytes) for one in self._collectives if one.end > one.begin]
        start = self._ends[STEPS_BEFORE - 1] if len(self._ends) > STEPS_BEFORE else 0.0
        spans = sorted((span for span in spans if span.begin >= start), key=lambda span: span.begin)
        origin = spans[0].begin if spans else time.perf_counter()
        events = [self._named("process_name", 0, name=f"rank {self._rank} ({socket.gethostname()})")]
        for row, name in enumerate(_ROWS):
            events += [self._named("thread_name", row, name=name), self._named("thread_sort_index", row, sort_index=row)]
        for span in spans:
            events.append({"ph": "X", "name": span.name, "pid": self._rank, "tid": span.row, "ts": (span.begin - origin) * 1e6,
                           "dur": (span.end - span.begin) * 1e6, **({} if span.bytes is None else {"args": {"bytes": span.bytes}})})
        about = {"began_at": time.time() - (time.perf_counter() - origin)}
        file = pathlib.Path(os.environ.get("DLFLOW_METRICS") or "metrics.jsonl").with_name(f"timeline-{self._rank}.json" if self._rank else "timeline.json")
        try:
            file.write_text(json.dumps({"displayTimeUnit": "ms", "otherData": about, "traceEvents": events}) + "\n")
        except OSError as error:  # this must not end the script
            print(f"warning: DLFLOW_TIMELINE: {file} cannot be written: {error.strerror}", file=sys.stderr)

    def _named(self, what: str, row: int, **value: Any) -> Dict[str, Any]:
        return {"ph": "M", "name": what, "pid": self._rank, "tid": row, "args": value}
