"""torch.distributed's backend dlflow beside gloo, in one run: the time of an all_reduce, and images per second of DistributedDataParallel.

    PYTHON bench/torch_backend.py [--ranks 2] [--rounds 5] [--models mlp,lenet,resnet20] [--horovod] [--data FOLDER]

Starts the ranks itself, one thread each. All take turns in the same processes; of each figure the median of the rounds. PYTHON has
PyTorch: the sums need no BLAS, but for the training use one whose sgemm is a peer's (bench/peers.py). --horovod, with a PYTHON that has it,
also trains with Horovod. "no exchange" is the same training whose ranks sum nothing: no backend can be faster.
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


def with_ddp(group):
    """A function from a model to the model that trains, and its optimizer."""
    def wrap(model):
        model = nn.parallel.DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
        return model, optimizer_of(model)
    return wrap


def with_horovod(model):
    import horovod.torch as horovod
    return model, horovod.DistributedOptimizer(optimizer_of(model), named_parameters=model.named_parameters())


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def ways_of(groups, horovod):
    ways = {backend: with_ddp(group) for backend, group in groups.items()}
    if horovod:
        ways["Horovod"] = with_horovod
    return ways | {"no exchange": lambda model: (model, optimizer_of(model))}


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


def training(ways, rounds, models, folder):
    images, labels = torch_peer.load(folder)
    for name in models:
        trained = {}
        for way, wrap in ways.items():
            torch.manual_seed(0)
            trained[way] = wrap(torch_peer.MODELS[name]())
        speed = {way: [] for way in ways}
        for round in range(rounds + 1):  # the first one warms up
            for way, (model, optimizer) in trained.items():
                images_per_s = speed_of(model, optimizer, images, labels, 100 if name == "mlp" else 12)
                if round > 0:
                    speed[way].append(images_per_s)
        yield name, {way: statistics.median(all) for way, all in speed.items()}


def rank(args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if args.horovod:
        import horovod.torch as horovod
        horovod.init()
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    write = print if dist.get_rank() == 0 else lambda *words, **options: None
    write(f"# PyTorch {torch.__version__}, {dist.get_world_size()} ranks, load {os.getloadavg()[0]:.1f}\n# what: gloo, dlflow, how many times as fast")
    for what, unit, figures in sums(groups, args.rounds):
        write(f"{what}: {figures['gloo']:.0f}, {figures['dlflow']:.0f} {unit}, {figures['gloo'] / figures['dlflow']:.2f}", flush=True)
    write("# network, images/s: ways; dlflow to the best other, and the most that it could be")
    for name, figures in training(ways_of(groups, args.horovod), args.rounds, [name for name in args.models.split(",") if name], args.data):
        best = max(speed for way, speed in figures.items() if way not in ("dlflow", "no exchange"))
        write(f"{name}: {', '.join(f'{way} {speed:.0f}' for way, speed in figures.items())}; "
              f"{figures['dlflow'] / best:.2f} of at most {figures['no exchange'] / best:.2f}", flush=True)
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="mlp,lenet,resnet20")
    parser.add_argument("--horovod", action="store_true")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    torch_ranks.run(args.ranks, lambda: rank(args), mpi=args.horovod)


if __name__ == "__main__":
    main()
