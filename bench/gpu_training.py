"""Images per second of dlflow-train and of PyTorch on one GPU: the same network, data, batch and fp32, taking turns.

    python3 bench/gpu_training.py [mlp lenet resnet20] [--batch 128] [--rounds 5]

Both load batches from memory and copy them to the GPU; dlflow-train prepares them on a thread, PyTorch has the whole data set on
the GPU already, which is the faster of what its users do. Needs PyTorch with CUDA and build/bin/libdlflow_cuda.so.
"""

import argparse
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

ROOT = pathlib.Path(__file__).resolve().parents[1]
SAMPLES = 60_000
EPOCHS = 6  # the first is slow on both sides: kernels are loaded and chosen


def data(folder):
    """Noise in the shape of Fashion-MNIST: speed does not depend on what is learnt."""
    random = numpy.random.default_rng(1)
    images = random.integers(0, 256, (SAMPLES, 28, 28), numpy.uint8)
    labels = random.integers(0, 10, SAMPLES, numpy.uint8)
    for name, header, array in (("images-idx3", [2051, SAMPLES, 28, 28], images), ("labels-idx1", [2049, SAMPLES], labels)):
        (folder / f"train-{name}-ubyte").write_bytes(numpy.array(header, ">i4").tobytes() + array.tobytes())
    return images, labels


def peer(name, batch, images, labels):
    """One warm epoch, then the median of the others."""
    torch.manual_seed(0)
    model = torch_peer.MODELS[name]().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = (torch.tensor(images, device="cuda").float().reshape(-1, 1, 28, 28) / 255 - 0.5) / 0.29
    labels = torch.tensor(labels, device="cuda").long()
    seconds = []
    for _ in range(EPOCHS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for chosen in torch.randperm(SAMPLES, device="cuda").split(batch):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return SAMPLES / statistics.median(seconds[1:])


def ours(name, batch, folder):
    settings = {"model": str(ROOT / f"workflows/models/{name}.yaml"), "data": ".", "device": "cuda", "epochs": EPOCHS, "lr": 0.01,
                "batch": batch, "precision": {"reduction": "fast"}, "validation": 0, "schedule": "constant"}
    (folder / "with.json").write_text(json.dumps(settings))
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # else the run before this one goes on
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    environment = os.environ | {"DLFLOW_CHECKPOINT_EVERY": f"{EPOCHS + 1} epochs"}
    ended = subprocess.run([ROOT / "build/bin/dlflow-train", "with.json"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"dlflow-train failed:\n{ended.stderr}")
    seconds = [line["epoch_s"] for line in map(json.loads, metrics.read_text().splitlines()) if "epoch_s" in line]
    return SAMPLES / statistics.median(seconds[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["mlp", "lenet", "resnet20"])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"PyTorch {torch.__version__}, batch {args.batch}, fp32 without TF32, medians of {args.rounds} rounds, images/s")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        images, labels = data(folder)
        for model in args.models:
            rounds = [(peer(model, args.batch, images, labels), ours(model, args.batch, folder)) for _ in range(args.rounds)]
            theirs, mine = (statistics.median(column) for column in zip(*rounds))
            ratios = [b / a for a, b in rounds]
            print(f"{model}: PyTorch {theirs:.0f}, dlflow {mine:.0f}, ratio {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f}-{max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
