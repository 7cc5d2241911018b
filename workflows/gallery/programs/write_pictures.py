"""write_pictures.py DATA FOLDER COUNT: writes COUNT pictures of each class of Fashion-MNIST as FOLDER/{train,val}/CLASS/NUMBER.png."""

import gzip
import pathlib
import sys

import numpy
from PIL import Image

data, folder, count = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
for name, part in (("train", "train"), ("t10k", "val")):
    x = numpy.frombuffer(gzip.open(f"{data}/{name}-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 28, 28)
    y = numpy.frombuffer(gzip.open(f"{data}/{name}-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)
    for label in range(10):
        of_class = folder / part / f"class_{label}"
        of_class.mkdir(parents=True)
        for number in numpy.flatnonzero(y == label)[:count]:
            Image.fromarray(x[number]).save(of_class / f"{number}.png")
