"""torch.distributed's backend dlflow beside gloo, in one run: the time of an all_reduce, and images per second of DistributedDataParallel.

    PYTHON bench/torch_backend.py [--ranks 2] [--rounds 5] [--models mlp,lenet,resnet20] [--data FOLDER]

Starts the ranks itself, one thread each. Both backends take turns in the same processes; of each figure the median of the rounds. PYTHON has
PyTorch: the sums need no BLAS, but for the training use one whose sgemm is a peer's (bench/peers.py).
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

import dlflow.torch  # noqa: F401
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


def training(groups, rounds, models, folder):
    images, labels = torch_peer.load(folder)
    for name in models:
        trained = {}
        for backend, group in groups.items():
            torch.manual_seed(0)
            model = nn.parallel.DistributedDataParallel(torch_peer.MODELS[name](), process_group=group, gradient_as_bucket_view=True)
            trained[backend] = model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        speed = {backend: [] for backend in BACKENDS}
        for round in range(rounds + 1):  # the first one warms up
            for backend, (model, optimizer) in trained.items():
                steps = 100 if name == "mlp" else 12
                dist.barrier()
                start = time.perf_counter()
                for step in range(steps):
                    batch = slice(64 * step, 64 * step + 64)
                    model.zero_grad(set_to_none=True)
                    nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
                    optimizer.step()
                dist.barrier()
                if round > 0:
                    speed[backend].append(steps * 64 * dist.get_world_size() / (time.perf_counter() - start))
        yield f"DDP {name}", "images/s", {backend: statistics.median(all) for backend, all in speed.items()}


def rank(args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    if dist.get_rank() == 0:
        print(f"# PyTorch {torch.__version__}, {dist.get_world_size()} ranks, load {os.getloadavg()[0]:.1f}\n# what: gloo, dlflow, how many times as fast")
    models = [name for name in args.models.split(",") if name]
    for results in (sums(groups, args.rounds), training(groups, args.rounds, models, args.data)):
        for what, unit, figures in results:
            ratio = figures["gloo"] / figures["dlflow"] if unit == "us" else figures["dlflow"] / figures["gloo"]
            if dist.get_rank() == 0:
                print(f"{what}: {figures['gloo']:.0f}, {figures['dlflow']:.0f} {unit}, {ratio:.2f}", flush=True)
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="mlp,lenet,resnet20")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    torch_ranks.run(args.ranks, lambda: rank(args))


if __name__ == "__main__":
    main()
