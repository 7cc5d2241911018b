"""Tensor parallelism: each weight matrix is divided over the ranks (DTensor, parallelize_module), with the activations between blocks
divided by rows (sequence parallel). Prints how far the weights are from those of one process."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

STEPS, BATCH = 10, 48


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, values):
        return values + self.down(torch.tanh(self.up(self.norm(values))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.Sequential(Block(48), Block(48))
        self.head = nn.Linear(48, 10)

    def forward(self, values):
        return self.head(self.blocks(values))


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        data, labels = torch.randn(BATCH, 48, generator=generator), torch.randint(10, (BATCH,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()
    return [weights.full_tensor() if isinstance(weights, DTensor) else weights for weights in model.parameters()]


dist.init_process_group("dlflow")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
rows = Shard(0)
plan = {"blocks": PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(rows,)),
        "head": ColwiseParallel(input_layouts=rows, output_layouts=Replicate())}
for block in ("blocks.0", "blocks.1"):
    plan[f"{block}.norm"] = SequenceParallel(sequence_dim=0)
    plan[f"{block}.up"] = ColwiseParallel(input_layouts=rows)
    plan[f"{block}.down"] = RowwiseParallel(output_layouts=rows, use_local_output=False)
divided = train(parallelize_module(Network(), mesh, plan))
alone = train(Network())
difference = max((a - b).abs().max().item() for a, b in zip(divided, alone))
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks: at most {difference:.1e} from one process", flush=True)
assert difference < 1e-4, difference
dist.destroy_process_group()
