"""Writes .dlset files as specified in docs/user/dlset.md."""

import hashlib
import struct


def write(path, images, labels, shape, classes, chunk_samples):
    """`images`: the bytes of consecutive images, each of `shape` (C, H, W)."""
    size = shape[0] * shape[1] * shape[2]
    count = len(labels)

    def sha256(content):
        return hashlib.sha256(content).hexdigest().encode()

    head = b"DLFDATA\n" + struct.pack("<IIQIIII", 2, 0, count, *shape, classes)
    front = struct.pack("<I20x", chunk_samples) + struct.pack(f"<{count}I", *labels)
    step = chunk_samples * size
    chunks = b"".join(sha256(images[i:i + step]) for i in range(0, len(images), step))
    rest = front + images + chunks + sha256(head + front + chunks)
    path.write_bytes(head + sha256(head + rest) + rest)
