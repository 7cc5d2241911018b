"""Images per second of dlflow-train and of PyTorch on one GPU: the same network, data, batch and precision, taking turns.

    python3 bench/gpu_training.py [mlp lenet resnet20 resnet50] [--batch 128] [--rounds 5] [--tf32] [--compiled]

Both load batches from memory and copy them to the GPU; dlflow-train prepares them on a thread, PyTorch has the whole data set on
the GPU already, which is the faster of its users' ways. It is measured without options, with channels_last, and compiled with
CUDA graphs; the best of these counts. Both multiply matrices with cuBLAS, so no BLAS has to be checked as in bench/peers.py.
Precision is fp32 without TF32, or with --tf32 on both sides. Needs PyTorch with CUDA and build/bin/libdlflow_cuda.so.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import numpy
import torch
from torch.nn import functional

import torch_peer
from training import random_pictures, ratio, spread

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEVICE = "cuda"
EPOCHS = 4  # the first is slow on both sides: kernels are loaded and chosen


@dataclasses.dataclass(frozen=True)
class Network:
    """The input of a network of workflows/models: noise, since speed does not depend on the data."""

    shape: tuple = (1, 28, 28)
    classes: int = 10
    samples: int = 30_000
    compiles_long: bool = False  # takes minutes, so only with --compiled


NETWORKS = {"mlp": Network(samples=60_000), "lenet": Network(), "resnet20": Network(),
            "resnet50": Network((3, 224, 224), 1000, 1024, compiles_long=True)}


def data(network, folder):
    """The data as dlflow-train and as PyTorch read it."""
    if network.classes > 10:
        random_pictures(folder, network.samples, network.shape)
        return numpy.load(folder / "images.npy"), numpy.load(folder / "labels.npy")
    random = numpy.random.default_rng(1)
    images = random.integers(0, 256, (network.samples, 28, 28), numpy.uint8)
    labels = random.integers(0, network.classes, network.samples, numpy.uint8)
    for name, header, array in (("images-idx3", [2051, network.samples, 28, 28], images), ("labels-idx1", [2049, network.samples], labels)):
        (folder / f"train-{name}-ubyte").write_bytes(numpy.array(header, ">i4").tobytes() + array.tobytes())
    return images, labels


WAYS = {
    "eager": lambda model: model,
    "channels last": lambda model: model.to(memory_format=torch.channels_last),
    "compiled": lambda model: torch.compile(model, mode="reduce-overhead"),
}


def peer(name, way, batch, images, labels, epochs=EPOCHS, steps=None):
    """One epoch to warm up, then the median of the others. All steps have one size, as CUDA graphs require; `steps` are those of an epoch."""
    torch.manual_seed(0)
    model = WAYS[way](torch_peer.MODELS[name]().to(DEVICE))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    layout = torch.channels_last if way == "channels last" else torch.contiguous_format
    images = ((torch.tensor(images, device=DEVICE).float().reshape(-1, *NETWORKS[name].shape) / 255 - 0.5) / 0.29).contiguous(memory_format=layout)
    labels = torch.tensor(labels, device=DEVICE).long()
    steps = steps or len(images) // batch
    seconds = []
    for _ in range(epochs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for chosen in torch.randperm(len(images), device=DEVICE)[:steps * batch].split(batch):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return steps * batch / statistics.median(seconds[1:])


def ways_of(name, batch, images, labels, compiled):
    """The ways in which this PyTorch can train; prints why it cannot train in the others."""
    able = []
    for way in WAYS:
        if way == "compiled" and NETWORKS[name].compiles_long and not compiled:
            print(f"# left out: {name}, compiled, which takes minutes: --compiled", flush=True)
            continue
        try:
            peer(name, way, batch, images, labels, epochs=2, steps=3)
            able.append(way)
        except Exception as error:  # for example, a compiler is missing
            print(f"# left out: {name}, {way}: {str(error).splitlines()[0] if str(error) else type(error).__name__}", flush=True)
    return able


def ours(name, batch, folder, compute):
    settings = {"model": str(ROOT / f"workflows/models/{name}.yaml"), "data": "packed" if (folder / "packed").exists() else ".",
                "device": "cuda", "epochs": EPOCHS, "lr": 0.01, "batch": batch, "precision": {"reduction": "fast", "compute": compute},
                "validation": 0, "schedule": "constant", "last_batch": "drop"}
    (folder / "with.json").write_text(json.dumps(settings))
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # otherwise the previous run would be continued
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    environment = os.environ | {"DLFLOW_CHECKPOINT_EVERY": f"{EPOCHS + 1} epochs"}
    ended = subprocess.run([ROOT / "build/bin/dlflow-train", "with.json"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"dlflow-train failed:\n{ended.stderr}")
    seconds = [line["epoch_s"] for line in map(json.loads, metrics.read_text().splitlines()) if "epoch_s" in line]
    return NETWORKS[name].samples // batch * batch / statistics.median(seconds[1:])


def measure(model, batch, rounds, compute, compiled):
    """Prints the line of a network."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        images, labels = data(NETWORKS[model], folder)
        ways = ways_of(model, batch, images, labels, compiled)
        lines = [{way: peer(model, way, batch, images, labels) for way in ways} | {"dlflow": ours(model, batch, folder, compute)}
                 for _ in range(rounds)]
    print(f"{model}: " + ", ".join(f"{name} {spread([line[name] for line in lines])}" for name in lines[0]))
    best = "the best peer" if len(ways) == len(WAYS) else f"the best of {' and '.join(ways)}"
    print(f"  to {best} {ratio(lines, 'dlflow', ways)}" if ways else "  no ratio to a peer: there is none", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["mlp", "lenet", "resnet20"])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tf32", action="store_true", help="both sides may round the factors of products")
    parser.add_argument("--compiled", action="store_true", help="also compile the networks for which that takes minutes")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
    print(f"PyTorch {torch.__version__}, batch {args.batch}, {'TF32' if args.tf32 else 'fp32 without TF32'}, medians of {args.rounds} rounds, images/s")
    for model in args.models:
        measure(model, args.batch, args.rounds, "tf32" if args.tf32 else "fp32", args.compiled)


if __name__ == "__main__":
    main()
