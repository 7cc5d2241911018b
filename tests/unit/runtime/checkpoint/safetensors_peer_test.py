"""usage: python safetensors_peer_test.py SAFETENSORS_COPY

Compares dlflow's reader and writer with the reference implementation of the format.
"""

import ctypes
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import safetensors
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    print(f"skipped here: {error}")
    sys.exit(77)

random = np.random.default_rng(1)
TENSORS = {
    "layer.0.weight": random.standard_normal((16, 3, 3, 3), dtype=np.float32),
    "layer.0.bias": random.standard_normal(16, dtype=np.float32),
    "a half": random.standard_normal((5, 1)).astype(np.float16),
    "größe": random.standard_normal(7),
    "step": np.array(-3, dtype=np.int64),
    "labels": np.arange(13, dtype=np.uint8),
    "indices": np.arange(-4, 4, dtype=np.int32).reshape(2, 2, 2),
    "nothing": np.zeros((0, 4), dtype=np.float32),
    'quote " and \\ and \n': np.array([np.nan, np.inf, -0.0], dtype=np.float32),
}


def copied(path):
    """What dlflow writes after reading `path`."""
    subprocess.run([sys.argv[1], path, path + ".copy"], check=True)
    return path + ".copy"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def same_bytes_and_values(folder):
    for name, metadata in [("plain", None), ("metadata", {"format": "pt"})]:
        path = os.path.join(folder, name)
        save_file(TENSORS, path, metadata)
        copy = copied(path)
        assert read(copy) == read(path), f"{name}: dlflow's file differs from the reference's"
        loaded = load_file(copy)
        assert loaded.keys() == TENSORS.keys()
        for key, tensor in TENSORS.items():
            assert loaded[key].dtype == tensor.dtype and loaded[key].shape == tensor.shape
            assert loaded[key].tobytes() == tensor.tobytes(), key


def bf16(folder):  # a type that numpy does not have
    data = ctypes.create_string_buffer(b"\x80\x3f\x00\x40", 4)
    spec = safetensors.TensorSpec(
        dtype="bfloat16", shape=[2], data_ptr=ctypes.addressof(data), data_len=4
    )
    path = os.path.join(folder, "bf16")
    with open(path, "wb") as file:
        file.write(safetensors.serialize({"w": spec}))
    assert read(copied(path)) == read(path)


with tempfile.TemporaryDirectory() as temporary:
    same_bytes_and_values(temporary)
    bf16(temporary)
