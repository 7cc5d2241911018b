"""Exact mode over the whole training set: the weights after two epochs on 1, 2, 3, 4 and 8 ranks, and whether they differ."""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import tempfile

import training


def weights(model, ranks, epochs):
    """SHA-256 of the last checkpoint's weights."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        training.take_samples(folder, 60000)
        settings = {"model": str(training.ROOT / f"workflows/models/{model}.yaml"), "data": ".", "epochs": epochs, "lr": 0.05,
                    "batch": 128, "precision": {"reduction": "exact", "leaves": 8}, "validation": 0}
        (folder / "with.json").write_text(json.dumps(settings))
        training.launch(ranks, [training.ROOT / "build/bin/dlflow-train", "with.json"], folder)
        newest = max((folder / "checkpoints").glob("step-*/model.safetensors"))
        return hashlib.sha256(newest.read_bytes()).hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["lenet", "resnet20"])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4, 8])
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    print(f"{args.epochs} epochs of 60,000 images, 8 leaves; load {os.getloadavg()[0]:.1f}")
    differs = False
    for model in args.models:
        found = {}
        for ranks in args.ranks:
            found[ranks] = weights(model, ranks, args.epochs)
            print(f"{model}, {ranks} ranks: {found[ranks][:16]}", flush=True)
        differs = differs or len(set(found.values())) > 1
    print("the weights differ" if differs else "the weights are the same bits")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
