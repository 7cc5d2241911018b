"""Tensors on GPUs: NCCL executes their collectives if each rank has its own GPU. Otherwise they travel through pinned memory."""

from __future__ import annotations

import datetime
from typing import Any

import torch
import torch.cuda.nccl
import torch.distributed as dist

from dlflow import runtime


def is_on_device(tensor: torch.Tensor) -> bool:
    return bool(tensor.device.type == "cuda")


def when_ready(tensor: torch.Tensor) -> Any:
    """Returns an object whose synchronize() waits for the work on `tensor` that the caller's stream has queued so far."""
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(tensor.device))
    return event


def pinned(count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, pin_memory=True)


def identity(device: torch.device) -> bytes:
    """16 bytes that are unique to a GPU. Zeros if NCCL cannot be used: PyTorch lacks it, or cannot identify GPUs (before 2.4)."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return bytes(uuid.bytes) if uuid is not None and dist.is_nccl_available() else bytes(16)


def each_rank_has_one(group: runtime.Group, device: torch.device) -> bool:
    """Whether NCCL can serve the ranks. All ranks call it with the GPU of their tensors."""
    gpus = set(group.all_gather_bytes(identity(device)))
    return len(gpus) == group.size and bytes(16) not in gpus


def nccl(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """PyTorch's group over NCCL. Its ranks connect through `store` in the first collective."""
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return dist.ProcessGroupNCCL(dist.PrefixStore("nccl", store), rank, size, options)


class Communicator:
    """Sums over NCCL for one thread, which waits for each sum: for ranks without a store of PyTorch."""

    def __init__(self, group: runtime.Group, device: torch.device):
        """Called by all ranks of `group`."""
        torch.cuda.set_device(device)  # of this thread
        name = group.all_gather_bytes(torch.cuda.nccl.unique_id() if group.rank == 0 else b"")[0]
        self._communicator = torch.cuda.nccl.init_rank(group.size, name, group.rank)
        self._stream = torch.cuda.Stream(device)

    def __enter__(self) -> "Communicator":
        """Runs the thread's GPU work on the stream of its sums, in their order."""
        self._context = torch.cuda.stream(self._stream)
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)
        self._stream.synchronize()

    def sum(self, values: torch.Tensor) -> None:
        torch.cuda.nccl.all_reduce([values], [values], streams=[self._stream], comms=[self._communicator])
