"""The safetensors format: named tensors in one file. docs/contributor/checkpoint-format.md describes every byte.

Independent of frameworks: a tensor is its type, its shape and its bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import mmap
import os
import struct
from typing import Any, Dict, List, Mapping, Sequence, Tuple

#: Bytes per element, in the order in which the reference implementation sorts tensors.
SIZES = {"I64": 8, "U64": 8, "F64": 8, "F32": 4, "U32": 4, "I32": 4, "BF16": 2, "F16": 2, "U16": 2, "I16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
         "I8": 1, "U8": 1, "BOOL": 1}
_MAX_HEADER = 100_000_000
_RESERVED = "__metadata__"


class Damaged(Exception):
    """A file that differs from what was written. The message names it and the reason."""


@dataclasses.dataclass
class Tensor:
    dtype: str  # in the format's spelling: "F32"
    shape: Tuple[int, ...]
    data: memoryview  # of bytes; row-major


def write(path: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Tuple[int, str]:
    """Writes and syncs the new file. Returns its size in bytes and its SHA-256. Equal content gives equal files."""
    order = sorted(tensors, key=lambda name: (list(SIZES).index(tensors[name].dtype), name))
    header: Dict[str, object] = {_RESERVED: dict(sorted(metadata.items()))} if metadata else {}
    offset = 0
    for name in order:
        tensor = tensors[name]
        end = offset + tensor.data.nbytes
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    hasher = hashlib.sha256()
    with open(path, "xb", buffering=0) as file:
        for part in [memoryview(struct.pack("<Q", len(text)) + text), *(tensors[name].data for name in order)]:
            hasher.update(part)
            write_all(file.fileno(), part)
        os.fsync(file.fileno())
    return 8 + len(text) + offset, hasher.hexdigest()


def write_all(descriptor: int, data: memoryview) -> None:
    """Loops, as one call writes at most 2 GiB."""
    done = 0
    while done < len(data):
        done += os.write(descriptor, data[done:])


def read(path: str) -> Tuple[Dict[str, Tensor], Dict[str, str]]:
    """Returns the mapped tensors and the metadata. The memory is writable; the file does not change."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise Damaged(f"{path} is not a safetensors file: it has {size} bytes")
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    length = struct.unpack("<Q", data[:8])[0]
    if length > min(_MAX_HEADER, size - 8):
        raise Damaged(f"{path} is not a safetensors file: its header would have {length} bytes")
    try:
        header = json.loads(bytes(data[8:8 + length]).decode(), object_pairs_hook=_without_repeated_keys)
        metadata = header.pop(_RESERVED, {})
        return _tensors(header, data[8 + length:]), metadata
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Damaged(f"{path} is not a valid safetensors file: {error}") from None


def _without_repeated_keys(pairs: Sequence[Tuple[str, object]]) -> Dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _tensors(header: Dict[str, Dict[str, Any]], data: memoryview) -> Dict[str, Tensor]:
    tensors: Dict[str, Tensor] = {}
    ranges: List[Tuple[int, int]] = []
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        elements = 1
        for extent in shape:
            if type(extent) is not int or extent < 0:
                raise ValueError(f"tensor {name!r} has the shape {shape}")
            elements *= extent
        if type(begin) is not int or type(end) is not int or end - begin != elements * SIZES[str(entry["dtype"])]:
            raise ValueError(f"tensor {name!r} does not have the bytes of its shape")
        ranges.append((begin, end))
        tensors[name] = Tensor(str(entry["dtype"]), shape, data[begin:end])
    offset = 0
    for begin, end in sorted(ranges):
        if begin != offset:
            raise ValueError(f"byte {offset} belongs to no tensor, or to two")
        offset = end
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes at its end belong to no tensor")
    return tensors
