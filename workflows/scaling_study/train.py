"""A job of the study, run on each of its ranks: trains a network on Fashion-MNIST in one way, and writes a row of numbers.

    train.py DATA        the folder with the two files, unpacked

`exposed` is the share of the training time in which the computing thread waits for sums: dlflow-train and the backend `dlflow` record it. For gloo and
Horovod it is the time from a step's last gradient to its sums.
"""

import contextlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import time

import dlflow


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


def distributed(way, model, lr, steps):
    """The model and the optimizer that exchange gradients, rank, number of ranks, and a barrier."""
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
        os.environ["DLFLOW_TIMELINE"] = str(min(1000, steps))
        importlib.import_module("dlflow.torch")
    dist.init_process_group(way.partition("-")[2])
    return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True), sgd, dist.get_rank(), dist.get_world_size(), dist.barrier


def recorded():
    """The share of the steps' time in which rank 0 waited, from its timeline."""
    importlib.import_module("dlflow.torch.timeline").of_process(0).write()
    spans = [span for span in json.loads(pathlib.Path(os.environ["DLFLOW_METRICS"]).with_name("timeline.json").read_text())["traceEvents"] if span["ph"] == "X"]
    steps = [span for span in spans if span["name"] == "step"]
    begin, end = steps[0]["ts"], steps[-1]["ts"] + steps[-1]["dur"]
    return sum(span["dur"] for span in spans if span["tid"] == 3 and begin <= span["ts"] < end) / (end - begin)


def theirs(given, folder):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    images = torch.frombuffer(bytearray((folder / "train-images-idx3-ubyte").read_bytes()), dtype=torch.uint8, offset=16).reshape(-1, 1, 28, 28) / 255
    labels = torch.frombuffer(bytearray((folder / "train-labels-idx1-ubyte").read_bytes()), dtype=torch.uint8, offset=8).long()
    images, held_out = (images - 0.286) / 0.353, min(5000, len(labels) // 10)
    steps = given.epochs * ((len(labels) - held_out) // given.batch)
    model, optimizer, rank, ranks, barrier = distributed(given.way, network(given.model), given.lr, steps)
    is_horovod, computed, waited = given.way.startswith("horovod"), [], []

    def queue(_):  # callbacks run in this order at the end of the backward pass, so this one runs before DistributedDataParallel's, which waits for sums
        torch.autograd.Variable._execution_engine.queue_callback(lambda: computed.append(time.perf_counter()))

    list(model.parameters())[-1].register_hook(queue)

    def seconds(batches):
        barrier()
        start = time.perf_counter()
        for batch in batches:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            if is_horovod:
                optimizer.synchronize()
            waited.append(time.perf_counter() - computed[-1])
            with optimizer.skip_synchronize() if is_horovod else contextlib.nullcontext():
                optimizer.step()
        barrier()
        return time.perf_counter() - start

    def epoch():
        batches = torch.randperm(len(labels) - held_out).split(given.batch)
        return [batch[rank::ranks] for batch in batches if len(batch) == given.batch]

    trained = sum(seconds(epoch()) for _ in range(given.epochs))
    with torch.no_grad():
        right = (model(images[-held_out:]).argmax(1) == labels[-held_out:]).double().mean().item()
    exposed = recorded() if given.way == "ddp-dlflow" and rank == 0 else sum(waited) / trained
    return {"images_per_s": steps * given.batch / trained, "accuracy": right, "exposed": exposed}


def main():
    given = dlflow.params(way="ours", seed=1, model="lenet", epochs=3, batch=128, lr=0.02)
    measured = (ours if given.way == "ours" else theirs)(given, pathlib.Path(sys.argv[1]))
    if os.environ["DLFLOW_RANK"] == "0":
        dlflow.report(**measured)
        pathlib.Path("row.json").write_text(json.dumps({"way": given.way, "ranks": int(os.environ["DLFLOW_RANKS"]), "repeat": given.seed} | measured))


main()
