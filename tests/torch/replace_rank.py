"""One rank of a script with gloo as its only backend. Prints its group's backend, and a sum over it."""

import torch

if not hasattr(torch, "_import_device_backends"):
    import dlflow.torch  # noqa: F401: before PyTorch 2.5 nothing else brings it
from torch.distributed import all_reduce, get_backend, init_process_group  # taken by name, as many scripts do

init_process_group("gloo")
value = torch.ones(1)
all_reduce(value)
print(get_backend(), value.item(), flush=True)
