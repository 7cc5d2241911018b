"""A data set that any network learns: class k has a bright block at place k. Used by tests of training and of whole pipelines."""

import gzip
import random
import struct


def write_idx(path, magic, shape, data):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wb") as file:
        file.write(struct.pack(f">{1 + len(shape)}I", magic, *shape) + data)


def write(folder, train=2000, test=500, suffix=".gz"):
    """Writes training and test pictures in MNIST's format; returns the four files."""
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


def for_training(folder, workflows, train=2000, test=500):
    """Prepares a workflow's `folder`: pictures in `data`, and the `models` of `workflows`."""
    (folder / "data").mkdir()
    write(folder / "data", train, test, suffix="")
    (folder / "models").symlink_to(workflows / "models")


def training_of_two_ranks(folder, epochs):
    """A step that trains on those pictures and saves often."""
    return (f"{{uses: train, resources: {{ranks: 2}}, env: {{DLFLOW_STALL_TIMEOUT: 2}}, checkpoint: {{every: 5 steps, keep: 2}}, "
            f"with: {{model: models/lenet.yaml, data: {folder}/data, epochs: {epochs}, lr: 0.05, validation: 200}}}}")
