"""torch.distributed's backends dlflow and gloo in one run: the time of an all_reduce, and images per second of DistributedDataParallel.

    PYTHON bench/torch_backend.py [--ranks 2] [--rounds 5] [--models mlp,lenet,resnet20] [--horovod] [--data FOLDER]

Starts the ranks itself, one thread each. The backends take turns to sum in the same processes; each way of training has its own processes in
each round, since the threads of one would take time from another. Each figure is the median of the rounds. PYTHON has PyTorch: sums need no
BLAS, but training needs one whose sgemm is a peer's (bench/peers.py). --horovod also trains with Horovod, if PYTHON has it.
"no exchange" is the same training without any sums: no backend can be faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import dlflow.torch  # noqa: F401
import peers
import torch_peer
import torch_ranks

SIZES = [4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
BACKENDS = ["gloo", "dlflow"]


def sums(groups, rounds):
    for size in SIZES:
        tensor = torch.ones(size // 4)
        calls = max(3, min(300, (64 << 20) // size))
        times = {backend: [] for backend in BACKENDS}
        for _ in range(rounds):
            for backend, group in groups.items():
                for _ in range(2):
                    dist.all_reduce(tensor, group=group)
                start = time.perf_counter()
                for _ in range(calls):
                    dist.all_reduce(tensor, group=group)
                times[backend].append((time.perf_counter() - start) / calls * 1e6)
                tensor.fill_(1)
        yield f"all_reduce of {size} B", "us", {backend: statistics.median(all) for backend, all in times.items()}


def with_ddp(model):
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return model, optimizer_of(model)


def with_horovod(model):
    import horovod.torch as horovod
    horovod.init()
    return model, horovod.DistributedOptimizer(optimizer_of(model), named_parameters=model.named_parameters())


def without_exchange(model):
    return model, optimizer_of(model)


WAYS = {"gloo": with_ddp, "dlflow": with_ddp, "Horovod": with_horovod, "no exchange": without_exchange}


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def speed_of(model, optimizer, images, labels, steps):
    """Images per second of all ranks."""
    dist.barrier()
    start = time.perf_counter()
    for step in range(steps):
        batch = slice(64 * step, 64 * step + 64)
        model.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    dist.barrier()
    return steps * 64 * dist.get_world_size() / (time.perf_counter() - start)


def training_rank(way, models, folder):
    """Prints a line of JSON: images per second of each model, measured after as many steps to warm up."""
    torch.set_num_threads(1)
    dist.init_process_group(way if way in BACKENDS else "gloo")
    images, labels = torch_peer.load(folder)
    speed = {}
    for name in models:
        torch.manual_seed(0)
        model, optimizer = WAYS[way](torch_peer.MODELS[name]())
        for _ in range(2):
            speed[name] = speed_of(model, optimizer, images, labels, 200 if name == "mlp" else 16)
    if dist.get_rank() == 0:
        print(json.dumps(speed), flush=True)


def training(args, ways, models):
    """way -> model -> images per second in each round."""
    speed = {way: {model: [] for model in models} for way in ways}
    for _ in range(args.rounds):
        for way in ways:
            arguments = ["--way", way, "--models", ",".join(models), "--data", args.data]
            ended = torch_ranks.start(args.ranks, arguments, mpi=way == "Horovod", stdout=subprocess.PIPE, text=True)
            if ended.returncode != 0:
                sys.exit(f"error: the ranks of {way} failed")
            for model, images_per_s in json.loads(ended.stdout).items():
                speed[way][model].append(images_per_s)
    return speed


def sums_rank(rounds):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    write = print if dist.get_rank() == 0 else lambda *words, **options: None
    write(f"# PyTorch {torch.__version__}, {dist.get_world_size()} ranks, load {os.getloadavg()[0]:.1f}\n# what: gloo, dlflow, how many times as fast")
    for what, unit, figures in sums(groups, rounds):
        write(f"{what}: {figures['gloo']:.0f}, {figures['dlflow']:.0f} {unit}, {figures['gloo'] / figures['dlflow']:.2f}", flush=True)
    dist.barrier()


def print_training(args, models):
    ways = [way for way in WAYS if way != "Horovod" or args.horovod]
    speed = training(args, ways, models)
    print("# network, images/s: ways; dlflow to the best other, and the most that it could be")
    for name in models:
        figures = {way: statistics.median(speed[way][name]) for way in ways}
        best = max(speed for way, speed in figures.items() if way not in ("dlflow", "no exchange"))
        print(f"{name}: {', '.join(f'{way} {speed:.0f}' for way, speed in figures.items())}; "
              f"{figures['dlflow'] / best:.2f} of at most {figures['no exchange'] / best:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="mlp,lenet,resnet20")
    parser.add_argument("--horovod", action="store_true")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    models = [name for name in args.models.split(",") if name]
    if torch_ranks.is_rank():
        return training_rank(args.way, models, args.data) if args.way else sums_rank(args.rounds)
    if models:
        peers.require_proven()
    status = torch_ranks.start(args.ranks, sys.argv[1:]).returncode
    if status != 0:
        sys.exit(status)
    print_training(args, models)


if __name__ == "__main__":
    main()
