"""make_features.py DATA FILE COMPONENTS: scales the pictures and projects them on principal components, with scikit-learn."""

import gzip
import sys

import numpy
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

data, file, components = sys.argv[1], sys.argv[2], int(sys.argv[3])


def read(part, count):
    x = numpy.frombuffer(gzip.open(f"{data}/{part}-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 784)[:count]
    return x, numpy.frombuffer(gzip.open(f"{data}/{part}-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)[:count]


(x, y), (tests, expected) = read("train", 12000), read("t10k", 2000)
pipeline = make_pipeline(StandardScaler(), PCA(components, random_state=0))
numpy.savez(file, x=pipeline.fit_transform(x), y=y, tests=pipeline.transform(tests), expected=expected)
