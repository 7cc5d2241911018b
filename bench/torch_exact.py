"""dlflow.torch.exact and DistributedDataParallel over gloo in one run: images per second of the same model, data, ranks and batch.

    PYTHON bench/torch_exact.py [--ranks 2] [--rounds 5] [--models mlp,lenet,resnet20] [--virtual-ranks 2,4,8] [--batch 128] [--data FOLDER]

Starts the ranks itself, one thread each. All take turns in the same processes; each figure is the median of the rounds. Both read the same
DataLoader. PYTHON has PyTorch with a BLAS whose sgemm is a peer's (bench/peers.py).
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils import data

import dlflow.torch
import peers
import torch_peer
import torch_ranks

STEPS = {"mlp": 50, "lenet": 6, "resnet20": 4}  # per round


class Numbers(data.Dataset):
    """A data set of images in memory; `collate` takes the images of a batch out together."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, number):
        return number

    def collate(self, numbers):
        return self.images[numbers], self.labels[numbers]


def loader(images, labels, batch, **options):
    dataset = Numbers(images, labels)
    return data.DataLoader(dataset, batch, collate_fn=dataset.collate, drop_last=True, **options)


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def ddp(name, images, labels, batch):
    """A function that makes a step; `batch` counts the samples of all ranks."""
    model = torch_peer.MODELS[name]().to(memory_format=torch.channels_last)
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = optimizer_of(model)
    sampler = data.distributed.DistributedSampler(range(len(labels)), shuffle=True)
    batches = iter(loader(images, labels, batch // dist.get_world_size(), sampler=sampler))

    def step():
        x, y = next(batches)
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return step


def exact(name, images, labels, batch, virtual_ranks):
    model = torch_peer.MODELS[name]().to(memory_format=torch.channels_last)
    training = dlflow.torch.exact(model, loader(images, labels, batch, shuffle=True), virtual_ranks)
    optimizer = optimizer_of(model)
    steps = iter(training)

    def step():
        for x, y in (one := next(steps)):
            one.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
    return step


def measure(args, name, images, labels):
    """Images per second of DDP and of exact mode with each number of virtual ranks."""
    ways = {"DDP": ddp(name, images, labels, args.batch)}
    for number in args.virtual_ranks:
        ways[number] = exact(name, images, labels, args.batch, number)
    speed = {way: [] for way in ways}
    for round in range(args.rounds + 1):  # the first round warms up
        for way, step in ways.items():
            torch.use_deterministic_algorithms(way != "DDP")
            dist.barrier()
            start = time.perf_counter()
            for _ in range(STEPS[name]):
                step()
            dist.barrier()
            if round > 0:
                speed[way].append(STEPS[name] * args.batch / (time.perf_counter() - start))
    torch.use_deterministic_algorithms(False)
    return {way: statistics.median(all) for way, all in speed.items()}


def rank(args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    images, labels = torch_peer.load(args.data)
    images = images.contiguous(memory_format=torch.channels_last)
    if dist.get_rank() == 0:
        print(f"# PyTorch {torch.__version__}, {dist.get_world_size()} ranks, {args.batch} images per step, load {os.getloadavg()[0]:.1f}\n"
              "# what: DDP, exact images/s, share of DDP's speed")
    for name in args.models.split(","):
        speed = measure(args, name, images, labels)
        for number in args.virtual_ranks:
            if dist.get_rank() == 0:
                share = speed[number] / speed["DDP"]
                print(f"{name}, {number} virtual ranks: {speed['DDP']:.0f}, {speed[number]:.0f} images/s, {share:.2f}", flush=True)
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="mlp,lenet,resnet20")
    parser.add_argument("--virtual-ranks", default="2,4,8", type=lambda text: [int(number) for number in text.split(",")])
    parser.add_argument("--batch", type=int, default=128, help="of all ranks together")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    if not torch_ranks.is_rank():
        peers.require_proven()
    torch_ranks.run(args.ranks, lambda: rank(args))


if __name__ == "__main__":
    main()
