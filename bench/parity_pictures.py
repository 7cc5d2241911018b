"""Reads the input that bench/parity.py passes to a peer's training: `PROGRAM JSON`."""

import json
import pathlib
import sys

import numpy

GIVEN = json.loads(sys.argv[1])
DATA = pathlib.Path(GIVEN["data"])


def pictures(name, shape, label_type):
    read = lambda kind: (DATA / f"{name}-{kind}-ubyte").read_bytes()
    images = numpy.frombuffer(read("images-idx3")[16:], numpy.uint8).reshape(-1, *shape)
    labels = numpy.frombuffer(read("labels-idx1")[8:], numpy.uint8)
    return (images.astype("f4") / 255 - GIVEN["mean"]) / GIVEN["deviation"], labels.astype(label_type)
