"""What the coordinator knows: who has submitted which tensor, and what all ranks are to execute next.

Ranks submit named tensors in any order: gradients become ready in another order on each rank. A collective must start in one
order on all ranks. So each rank tells the coordinator what it has, and the coordinator answers all ranks with lists of what is
ready everywhere. Each rank executes these lists in the order in which they come.

A tensor that comes again in the next step is named by a number, which the coordinator gave when it was the same on all ranks for
the first time. A rank whose tensor is another one now (another shape, another operation) sends the whole request again.

Plain values: no sockets, no threads, no clock but the one that is passed in.
"""

from __future__ import annotations

import collections
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple, Union

# Requests that are the same on all ranks: these have numbers, and these are fused.
SAME_ON_ALL = frozenset(["allreduce", "broadcast", "reducescatter"])
FUSED = frozenset(["allreduce", "broadcast"])
# Other collectives of tensors: the first dimension may differ.
UNEVEN = frozenset(["allgather", "alltoall"])

_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}


class Request(NamedTuple):
    """A named operation on a list of tensors, as one rank describes it."""
    kind: str
    set: int  # the process set
    name: str
    types: Tuple[str, ...] = ()
    shapes: Tuple[Tuple[int, ...], ...] = ()
    op: str = ""
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = -1  # rank of the process set

    @classmethod
    def from_json(cls, values: List[Any]) -> "Request":
        kind, process_set, name, types, shapes, *rest = values
        return cls(kind, process_set, name, tuple(types), tuple(map(tuple, shapes)), *rest)

    @property
    def is_numbered(self) -> bool:
        """Names that are made up are used once."""
        return self.kind in SAME_ON_ALL and ".noname." not in self.name

    def num_bytes(self) -> int:
        total = 0
        for dtype, shape in zip(self.types, self.shapes):
            count = _BYTES.get(dtype, 1)
            for dimension in shape:
                count *= dimension
            total += count
        return total

    def describe(self) -> str:
        tensors = ", ".join(f"{dtype} of shape {list(shape)}" for dtype, shape in zip(self.types, self.shapes))
        words = [tensors, self.op, f"root {self.root}" if self.root >= 0 else ""]
        if (self.prescale, self.postscale) != (1.0, 1.0):
            words.append(f"scaled by {self.prescale:g} and {self.postscale:g}")
        return ", ".join(word for word in words if word)


# What a rank submits: a number, or a request with what is this rank's own (sizes of its first dimension, its address).
Item = Union[int, Tuple[Request, Any]]


class Response(NamedTuple):
    """What the ranks `to` do next: either an operation on `items`, in this order, or an `error` of these names."""
    to: Tuple[int, ...]
    set: int
    kind: str
    items: List[Any]  # a number, or [number or None, request]
    own: List[Any] = []  # what is each rank's own, in the order of the process set
    joined: bool = False  # ranks take part that have no tensor
    error: str = ""
    names: List[str] = []

    def to_json(self) -> Dict[str, Any]:
        more = {"own": self.own, "error": self.error, "names": self.names}
        return {"set": self.set, "kind": self.kind, "items": self.items, **{key: value for key, value in more.items() if value}}


class _Pending:
    """A request that not all ranks have submitted yet."""

    def __init__(self, since: float):
        self.since, self.warned_at = since, since
        self.requests: Dict[int, Request] = {}
        self.own: Dict[int, Any] = {}


def ranks_text(ranks: Iterable[int]) -> str:
    ranks = sorted(ranks)
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _comparable(request: Request) -> Request:
    """Without what may differ between ranks."""
    if request.kind not in UNEVEN:
        return request
    return request._replace(shapes=tuple((0,) + shape[1:] for shape in request.shapes))


