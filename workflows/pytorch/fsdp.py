"""FSDP2: weights, gradients and optimizer state are divided over the ranks. Prints how far the weights are from those of one process."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

STEPS, BATCH = 10, 48


def network():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(48, 48), nn.Tanh()) for _ in range(4)), nn.Linear(48, 10))


def train(model, rank, ranks):
    """Trains on the rank's share of each batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        data, labels = torch.randn(BATCH, 48, generator=generator), torch.randint(10, (BATCH,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data[rank::ranks]), labels[rank::ranks]).backward()
        optimizer.step()
    return [weights.full_tensor() if isinstance(weights, DTensor) else weights for weights in model.parameters()]


dist.init_process_group("dlflow")
model = network()
for layer in model:
    fully_shard(layer)
fully_shard(model)
sharded = train(model, dist.get_rank(), dist.get_world_size())
alone = train(network(), 0, 1)
difference = max((a - b).abs().max().item() for a, b in zip(sharded, alone))
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks: at most {difference:.1e} from one process", flush=True)
assert difference < 1e-4, difference
dist.destroy_process_group()
