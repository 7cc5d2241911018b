"""A rank of bench/containers.py: DistributedDataParallel over dlflow on random pictures."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import dlflow
import dlflow.torch  # noqa: F401
import torch_peer

WARM_UP = 5
BATCH = 64

model, steps = torch_peer.MODELS[sys.argv[1]](), int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("dlflow")
model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(BATCH, 1, 28, 28), torch.zeros(BATCH, dtype=torch.int64)
for step in range(WARM_UP + steps):
    if step == WARM_UP:
        dist.barrier()
        start = time.perf_counter()
    model.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
dist.barrier()
dlflow.report(images_per_s=steps * BATCH * dist.get_world_size() / (time.perf_counter() - start))
