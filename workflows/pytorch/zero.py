"""ZeroRedundancyOptimizer: each rank keeps the optimizer state of its share of the weights. Prints how far weights and state are from
those of one process."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

try:
    import dlflow.torch  # noqa: F401  PyTorch 2.5 and later need no import
except ImportError:
    pass

STEPS, BATCH = 10, 48


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 10))


def train(model, optimizer, rank, ranks):
    """Trains on the rank's share of each batch."""
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        data, labels = torch.randn(BATCH, 48, generator=generator), torch.randint(10, (BATCH,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data[rank::ranks]), labels[rank::ranks]).backward()
        optimizer.step()
    return [weights.detach() for weights in model.parameters()]


dist.init_process_group("dlflow")
model = nn.parallel.DistributedDataParallel(network())
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
sharded = train(model, optimizer, dist.get_rank(), dist.get_world_size())
optimizer.consolidate_state_dict(to=0)  # gathers the whole state on one rank, to save it
plain = network()
plain_optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
alone = train(plain, plain_optimizer, 0, 1)
difference = max((a - b).abs().max().item() for a, b in zip(sharded, alone))
if dist.get_rank() == 0:
    state = optimizer.state_dict()["state"]
    for key, kept in plain_optimizer.state_dict()["state"].items():
        difference = max(difference, (state[key]["exp_avg"] - kept["exp_avg"]).abs().max().item())
    print(f"{dist.get_world_size()} ranks: at most {difference:.1e} from one process", flush=True)
assert difference < 1e-4, difference
dist.destroy_process_group()
