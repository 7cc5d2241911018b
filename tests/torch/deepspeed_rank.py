"""`deepspeed_rank.py BACKEND`: DeepSpeed trains with each stage of ZeRO, and prints a hash of the weights of each."""

import hashlib
import sys

import deepspeed
import torch
import torch.distributed as dist

import dlflow.torch  # noqa: F401


def trained(stage):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    config = {"train_micro_batch_size_per_gpu": 16, "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
              "zero_optimization": {"stage": stage}}
    engine, _, _, _ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config=config)
    samples = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(5):
        inputs, targets = torch.randn(16, 64, generator=samples), torch.randint(0, 10, (16,), generator=samples)
        engine.backward(torch.nn.functional.cross_entropy(engine(inputs), targets))
        engine.step()
    hash = hashlib.sha256()
    with deepspeed.zero.GatheredParameters(list(network.parameters()), enabled=stage == 3):
        for parameter in network.parameters():
            hash.update(parameter.detach().numpy().tobytes())
    return hash.hexdigest()


deepspeed.init_distributed(dist_backend=sys.argv[1], verbose=False)
assert dist.get_backend() == sys.argv[1]
for stage in range(4):
    print(f"rank {dist.get_rank()}, stage {stage}: {trained(stage)}\n", end="", flush=True)
dist.destroy_process_group()
