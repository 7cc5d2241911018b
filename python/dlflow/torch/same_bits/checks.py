"""Rejects, by name, models and settings that cannot have the same bits on any number of ranks, before they do harm."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dlflow.torch.same_bits.agreement import flushes_denormals
from dlflow.torch.same_bits.gradients import TYPES

_WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule", "PipelineStage"}
_QUESTIONS = {"get_rank", "get_world_size", "get_backend", "get_backend_config", "set_timeout"}  # of torch.distributed; these send nothing


def require_supported(model: nn.Module) -> None:
    for name, module in model.named_modules():
        path = f"the module {name}" if name else "the model"
        kinds = {kind.__name__ for kind in type(module).__mro__}
        if isinstance(module, nn.SyncBatchNorm):
            raise TypeError(f"exact: {path} is a SyncBatchNorm, which adds up over processes; use BatchNorm: each virtual rank has "
                            "statistics of its own, whatever process it is on")
        for wrapper in sorted(kinds & _WRAPPERS):
            raise TypeError(f"exact: {path} is a {wrapper}, which exchanges gradients itself; give the model that it wraps")
        if getattr(module, "sparse", False) and isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            raise TypeError(f"exact: {path} has sparse gradients; use dense ones (sparse=False)")
    trained = 0
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise TypeError(f"exact: the parameter {name} has no shape yet; run the model once on a batch, then call exact")
        if parameter.device.type != "cpu" or type(parameter).__name__ == "DTensor":
            raise TypeError(f"exact: the parameter {name} is on {parameter.device} ({type(parameter).__name__}); exact is for models that are completely in the CPU memory of each process")
        if parameter.requires_grad and parameter.dtype not in TYPES:
            raise TypeError(f"exact: the parameter {name} is {parameter.dtype}; exact sums float32, float16 and bfloat16")
        trained += parameter.requires_grad
    if trained == 0:
        raise ValueError("exact: the model has no parameter that requires gradients")


class NoCommunication:
    """Refuses torch.distributed's collectives while a virtual rank computes: processes have different numbers of virtual ranks, so some
    would wait for others for ever. All collectives first check whether this process is a member of the group, and this check is
    intercepted; so do queries, which are allowed."""

    _depth = 0
    _original: Any = None

    @classmethod
    def install(cls) -> None:
        module = getattr(dist, "distributed_c10d", None)
        if cls._original is not None or module is None or not hasattr(module, "_rank_not_in_group"):
            return
        cls._original = module._rank_not_in_group

        def guarded(*arguments: Any, **options: Any) -> bool:
            if cls._depth > 0 and sys._getframe(1).f_code.co_name not in _QUESTIONS:
                raise RuntimeError("exact: a collective of torch.distributed was called while a virtual rank computes; processes "
                                   "differ in their number of virtual ranks. Call it after the loop over the virtual ranks of a step")
            return cls._original(*arguments, **options)

        module._rank_not_in_group = guarded

    @classmethod
    def enter(cls) -> None:
        cls._depth = 1

    @classmethod
    def leave(cls) -> None:
        cls._depth = 0


def require_same_settings(where: str, threads: int, flushes: bool) -> None:
    """Checks that the settings of exact have not changed."""
    if not torch.are_deterministic_algorithms_enabled():
        raise RuntimeError(f"exact: {where}: torch.use_deterministic_algorithms(True), which exact has set, was turned off; leave it on")
    if torch.get_num_threads() != threads:
        raise RuntimeError(f"exact: {where}: torch.set_num_threads({torch.get_num_threads()}) was called; exact(..., threads={threads}) "
                           "sets it")
    if flushes_denormals() != flushes:
        raise RuntimeError(f"exact: {where}: torch.set_flush_denormal was called after exact; call it before")
