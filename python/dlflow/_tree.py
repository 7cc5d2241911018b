"""Converts frameworks' states (nested dictionaries with tensors) to JSON and named tensors, and back. No pickle: reading runs no code.

Recognizes tensors of PyTorch and arrays with `__array__` (NumPy, JAX, TensorFlow) without importing their libraries.
"""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, Callable, Dict, List, Mapping, Tuple

from dlflow._safetensors import Damaged, Tensor

_KIND = "$"  # marks a JSON object that encodes another type
_TORCH_TYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int8": "I8", "uint8": "U8", "int16": "I16",
                "int32": "I32", "int64": "I64", "bool": "BOOL", "uint16": "U16", "uint32": "U32", "uint64": "U64",
                "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "complex64": "F32", "complex128": "F64"}
_TYPES_OF = {stored: name for name, stored in _TORCH_TYPES.items() if not name.startswith("complex")}


class Tensors:
    """Tensors to be written, by name. Keeps the owners of their memory alive."""

    def __init__(self) -> None:
        self.by_name: Dict[str, Tensor] = {}
        self._owners: List[object] = []

    def add(self, path: str, tensor: Tensor, owner: object) -> str:
        """Returns the tensor's name: its path, with a number if that is taken."""
        name, number = path, 1
        while name in self.by_name or name == "__metadata__":
            number += 1
            name = f"{path}~{number}"
        self.by_name[name] = tensor
        self._owners.append(owner)
        return name


def encode(value: Any, tensors: Tensors, path: str = "") -> Any:
    """Encodes `value` as JSON. Raises TypeError naming the place of a value that cannot be saved."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_KIND: "float", "value": str(float(value))}
    if isinstance(value, Mapping):
        return _encode_mapping(value, tensors, path)
    if isinstance(value, (list, tuple)):
        items = [encode(item, tensors, _join(path, str(index))) for index, item in enumerate(value)]
        return items if isinstance(value, list) else {_KIND: "tuple", "items": items}
    if isinstance(value, (bytes, bytearray)):
        data = bytes(value)
        name = tensors.add(path, Tensor("U8", (len(data),), memoryview(data)), data)
        return {_KIND: "bytes", "tensor": name}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _encode_torch(torch, value, tensors, path)
    if hasattr(value, "__array__"):
        return _encode_array(value, tensors, path)
    raise TypeError(f"{path or 'the value'} is a {type(value).__name__}, which cannot be saved: numbers, texts, tensors, arrays, "
                    f"and lists and dictionaries of these can")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _encode_mapping(value: Mapping[Any, Any], tensors: Tensors, path: str) -> Any:
    if all(isinstance(key, str) and key != _KIND for key in value):
        return {key: encode(item, tensors, _join(path, key)) for key, item in value.items()}
    items = [[encode(key, tensors, path), encode(item, tensors, _join(path, str(key)))] for key, item in value.items()]
    return {_KIND: "dict", "items": items}


def _encode_torch(torch: Any, value: Any, tensors: Tensors, path: str) -> Any:
    name = str(value.dtype).replace("torch.", "")
    if name not in _TORCH_TYPES or value.layout != torch.strided:
        raise TypeError(f"{path} is a tensor of {name} and {value.layout}, which cannot be saved: dense ones of common types can")
    tensor = value.detach().cpu().resolve_conj().resolve_neg().contiguous()  # conjugated or negated views store other bits in memory
    tag = {_KIND: "tensor"}
    shape = tuple(tensor.shape)
    if name.startswith("complex"):
        tag["type"], shape = name, (*shape, 2)
    size = tensor.numel() * tensor.element_size()
    data = memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B") if size else memoryview(b"")
    tag["tensor"] = tensors.add(path, Tensor(_TORCH_TYPES[name], shape, data), tensor)
    return tag


def _encode_array(value: Any, tensors: Tensors, path: str) -> Any:
    import numpy
    if isinstance(value, numpy.ma.MaskedArray):
        raise TypeError(f"{path} is a masked array, which cannot be saved: save its data and its mask")
    array: Any = numpy.array(value, order="C", copy=True)  # later changes must not affect it
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # the type's name omits the byte order
    name = array.dtype.name
    if name not in _TORCH_TYPES:
        raise TypeError(f"{path} is an array of {name}, which cannot be saved: arrays of numbers and booleans can")
    if isinstance(value, numpy.generic):
        return encode(value.item(), tensors, path)
    tag, shape = {_KIND: "array"}, array.shape
    if name.startswith("complex"):
        tag["type"], shape = name, (*shape, 2)
    data = memoryview(array.reshape(-1).view(numpy.uint8)).cast("B") if array.size else memoryview(b"")
    tag["tensor"] = tensors.add(path, Tensor(_TORCH_TYPES[name], shape, data), array)
    return tag


def decode(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of encode(). Raises Damaged."""
    if isinstance(value, list):
        return [decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if _KIND not in value:
        return {key: decode(item, tensors) for key, item in value.items()}
    try:
        return _DECODERS[value[_KIND]](value, tensors)
    except KeyError as error:
        raise Damaged(f"there is no {error} in a saved state") from None


def to_torch(tensor: Tensor) -> Any:
    """Copies it to a tensor of PyTorch. Raises AttributeError if this PyTorch lacks the type."""
    import torch
    dtype = getattr(torch, _TYPES_OF[tensor.dtype])
    if tensor.data.nbytes == 0:
        return torch.empty(tensor.shape, dtype=dtype)
    return torch.frombuffer(tensor.data, dtype=torch.uint8).clone().view(dtype).reshape(tensor.shape)  # other programs may write unaligned tensors


def _decode_torch(value: Dict[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    import torch
    result = to_torch(tensors[value["tensor"]])
    return torch.view_as_complex(result) if "type" in value else result


def _decode_array(value: Dict[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    import numpy
    tensor = tensors[value["tensor"]]
    name = _TYPES_OF[tensor.dtype]
    try:
        dtype = numpy.dtype(name)
    except TypeError:
        import ml_dtypes  # bfloat16 and the 8-bit floats of JAX, which installs it
        dtype = numpy.dtype(getattr(ml_dtypes, name))
    result = numpy.frombuffer(tensor.data, dtype=dtype).reshape(tensor.shape).copy()
    return result.view(value["type"])[..., 0] if "type" in value else result


_DECODERS: Dict[str, Callable[[Dict[str, Any], Mapping[str, Tensor]], Any]] = {
    "float": lambda value, tensors: float(value["value"]),
    "tuple": lambda value, tensors: tuple(decode(item, tensors) for item in value["items"]),
    "dict": lambda value, tensors: {decode(key, tensors): decode(item, tensors) for key, item in value["items"]},
    "bytes": lambda value, tensors: bytes(tensors[value["tensor"]].data),
    "tensor": _decode_torch,
    "array": _decode_array,
}


def to_bytes(value: Any) -> bytes:
    """Serializes a small state for another rank."""
    import json
    tensors = Tensors()
    tree = encode(value, tensors)
    parts = {name: [tensor.dtype, list(tensor.shape), bytes(tensor.data).hex()] for name, tensor in tensors.by_name.items()}
    return json.dumps([tree, parts]).encode()


def from_bytes(data: bytes) -> Any:
    import json
    tree, parts = json.loads(data)
    tensors: Dict[str, Tensor] = {}
    for name, (dtype, shape, text) in parts.items():
        tensors[name] = Tensor(dtype, tuple(shape), memoryview(bytearray.fromhex(text)))
    return decode(tree, tensors)
