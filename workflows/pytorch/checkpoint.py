"""torch.distributed.checkpoint: `checkpoint.py save DIR` trains, and each rank saves its shards; `checkpoint.py load DIR` continues on
another number of ranks. Prints how far the weights are from those of one process that was never interrupted."""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

BATCH = 48


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 10))


def train(model, optimizer, steps, rank, ranks):
    """Trains on the rank's share of each batch."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        data, labels = torch.randn(BATCH, 48, generator=generator), torch.randint(10, (BATCH,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data[rank::ranks]), labels[rank::ranks]).backward()
        optimizer.step()


what, folder = sys.argv[1:]
dist.init_process_group("dlflow")
rank, ranks = dist.get_rank(), dist.get_world_size()
model = network()
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
if what == "save":
    train(model, optimizer, range(5), rank, ranks)
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    if rank == 0:
        print(f"{ranks} ranks saved after step 5", flush=True)
else:
    weights, state = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    train(model, optimizer, range(5, 10), rank, ranks)
    alone = network()
    train(alone, torch.optim.AdamW(alone.parameters(), lr=0.01), range(10), 0, 1)
    whole = [weights.full_tensor() if isinstance(weights, DTensor) else weights for weights in model.parameters()]
    difference = max((a - b).abs().max().item() for a, b in zip(whole, alone.parameters()))
    if rank == 0:
        print(f"{ranks} ranks went on: at most {difference:.1e} from one process", flush=True)
    assert difference < 1e-4, difference
dist.destroy_process_group()
