"""A rank of bench/containers.py: DistributedDataParallel over dlflow on random pictures, a few steps in each of its turns."""

import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import dlflow.torch  # noqa: F401
import torch_peer

WARM_UP = 5
BATCH = 64

torch.manual_seed(0)  # all ranks compute the same, so that all meet the same slow denormal numbers
network, steps, turns = torch_peer.MODELS[sys.argv[1]](), int(sys.argv[2]), pathlib.Path(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("dlflow")
model = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(BATCH, 1, 28, 28), torch.randint(10, (BATCH,))


def train(count):
    """Images per second of all ranks together."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(count):
        model.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    dist.barrier()
    return count * BATCH * dist.get_world_size() / (time.perf_counter() - start)


def say(line):
    if dist.get_rank() == 0:
        print(line, file=says, flush=True)


says, begins = open(turns / "says", "w"), open(turns / f"begin-{dist.get_rank()}")
train(WARM_UP)
say("ready")
while begins.readline() == "begin\n":
    say(train(steps))
