"""The pictures of Fashion-MNIST as arrays, and what this rank sees of them in an epoch."""

import pathlib

import numpy


def read(folder, name):
    """Pictures (count, 784) from 0 to 1, and their classes (count)."""
    folder = pathlib.Path(folder)
    pictures = numpy.frombuffer((folder / f"{name}-images-idx3-ubyte").read_bytes(), numpy.uint8, offset=16)
    classes = numpy.frombuffer((folder / f"{name}-labels-idx1-ubyte").read_bytes(), numpy.uint8, offset=8)
    return pictures.reshape(-1, 784).astype("float32") / 255, classes.astype("int32")


def batches(count, size, epoch, first, rank, ranks):
    """Of each batch of the epoch from number `first` on, the samples of this rank. The order is the same for any number of ranks."""
    order = numpy.random.default_rng(epoch).permutation(count)
    for number in range(first, count // size):
        yield order[number * size:(number + 1) * size][rank::ranks]
