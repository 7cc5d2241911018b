"""Accuracy, bytes and time of each way in which ranks cooperate, on nodes with links of a given rate; the baseline is synchronous training.

All of Fashion-MNIST, settings as in tests/runtime/cooperation_accuracy_test.py. One rank per node; all nodes share this machine's
cores. Accuracy is measured on the 10,000 test pictures, which no rank has seen.
"""

import argparse
import gzip
import json
import os
import pathlib
import tempfile

from nodes import Nodes
from training import DATA, ROOT, launch

WAYS = {
    "synchronous": {"kind": "synchronous"},
    "local SGD, every 8": {"kind": "local_sgd", "every": 8},
    "elastic averaging, every 8": {"kind": "elastic"},
    "gossip": {"kind": "gossip"},
    "pairwise averaging": {"kind": "pairwise"},
    "one server, staleness 0": {"kind": "parameter_server", "servers": 1, "staleness": 0},
    "one server, staleness 4": {"kind": "parameter_server", "servers": 1, "staleness": 4},
    "two servers, staleness 4": {"kind": "parameter_server", "servers": 2, "staleness": 4},
    "one server, unbounded": {"kind": "parameter_server", "servers": 1, "staleness": "unbounded"},
}


def train(nodes, model, epochs, cooperation, pictures):
    """Accuracy, seconds per epoch, and bytes that each node sent per epoch."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        settings = {"model": str(ROOT / f"workflows/models/{model}.yaml"), "data": str(pictures), "epochs": epochs, "lr": 0.05,
                    "batch": 128, "warmup_epochs": 0.5, "validation": 0, "cooperation": cooperation}
        (folder / "with.json").write_text(json.dumps(settings))
        _, sent = nodes.launch([ROOT / "build/bin/dlflow-train", "with.json"], folder)
        seconds = 60000 / json.loads((folder / "metrics.json").read_text())["images_per_s"]
        (folder / "with.json").write_text(json.dumps({"checkpoint": "checkpoints/latest", "data": str(pictures)}))
        launch(2, [ROOT / "build/bin/dlflow-evaluate", "with.json"], folder)
        accuracy = json.loads((folder / "metrics.json").read_text())["accuracy"]
        return {"accuracy": accuracy, "s": seconds, "bytes": [count / epochs for count in sent]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="mlp")
    parser.add_argument("--link", default="1gbit", help="as tc calls rates, each way; off: not shaped")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Nodes(args.nodes) as nodes:
        pictures = pathlib.Path(name)
        for file in DATA.glob("*.gz"):
            (pictures / file.stem).write_bytes(gzip.open(file).read())
        nodes.rate(args.link)
        print(f"{args.model}, {args.nodes} nodes of one rank, {args.link}, batch 128, {args.epochs} epochs; load {os.getloadavg()[0]:.1f}")
        print(f"{'':26}{'accuracy':>9}{'s/epoch':>9}{'times sync.':>12}{'GB/epoch':>10}{'of one node':>12}", flush=True)
        synchronous = None
        for way, cooperation in WAYS.items():
            result = train(nodes, args.model, args.epochs, cooperation, pictures)
            synchronous = synchronous or result
            print(f"{way:26}{result['accuracy']:9.3f}{result['s']:9.1f}{synchronous['s'] / result['s']:12.2f}"
                  f"{sum(result['bytes']) / 1e9:10.2f}{max(result['bytes']) / 1e9:12.2f}", flush=True)


if __name__ == "__main__":
    main()