class Agreement:
    """The requests of all ranks and process sets."""

    def __init__(self, size: int, fusion_threshold: int, capacity: int):
        """`fusion_threshold`: bytes that are fused at most; `capacity`: how many requests get numbers."""
        self.sets: Dict[int, Tuple[int, ...]] = {0: tuple(range(size))}
        self._fusion_threshold, self._capacity = fusion_threshold, capacity
        self._next_set = 1
        self._pending: Dict[Tuple[int, str], _Pending] = {}
        self._ready: List[Tuple[int, str]] = []
        self._responses: List[Response] = []
        self._joined: Dict[int, List[int]] = collections.defaultdict(list)
        self._numbers: Dict[Tuple[int, str], int] = {}
        self._known: List[Request] = []

    def submit(self, rank: int, item: Item, now: float) -> Request:
        """`rank` has this; returns what it is."""
        request, own = (self._known[item], None) if isinstance(item, int) else item
        if request.set not in self.sets:
            self._responses.append(Response((rank,), request.set, "error", [], error=f"{request.name}: the process set {request.set} was "
                                            "removed", names=[request.name]))
        elif request.kind == "join":
            self._join(rank, request)
        else:
            key = (request.set, request.name)
            pending = self._pending.setdefault(key, _Pending(now))
            pending.requests[rank], pending.own[rank] = request, own
            if self._is_complete(key):
                self._ready.append(key)
        return request

    def _is_complete(self, key: Tuple[int, str]) -> bool:
        present = self._pending[key].requests
        missing = len(self.sets[key[0]]) - len(present)
        return missing == 0 or missing <= sum(rank not in present for rank in self._joined[key[0]])

    def _join(self, rank: int, request: Request) -> None:
        joined, members = self._joined[request.set], self.sets[request.set]
        joined.append(rank)
        self._ready += [key for key in self._pending if key[0] == request.set and key not in self._ready and self._is_complete(key)]
        if len(joined) == len(members):
            self._responses += self._fused()
            self._responses.append(Response(members, request.set, "join", [[None, request]], own=[rank]))
            joined.clear()

    def has_ready(self) -> bool:
        return bool(self._ready or self._responses)

    def waited_for(self) -> List[int]:
        """The ranks that get what is ready."""
        ranks = {rank for response in self._responses for rank in response.to}
        return sorted(ranks.union(*(self.sets[key[0]] for key in self._ready)))

    def take(self) -> List[Response]:
        """What is ready, to be sent in this order."""
        responses = self._responses + self._fused()
        self._responses = []
        return responses

    def names(self, response: Response) -> List[str]:
        return response.names or [self._known[item].name if isinstance(item, int) else item[1].name for item in response.items]

    def _fused(self) -> List[Response]:
        """Responses for all that is ready. What can travel together is joined until it reaches the threshold."""
        responses: List[Response] = []
        open_groups: Dict[Any, Tuple[Response, int]] = {}
        for key in self._ready:
            response, request = self._response(key)
            if response.error or request.kind not in FUSED:
                responses.append(response)
                continue
            alike = (request.kind, request.set, request.op, request.prescale, request.postscale, request.root, response.joined)
            size = request.num_bytes()
            group, total = open_groups.get(alike, (None, 0))
            if group is not None and total + size <= self._fusion_threshold:
                group.items.extend(response.items)
                open_groups[alike] = (group, total + size)
            else:
                responses.append(response)
                open_groups[alike] = (response, size)
        self._ready = []
        return responses

    def _response(self, key: Tuple[int, str]) -> Tuple[Response, Request]:
        pending = self._pending.pop(key)
        members, request = self.sets[key[0]], next(iter(pending.requests.values()))
        joined = len(pending.requests) < len(members)
        error = self._disagreement(pending.requests) or (self._not_with_join(request) if joined else "")
        if error:
            return Response(tuple(pending.requests), key[0], "error", [], error=error, names=[request.name]), request
        own = [] if request.kind in SAME_ON_ALL else [pending.own.get(rank) for rank in members]
        if request.kind == "add_set":
            own = self._add_set(pending.own)
        elif request.kind == "remove_set":
            self._remove_set(request)
        return Response(members, key[0], request.kind, [self._number(request)], own, joined), request

    def _number(self, request: Request) -> Any:
        if not request.is_numbered:
            return [None, request]
        key = (request.set, request.name)
        number = self._numbers.get(key)
        if number is not None and self._known[number] == request:
            return number
        if number is None:
            if len(self._known) >= self._capacity:
                return [None, request]
            number = self._numbers[key] = len(self._known)
            self._known.append(request)
        self._known[number] = request
        return [number, request]

    @staticmethod
    def _disagreement(requests: Dict[int, Request]) -> str:
        different: Dict[Request, List[int]] = {}
        for rank, request in requests.items():
            different.setdefault(_comparable(request), []).append(rank)
        if len(different) == 1:
            return ""
        texts = sorted((sorted(ranks), f"{ranks_text(ranks)} {requests[ranks[0]].describe()}") for ranks in different.values())
        return f"{next(iter(different)).name} is not the same on all ranks: {'; '.join(text for _, text in texts)}"

    @staticmethod
    def _not_with_join(request: Request) -> str:
        if request.kind != "allreduce":
            return f"{request.name}: {request.kind} is not possible once a rank has called join()"
        if request.op in ("min", "max", "product"):
            return f"{request.name}: allreduce with op {request.op} is not possible once a rank has called join(), which adds zeros"
        return ""

    def _add_set(self, own: Dict[int, Any]) -> List[Any]:
        """The new set's number, and the addresses of its ranks."""
        members = tuple(sorted(rank for rank, address in own.items() if address is not None))
        number, self._next_set = self._next_set, self._next_set + 1
        self.sets[number] = members
        return [number, list(members), [own[rank] for rank in members]]

    def _remove_set(self, request: Request) -> None:
        """What is pending in it fails."""
        removed = request.root
        del self.sets[removed]
        for key in [key for key in self._pending if key[0] == removed]:
            pending = self._pending.pop(key)
            self._responses.append(Response(tuple(pending.requests), removed, "error", [], names=[key[1]],
                                            error=f"{key[1]}: the process set {removed} was removed"))

    def stalled(self, now: float, limit: float) -> List[str]:
        """A sentence for each tensor that some ranks wait for longer than `limit`, again after as long."""
        late = [key for key, pending in self._pending.items() if now - pending.warned_at >= limit]
        for key in late:
            self._pending[key].warned_at = now
        return [self._waits(key, now) for key in late]

    def oldest(self, now: float, limit: float) -> str:
        """The sentence for the tensor that waits longest, if that is longer than `limit`."""
        late = [(pending.since, key) for key, pending in self._pending.items() if now - pending.since >= limit]
        return self._waits(min(late)[1], now) if late else ""

    def _waits(self, key: Tuple[int, str], now: float) -> str:
        pending = self._pending[key]
        missing = set(self.sets[key[0]]) - set(pending.requests) - set(self._joined[key[0]])
        return (f"{key[1]} waits for {now - pending.since:.0f} s: {ranks_text(missing)} did not submit it, "
                f"{ranks_text(pending.requests)} did")
