"""DistributedDataParallel: each rank computes the gradients of its share of each batch. Prints how far the weights are from those of one process."""

import torch
import torch.distributed as dist
from torch import nn

try:
    import dlflow.torch  # noqa: F401  PyTorch 2.5 and later need no import
except ImportError:
    pass

STEPS, BATCH = 10, 48


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 10))


def train(model, rank, ranks):
    """Trains on the rank's share of each batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        data, labels = torch.randn(BATCH, 48, generator=generator), torch.randint(10, (BATCH,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data[rank::ranks]), labels[rank::ranks]).backward()
        optimizer.step()
    return [weights.detach() for weights in model.parameters()]


dist.init_process_group("dlflow")
together = train(nn.parallel.DistributedDataParallel(network()), dist.get_rank(), dist.get_world_size())
alone = train(network(), 0, 1)
difference = max((a - b).abs().max().item() for a, b in zip(together, alone))
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks: at most {difference:.1e} from one process", flush=True)
assert difference < 1e-4, difference
dist.destroy_process_group()
