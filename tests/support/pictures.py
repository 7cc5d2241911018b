"""A data set that any network learns: class k has a bright block at place k. For the tests of whole pipelines."""

import gzip
import random
import struct


def idx(path, magic, shape, data):
    with gzip.open(path, "wb") as file:
        file.write(struct.pack(f">{1 + len(shape)}I", magic, *shape) + data)


def write(folder):
    """2000 pictures to train on and 500 to test with, in MNIST's format; returns the four files."""
    rng = random.Random(5)
    for prefix, count in [("train", 2000), ("t10k", 500)]:
        images, labels = bytearray(), bytearray()
        for _ in range(count):
            label = rng.randrange(10)
            image = bytearray(rng.randbytes(784)).translate(bytes(v // 4 for v in range(256)))
            for row in range(8):
                place = (label // 5 * 14 + 3 + row) * 28 + label % 5 * 5
                image[place:place + 5] = b"\xf0" * 5
            images += image
            labels.append(label)
        idx(folder / f"{prefix}-images-idx3-ubyte.gz", 2051, (count, 28, 28), bytes(images))
        idx(folder / f"{prefix}-labels-idx1-ubyte.gz", 2049, (count,), bytes(labels))
    return [folder / f"{p}-{k}-ubyte.gz" for p in ("train", "t10k") for k in ("images-idx3", "labels-idx1")]
