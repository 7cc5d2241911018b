"""Ranks that train together in any framework whose tensors become NumPy arrays (JAX, TensorFlow, Keras): means and copies of arrays.

    ranks = arrays.join()
    gradients = ranks.mean(gradients)

Arrays come in lists, tuples and dictionaries, also in each other, as JAX has parameters; what comes back has the same form.

The collectives are those of dlflow.runtime. docs/user/python.md has examples.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy

from dlflow import runtime
from dlflow._tree import in_native_order

_LONGEST_LINE = 1 << 20
_TYPES = {"float32": runtime.Type.F32, "float64": runtime.Type.F64, "float16": runtime.Type.F16, "bfloat16": runtime.Type.BF16}


class Ranks:
    """The ranks of a step. Each call is made by all of them, in the same order, with arrays of the same shapes and types."""

    def __init__(self, rank: int, size: int, group: runtime.Group):
        self.rank, self.size, self.group = rank, size, group

    def mean(self, arrays: Any) -> Any:
        """New arrays, each the mean of those in its place on all ranks: of gradients, of metrics. Of floating-point numbers."""
        found = _found_in(arrays)
        others = sorted({array.dtype.name for array in found} - set(_TYPES))
        if others:
            raise TypeError(f"arrays of {', '.join(others)} have no mean: floating-point numbers have")

        def start(buffer: Any) -> runtime.Work:
            return self.group.all_reduce(buffer.ctypes.data, buffer.size, _TYPES[buffer.dtype.name], runtime.Op.AVG)
        return _in_the_form_of(arrays, iter(self._unpacked(found, start)))

    def broadcast(self, arrays: Any, root: int = 0) -> Any:
        """New arrays, as those of rank `root`, of any type."""
        found = _found_in(arrays)
        return _in_the_form_of(arrays, iter(self._unpacked(found, lambda buffer: self.group.broadcast(buffer.ctypes.data, buffer.nbytes, root))))

    def _unpacked(self, found: List[Any], start: Callable[[Any], runtime.Work]) -> List[Any]:
        """One operation for all arrays of a type: many small ones would each wait for their messages."""
        result: List[Any] = [None] * len(found)
        packed: List[Tuple[List[int], Any, runtime.Work]] = []
        for name in sorted({array.dtype.name for array in found}):
            places = [place for place, array in enumerate(found) if array.dtype.name == name]
            buffer = numpy.concatenate([found[place].reshape(-1) for place in places])
            packed.append((places, buffer, start(buffer)))
        for places, buffer, work in packed:
            work.wait()
            offset = 0
            for place in places:
                size = found[place].size
                result[place] = buffer[offset:offset + size].reshape(found[place].shape)
                offset += size
        return result


def _found_in(arrays: Any) -> List[Any]:
    """In the order in which _in_the_form_of() takes them."""
    if isinstance(arrays, Mapping):
        return [array for value in arrays.values() for array in _found_in(value)]
    if isinstance(arrays, (list, tuple)):
        return [array for value in arrays for array in _found_in(value)]
    if arrays is None:
        return []
    array: Any = in_native_order(numpy.asarray(arrays))
    if array.dtype.kind in "OSU":
        raise TypeError(f"{type(arrays).__name__} is no array: give arrays in lists, tuples and dictionaries, as jax.tree.leaves() does of what JAX has")
    return [array]


def _in_the_form_of(arrays: Any, results: Iterator[Any]) -> Any:
    if isinstance(arrays, Mapping):
        return {key: _in_the_form_of(value, results) for key, value in arrays.items()}
    if isinstance(arrays, (list, tuple)):
        values = [_in_the_form_of(value, results) for value in arrays]
        if isinstance(arrays, list):
            return values
        return type(arrays)(*values) if hasattr(arrays, "_fields") else tuple(values)
    return None if arrays is None else next(results)


def join(timeout: float = 300) -> Ranks:
    """Meets the other ranks: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say which and where. One rank needs none of these."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    endpoint = runtime.Endpoint(os.environ.get("DLFLOW_MEMORY"))
    addresses = [endpoint.address]
    if size > 1:
        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        meet = _gather if rank == 0 else _tell
        addresses = meet(place, rank, size, endpoint.address, time.monotonic() + timeout)
    group = runtime.Group(endpoint, rank, addresses, timeout=1800, name="arrays")
    atexit.register(group.leave)  # else the others hear that this one died
    return Ranks(rank, size, group)


def _gather(place: Tuple[str, int], rank: int, size: int, address: str, deadline: float) -> List[str]:
    """Rank 0 learns all addresses and tells them. Who says something else than a rank is not heard."""
    found: Dict[int, Tuple[str, Optional[socket.socket]]] = {0: (address, None)}
    with socket.create_server(("", place[1]), backlog=size) as server:
        while len(found) < size:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                peer, _ = server.accept()
            except socket.timeout:
                missing = [str(other) for other in range(size) if other not in found]
                raise runtime.Error(f"rank {', '.join(missing)} did not come to {place[0]}:{place[1]}: look why it has not started") from None
            told = _line(peer, 10)
            if isinstance(told, dict) and type(told.get("rank")) is int and isinstance(told.get("address"), str) and 0 < told["rank"] < size:
                found[told["rank"]] = told["address"], peer
            else:
                peer.close()
    addresses = [found[other][0] for other in range(size)]
    for other in range(1, size):
        waiting = found[other][1]
        assert waiting is not None
        with waiting:
            waiting.sendall(json.dumps(addresses).encode() + b"\n")
    return addresses


def _tell(place: Tuple[str, int], rank: int, size: int, address: str, deadline: float) -> List[str]:
    while True:
        try:
            with socket.create_connection(place, timeout=5) as server:
                server.sendall(json.dumps({"rank": rank, "address": address}).encode() + b"\n")
                addresses = _line(server, max(0.01, deadline - time.monotonic()))
                if isinstance(addresses, list) and len(addresses) == size:
                    return addresses
        except OSError:
            pass  # rank 0 is not there yet
        if time.monotonic() > deadline:
            raise runtime.Error(f"rank 0 does not answer at {place[0]}:{place[1]}: look why it has not started, or what is between the nodes")
        time.sleep(0.05)


def _line(peer: socket.socket, timeout: float) -> Any:
    """A line of JSON, or None."""
    peer.settimeout(timeout)
    data = b""
    try:
        while not data.endswith(b"\n"):
            part = peer.recv(65536)
            if not part or len(data) > _LONGEST_LINE:
                return None
            data += part
        return json.loads(data)
    except (OSError, ValueError):
        return None
