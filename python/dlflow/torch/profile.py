"""DLFLOW_PROFILE_STEPS: measures the steps of a script, as `dlflow-train --profile-steps` measures a training.

A step is the repeated sequence of all-reduces of the gradients, from the end of the last one of a step to the end of the last one of the next.
docs/contributor/runtime.md lists the fields of the file.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import pathlib
import resource
import socket
import statistics
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional

import torch

from dlflow import runtime
from dlflow.torch.timeline import Collective

MOST_STEPS, WARM_UP = 1000, 2
_LONGEST, _MOST_SUMS = 256, 100_000  # all-reduces of a step; all-reduces examined in all
_SIZES = [1024 * 4**i for i in range(8)]
_COMPUTE = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
_taken = False  # the first group of a process has all ranks


class _Repetition(NamedTuple):
    """After the first step, `steps` steps repeat the `period` sums of the step before; sum number `end` follows them."""

    steps: int
    period: int
    end: int


def asked_for(group: runtime.Group) -> Optional["Profile"]:
    """The profile of this process, if it is requested and does not exist yet. A collective call."""
    global _taken
    text = os.environ.get("DLFLOW_PROFILE_STEPS", "")
    if not text or _taken:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= MOST_STEPS:
        raise ValueError(f"DLFLOW_PROFILE_STEPS: '{text}' is not a whole number from 1 to {MOST_STEPS}")
    if not os.environ.get("DLFLOW_CACHE"):
        raise ValueError("DLFLOW_PROFILE_STEPS has no place for its result: give a folder in DLFLOW_CACHE")
    _taken = True
    return Profile(group, int(text))


class Profile:
    def __init__(self, group: runtime.Group, steps: int):
        self._steps, self._rank, self._size = steps, group.rank, group.size
        self._nodes = len(set(group.all_gather_bytes(f"{socket.gethostname()} {os.environ.get('DLFLOW_MEMORY')}".encode())))
        self._network = [self._network_time(group, size) for size in _SIZES] if group.size > 1 else []
        self._sums: List[Collective] = []
        self._repeated = [0] * (_LONGEST + 1)  # for each period: how many of the last sums are as large as those one period before
        self._best = _Repetition(0, 1, 0)
        self._compute, self._ended = "fp32", False
        atexit.register(self._write)

    def _network_time(self, group: runtime.Group, size: int) -> Dict[str, Any]:
        data = torch.ones(size // 4)
        times: List[float] = []
        while len(times) < 4 or (sum(times) < 0.1 and len(times) < 100):
            group.barrier().wait()
            begin = time.perf_counter()
            group.all_reduce(data.data_ptr(), data.numel(), runtime.Type.F32, runtime.Op.AVG).wait()
            # The slowest rank counts, since no rank continues before the others.
            slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            group.all_reduce(slowest.data_ptr(), 1, runtime.Type.F64, runtime.Op.MAX).wait()
            times.append(slowest.item())
        return {"ranks": self._size, "nodes": self._nodes, "algorithm": None, "bytes": size, "seconds": statistics.median(times[1:])}

    def begin(self, one: Collective) -> None:
        if self._ended or not one.name.endswith("all_reduce"):
            return
        if self._best.steps >= self._steps + WARM_UP or len(self._sums) == _MOST_SUMS:
            return self._write()
        self._compute = _COMPUTE.get(one.dtype, self._compute)
        self._sums.append(one)
        for period in range(1, min(_LONGEST, len(self._sums) - 1) + 1):
            same = self._sums[-1].bytes == self._sums[-1 - period].bytes
            self._repeated[period] = self._repeated[period] + 1 if same else 0
            steps = self._repeated[period] // period
            if steps > self._best.steps:
                self._best = _Repetition(steps, period, len(self._sums))

    def _write(self) -> None:
        """Reports the longest repetition found; also called at the end of the process."""
        if self._ended or self._rank != 0:
            return
        self._ended = True
        if self._best.steps < 2:
            print("warning: DLFLOW_PROFILE_STEPS: no three steps in a row had the same all-reduces; nothing is measured", file=sys.stderr)
            return
        count, period = min(self._best.steps - 1, self._steps), self._best.period
        sums = self._sums[:self._best.end][-(count + 2) * period:]
        # The longest pause lies between the last sum of a step and the first sum of the next.
        last = max(range(period), key=lambda i: statistics.median(
            after.begin - before.end for before, after in zip(sums[i::period], sums[i + 1::period])))
        starts = list(range(last, len(sums) - period, period))[-count:]
        self._report([sums[i + 1:i + 1 + period] for i in starts], [sums[i].end for i in starts])

    def _report(self, steps: List[List[Collective]], starts: List[float]) -> None:
        times = [max(one.end for one in step) - start for step, start in zip(steps, starts)]
        exposed = [sum(one.returned - one.begin for one in step) + max(0.0, max(one.end for one in step) - step[-1].returned) for step in steps]
        step_s, waiting = statistics.median(times), statistics.median(exposed)
        low, _, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
        buckets = [{"bytes": steps[0][i].bytes, "ready_s": statistics.median(step[i].begin - start for step, start in zip(steps, starts))}
                   for i in range(len(steps[0]))]
        point = {"ranks": self._size, "nodes": self._nodes, "mode": "fast", "steps": len(times), "at": int(time.time()), "batch": None, "step_s": step_s,
                 "step_low_s": low, "step_high_s": high, "other_s": step_s - waiting, "communication_wait_s": waiting,
                 "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "buckets": buckets}
        script = pathlib.Path(sys.argv[0])
        about = {"model": hashlib.sha256(script.read_bytes() if script.is_file() else b"").hexdigest(), "compute": self._compute,
                 "processor": _processor(), "cpus_per_rank": torch.get_num_threads()}
        measurement = {**about, "format": "dlflow measurement 1", "source": "dlflow.torch",
                       "parameters_bytes": sum(one.bytes for one in steps[0]), "points": [point], "network": self._network}
        print(f"{_add_to_file(about, measurement)}: a step takes {step_s * 1e3:.3g} ms on {self._size} rank{'s' * (self._size > 1)}", flush=True)


def _processor() -> str:
    file = pathlib.Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _add_to_file(about: Dict[str, Any], measurement: Dict[str, Any]) -> pathlib.Path:
    """Replaces earlier measurements of the same kind."""
    key = hashlib.sha256(json.dumps(about, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()[:16]
    file = pathlib.Path(os.environ["DLFLOW_CACHE"]) / "measurements" / f"{os.environ.get('DLFLOW_STEP') or 'train'}-{key}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    [point] = measurement["points"]
    old = json.loads(file.read_text()) if file.exists() else {}
    for name in ("points", "network"):
        measurement[name] = [entry for entry in old.get(name, []) if (entry["ranks"], entry["nodes"]) != (point["ranks"], point["nodes"])] + measurement[name]
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_text(json.dumps(measurement, indent=1) + "\n")
    new.replace(file)
    return file
