"""The coordinator's state: which rank has submitted which tensor, and what all ranks execute next.

Ranks submit named tensors in different orders, as gradients become ready in different orders. A collective must start in the same order
on all ranks. So each rank sends its submissions to the coordinator, which answers all ranks with lists of tensors that are ready
everywhere. Each rank executes these lists in the order in which they arrive.

The coordinator gives a tensor a number when all ranks first submit it alike, and the number identifies it in later steps. If a rank's
tensor changes (another shape, another operation), it sends the whole request again.

Plain values: no sockets, no threads, and time only as an argument.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple, Union

_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}


class Request(NamedTuple):
    """A named operation on a tensor, as one rank describes it: an allreduce by `op`, or a broadcast from `root`."""
    kind: str
    name: str
    dtype: str
    shape: Tuple[int, ...]
    op: str = ""
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = -1
    device: str = "cpu"  # "cpu" or "cuda"

    @classmethod
    def from_json(cls, values: List[Any]) -> "Request":
        kind, name, dtype, shape, *rest = values
        return cls(kind, name, dtype, tuple(shape), *rest)

    @property
    def is_numbered(self) -> bool:
        """False for generated names, which are used once."""
        return ".noname." not in self.name

    def num_bytes(self) -> int:
        return _BYTES.get(self.dtype, 1) * math.prod(self.shape)

    def describe(self) -> str:
        words = [f"{self.dtype} of shape {list(self.shape)}", self.op, f"root {self.root}" if self.root >= 0 else "",
                 f"on {self.device}" if self.device != "cpu" else ""]
        if (self.prescale, self.postscale) != (1.0, 1.0):
            words.append(f"scaled by {self.prescale:g} and {self.postscale:g}")
        return ", ".join(word for word in words if word)


# A rank submits a request, or the number of one that all ranks have submitted before.
Item = Union[int, Request]


class Response(NamedTuple):
    """The ranks' next action: an operation on `items`, in this order, or an `error` of the tensor `name`."""
    items: List[Any]  # a number, or [number or None, request]
    error: str = ""
    name: str = ""


class _Pending:
    """A request that not all ranks have submitted yet."""

    def __init__(self, since: float):
        self.since, self.warned_at = since, since
        self.requests: Dict[int, Request] = {}


def ranks_text(ranks: Iterable[int]) -> str:
    ranks = sorted(ranks)
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


class Agreement:
    """The requests of all ranks."""

    def __init__(self, size: int, fusion_threshold: int, capacity: int):
        """`fusion_threshold`: the most bytes that are fused; `capacity`: the number of requests that get numbers."""
        self._size, self._fusion_threshold, self._capacity = size, fusion_threshold, capacity
        self._pending: Dict[str, _Pending] = {}
        self._ready: List[str] = []
        self._numbers: Dict[str, int] = {}
        self._known: List[Request] = []

    def submit(self, rank: int, item: Item, now: float) -> None:
        """Records an item that `rank` has submitted."""
        request = self._known[item] if isinstance(item, int) else item
        pending = self._pending.setdefault(request.name, _Pending(now))
        pending.requests[rank] = request
        if len(pending.requests) == self._size:
            self._ready.append(request.name)

    def has_ready(self) -> bool:
        return bool(self._ready)

    def take(self) -> List[Response]:
        """Returns the ready responses, to be sent in this order. Fuses compatible tensors up to the threshold."""
        responses: List[Response] = []
        open_groups: Dict[Any, Tuple[Response, int]] = {}
        for name in self._ready:
            requests = self._pending.pop(name).requests
            request, error = requests[0], self._disagreement(requests)
            if error:
                responses.append(Response([], error, name))
                continue
            alike = (request.kind, request.op, request.prescale, request.postscale, request.root, request.device)
            size = request.num_bytes()
            group, total = open_groups.get(alike, (None, 0))
            if group is None or total + size > self._fusion_threshold:
                group, total = Response([]), 0
                responses.append(group)
            group.items.append(self._number(request))
            open_groups[alike] = (group, total + size)
        self._ready = []
        return responses

    def _number(self, request: Request) -> Any:
        if not request.is_numbered:
            return [None, request]
        number = self._numbers.get(request.name)
        if number is not None and self._known[number] == request:
            return number
        if number is None:
            if len(self._known) >= self._capacity:
                return [None, request]
            number = self._numbers[request.name] = len(self._known)
            self._known.append(request)
        self._known[number] = request
        return [number, request]

    @staticmethod
    def _disagreement(requests: Dict[int, Request]) -> str:
        different: Dict[Request, List[int]] = {}
        for rank, request in requests.items():
            different.setdefault(request, []).append(rank)
        if len(different) == 1:
            return ""
        texts = sorted((sorted(ranks), f"{ranks_text(ranks)} {requests[ranks[0]].describe()}") for ranks in different.values())
        return f"{next(iter(different)).name} is not the same on all ranks: {'; '.join(text for _, text in texts)}"

    def stalled(self, now: float, limit: float) -> List[str]:
        """A sentence for each tensor for which some ranks have waited longer than `limit`; repeated after the same time."""
        late = [name for name, pending in self._pending.items() if now - pending.warned_at >= limit]
        for name in late:
            self._pending[name].warned_at = now
        return [self._waits(name, now) for name in late]

    def oldest(self, now: float, limit: float) -> str:
        """The sentence for the longest-waiting tensor, if it exceeds `limit`."""
        late = [(pending.since, name) for name, pending in self._pending.items() if now - pending.since >= limit]
        return self._waits(min(late)[1], now) if late else ""

    def _waits(self, name: str, now: float) -> str:
        pending = self._pending[name]
        missing = set(range(self._size)) - set(pending.requests)
        return (f"{name} has waited for {now - pending.since:.0f} s: {ranks_text(missing)} did not submit it, "
                f"{ranks_text(pending.requests)} did")
