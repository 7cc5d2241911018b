"""torch.distributed.pipelining: each rank has some of the layers and passes their output for small parts of a batch on. Prints how far
the loss and the gradients are from those of one process."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

PARTS, BATCH = 4, 48


def layers():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(48, 48), nn.Tanh()) for _ in range(8)]


def loss_of(output, target):
    return nn.functional.mse_loss(output, target)


dist.init_process_group("dlflow")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
data, target = torch.randn(BATCH, 48), torch.randn(BATCH, 48)

each = 8 // ranks
own = nn.Sequential(*layers()[rank * each:(rank + 1) * each])
stage = PipelineStage(own, rank, ranks, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=PARTS, loss_fn=loss_of)
losses = []
if rank == 0:
    schedule.step(data)
elif rank == ranks - 1:
    schedule.step(target=target, losses=losses)
else:
    schedule.step()

alone = nn.Sequential(*layers())
loss = loss_of(alone(data), target)
loss.backward()
parts = 1 if getattr(schedule, "scale_grads", False) else PARTS  # PyTorch 2.6 sums the gradients of the parts
expected = [weights.grad for layer in alone[rank * each:(rank + 1) * each] for weights in layer.parameters()]
differences = [(weights.grad / parts - gradient).abs().max().item() for weights, gradient in zip(own.parameters(), expected)]
if rank == ranks - 1:
    differences.append(abs(sum(part.item() for part in losses) / PARTS - loss.item()))
difference = torch.tensor(max(differences))
dist.all_reduce(difference, dist.ReduceOp.MAX)
if rank == 0:
    print(f"{ranks} ranks: at most {difference:.1e} from one process", flush=True)
assert difference < 1e-5, difference
dist.destroy_process_group()
