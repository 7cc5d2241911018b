"""Milliseconds of a training step, and the bytes that a node sends in it, on two nodes with a slow link between them, in one run.

    PYTHON bench/torch_nodes.py [--link 1gbit] [--rounds 3] [--models mlp,lenet,vgg11] [--density 0.01]

A node is a network name space of this machine with one rank of one thread, which trains with PyTorch's own DistributedDataParallel; the ways take
turns. The best peer is gloo with the fp16 hook of PyTorch. mstopk sends only the largest numbers and keeps the rest for later steps.
"""

import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

import peers
import torch_peer
from nodes import Nodes

BATCH = {"vgg11": 16}  # 64 for the others
STEPS = {"mlp": 100, "lenet": 20, "vgg11": 4}
WAYS = ["gloo", "gloo, fp16", "dlflow", "dlflow, fp16", "dlflow, mstopk"]


def distributed_model(model, way, density):
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if way == "gloo, fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif way.startswith("dlflow, "):
        from dlflow.torch import compression
        method = way.partition(", ")[2]
        options = {"density": density} if method == "mstopk" else {}
        model.register_comm_hook(compression.State(model, method, **options), compression.hook)
    return model


def rank(args):
    """Prints a line of JSON on rank 0: seconds per step, and the loss of the last step."""
    import dlflow.torch  # noqa: F401
    os.environ |= {"RANK": os.environ["OMPI_COMM_WORLD_RANK"], "WORLD_SIZE": os.environ["OMPI_COMM_WORLD_SIZE"], "MASTER_PORT": "29511"}
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group(args.way.partition(",")[0])
    model = distributed_model(torch_peer.MODELS[args.models](), args.way, args.density)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    samples, targets, loss_of = torch_peer.samples_of(args.models, args.data)
    batch, steps = BATCH.get(args.models, 64), STEPS[args.models]
    warmup = max(3, steps // 4)
    for step in range(warmup + steps):
        if step == warmup:
            dist.barrier()
            start = time.perf_counter()
        first = (2 * step + dist.get_rank()) * batch % (len(samples) - batch)
        part = slice(first, first + batch)
        model.zero_grad(set_to_none=True)
        loss = loss_of(model(samples[part]), targets[part])
        loss.backward()
        optimizer.step()
    dist.barrier()
    if dist.get_rank() == 0:
        print(json.dumps({"s": (time.perf_counter() - start) / steps, "loss": loss.item(), "steps": warmup + steps}), flush=True)
    dist.destroy_process_group()


def measured(nodes, args, model, way):
    # Ranks in one PID name space would exchange through shared memory.
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-B", os.path.abspath(__file__), "--models", model, "--way", way, "--density", args.density, "--data", args.data]
    output, sent = nodes.launch(command, os.getcwd(), environment={"PYTHONPATH": os.path.abspath("build/python")})
    line = json.loads(output.splitlines()[-1])
    return line | {"bytes": sent[0] / line["steps"]}


def compare(nodes, args, model):
    results = [{way: measured(nodes, args, model, way) for way in WAYS} for _ in range(args.rounds)]
    print(f"\n{model}, {BATCH.get(model, 64)} samples a rank, {args.link}; load {os.getloadavg()[0]:.1f}\n{'':16}{'ms/step':>9}{'MB/step':>9}{'loss':>8}")
    for way in WAYS:
        median = {key: statistics.median(result[way][key] for result in results) for key in ("s", "bytes", "loss")}
        print(f"{way:16}{1e3 * median['s']:9.1f}{median['bytes'] / 1e6:9.2f}{median['loss']:8.3f}")
    ratios = sorted(min(result["gloo"]["s"], result["gloo, fp16"]["s"]) / result["dlflow, mstopk"]["s"] for result in results)
    print(f"the better of gloo's : mstopk {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--link", default="1gbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default="mlp,lenet,vgg11")
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        return rank(args)
    peers.require_proven()
    with Nodes(2) as nodes:
        nodes.rate(args.link)
        for model in args.models.split(","):
            compare(nodes, args, model)


main()
