"""Replaces the tutorial's train.py on machines without PyTorch: the same arguments, files and failure, another model."""

import argparse
import json
import math
import os
import pathlib
import random
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--epochs", type=int, required=True)
args = parser.parse_args()
if args.lr == 0.3 and (pathlib.Path.home() / "file-server-is-away").exists():
    sys.exit("error: cannot read the training data: the file server is away")
random.seed(0)
points = [(random.uniform(-1, 1), random.uniform(-1, 1)) for _ in range(200)]
labels = [x + 2 * y > 0.2 for x, y in points]
weights = [0.0, 0.0, 0.0]


def chance(x, y):
    return 1 / (1 + math.exp(-(weights[0] * x + weights[1] * y + weights[2])))


for epoch in range(args.epochs):
    for (x, y), label in zip(points, labels):
        error = label - chance(x, y)
        for i, part in enumerate((x, y, 1)):
            weights[i] += args.lr * error * part
    with open(os.environ["DLFLOW_METRICS"], "a") as metrics:
        print(json.dumps({"epoch": epoch + 1, "epochs": args.epochs, "loss": error * error}), file=metrics)
hits = sum((chance(x, y) > 0.5) == label for (x, y), label in zip(points, labels))
(pathlib.Path(os.environ["DLFLOW_OUTPUTS"]) / "weights.pt").write_text(json.dumps(weights))
pathlib.Path(os.environ["DLFLOW_SUMMARY"]).write_text(json.dumps({"accuracy": hits / len(points)}))
