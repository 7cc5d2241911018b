"""The same over DeepSpeed, without GPUs."""

import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)  # set by deepspeed's launcher
parser.parse_known_args()
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # DeepSpeed would compile it for a minute
deepspeed.init_distributed(dist_backend="gloo", verbose=False)
rank, size = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
total = torch.tensor([float(rank + 1)])
deepspeed.comm.all_reduce(total)
print(f"rank {rank} of {size}: {int(total.item())}\n", end="", flush=True)
torch.distributed.destroy_process_group()
