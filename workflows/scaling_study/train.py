"""A job of the study, on each of its ranks: trains a network on Fashion-MNIST in one way, and writes a row of numbers.

    train.py DATA        the folder with the two files, unpacked

`exposed` is the share of the time of training in which ranks only communicate. Ours is the time that dlflow-train waits; of the others, by how much a step is
longer than the same step of ranks that exchange nothing.
"""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import time

import dlflow

STEPS = 30  # of each of the two that are compared


def ours(given, folder):
    settings = {"model": f"models/{given.model}.yaml", "data": str(folder), "epochs": given.epochs, "batch": given.batch, "lr": given.lr, "seed": given.seed,
                "schedule": "constant"}
    pathlib.Path("with.json").write_text(json.dumps(settings))
    subprocess.run(["dlflow-train", "with.json"], check=True)
    lines = [json.loads(line) for line in pathlib.Path(os.environ["DLFLOW_METRICS"]).read_text().splitlines()]
    epochs = [line for line in lines if "epoch_s" in line]
    waited = sum(line.get("communication_wait_s", 0) for line in epochs)
    return {"images_per_s": epochs[-1]["images_per_s"], "accuracy": epochs[-1]["accuracy"], "exposed": waited / sum(line["epoch_s"] for line in epochs)}


def network(name):
    from torch import nn
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def distributed(way, model, lr):
    """The model and the optimizer that exchange gradients; rank, number of ranks, and what waits for all of them."""
    import torch
    sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    if way.startswith("horovod"):
        if way == "horovod-dlflow":
            sys.path.insert(0, str(pathlib.Path(dlflow.__file__).parent / "horovod/path"))
        import horovod.torch as hvd
        hvd.init()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters()), hvd.rank(), hvd.size(), lambda: hvd.allreduce(torch.ones(1))
    import torch.distributed as dist
    if way == "ddp-dlflow":
        importlib.import_module("dlflow.torch")
    dist.init_process_group(way.partition("-")[2])
    return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True), sgd, dist.get_rank(), dist.get_world_size(), dist.barrier


def theirs(given, folder):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    images = torch.frombuffer(bytearray((folder / "train-images-idx3-ubyte").read_bytes()), dtype=torch.uint8, offset=16).reshape(-1, 1, 28, 28) / 255
    labels = torch.frombuffer(bytearray((folder / "train-labels-idx1-ubyte").read_bytes()), dtype=torch.uint8, offset=8).long()
    images, held_out = (images - 0.286) / 0.353, min(5000, len(labels) // 10)
    plain = network(given.model)
    model, optimizer, rank, ranks, barrier = distributed(given.way, network(given.model), given.lr)
    alone = torch.optim.SGD(plain.parameters(), lr=given.lr, momentum=0.9)

    def seconds(model, optimizer, batches):
        barrier()
        start = time.perf_counter()
        for batch in batches:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
        barrier()
        return time.perf_counter() - start

    def epoch():
        steps = torch.randperm(len(labels) - held_out).split(given.batch)
        return [step[rank::ranks] for step in steps if len(step) == given.batch]

    trained = sum(seconds(model, optimizer, epoch()) for _ in range(given.epochs))
    with torch.no_grad():
        right = (model(images[-held_out:]).argmax(1) == labels[-held_out:]).double().mean().item()
    same = (epoch() * STEPS)[:STEPS]
    together = seconds(model, optimizer, same)
    return {"images_per_s": given.epochs * len(epoch()) * given.batch / trained, "accuracy": right,
            "exposed": max(0, 1 - seconds(plain, alone, same) / together)}


def main():
    given = dlflow.params(way="ours", seed=1, model="lenet", epochs=3, batch=128, lr=0.02)
    measured = (ours if given.way == "ours" else theirs)(given, pathlib.Path(sys.argv[1]))
    if os.environ["DLFLOW_RANK"] == "0":
        dlflow.report(**measured)
        pathlib.Path("row.json").write_text(json.dumps({"way": given.way, "ranks": int(os.environ["DLFLOW_RANKS"]), "repeat": given.seed} | measured))


main()
