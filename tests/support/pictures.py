"""A data set that any network learns: class k has a bright block at place k. For the tests of training and of whole pipelines."""

import gzip
import random
import struct


def write_idx(path, magic, shape, data):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wb") as file:
        file.write(struct.pack(f">{1 + len(shape)}I", magic, *shape) + data)


def write(folder, train=2000, test=500, suffix=".gz"):
    """Pictures to train on and to test with, in MNIST's format; returns the four files."""
    rng = random.Random(5)
    files = []
    for prefix, count in [("train", train), ("t10k", test)]:
        images, labels = bytearray(), bytearray()
        for _ in range(count):
            label = rng.randrange(10)
            image = bytearray(rng.randbytes(784)).translate(bytes(v // 4 for v in range(256)))
            for row in range(8):
                place = (label // 5 * 14 + 3 + row) * 28 + label % 5 * 5
                image[place:place + 5] = b"\xf0" * 5
            images += image
            labels.append(label)
        files += [folder / f"{prefix}-images-idx3-ubyte{suffix}", folder / f"{prefix}-labels-idx1-ubyte{suffix}"]
        write_idx(files[-2], 2051, (count, 28, 28), bytes(images))
        write_idx(files[-1], 2049, (count,), bytes(labels))
    return files
