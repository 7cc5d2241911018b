"""Batch normalization over the samples of all ranks."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from dlflow.horovod.torch import mpi_ops
from dlflow.horovod.torch.mpi_ops import Sum


class SyncBatchNorm(_BatchNorm):
    """Like torch.nn.BatchNorm*d, with mean and variance of the samples of all ranks while it trains."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        uses_batch = self.training or not self.track_running_stats
        if not uses_batch or mpi_ops.size() == 1:
            return super().forward(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1 / float(self.num_batches_tracked)
        running = (self.running_mean, self.running_var) if self.training and self.track_running_stats else (None, None)
        return _Normalize.apply(input, self.weight, self.bias, *running, self.eps, momentum)


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2)).to(like.dtype)


class _Normalize(torch.autograd.Function):
    """Sums are in float64. The gradients of weight and bias are this rank's, as an optimizer reduces them."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor],
                running_mean: Optional[torch.Tensor], running_var: Optional[torch.Tensor], eps: float, momentum: float) -> torch.Tensor:
        axes = [0, *range(2, input.dim())]
        channels = input.shape[1]
        wide = input.double()
        count = torch.tensor([float(input.numel() // channels)], dtype=torch.float64)
        sums = mpi_ops.allreduce(torch.cat([wide.sum(axes), count]), op=Sum, name="sync_batch_norm.sum")
        total = float(sums[-1])
        mean = sums[:-1] / total
        squares = mpi_ops.allreduce((wide - mean.view(1, -1, *[1] * (input.dim() - 2))).square().sum(axes), op=Sum,
                                    name="sync_batch_norm.squares")
        variance = squares / total
        if running_mean is not None and running_var is not None:
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
            unbiased = squares / max(total - 1, 1)
            running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
        inverse = (variance + eps).rsqrt()
        normal = (input - _per_channel(mean, input)) * _per_channel(inverse, input)
        ctx.save_for_backward(normal, inverse, weight)
        ctx.total, ctx.axes = total, axes
        output = normal if weight is None else normal * _per_channel(weight, input)
        return output if bias is None else output + _per_channel(bias, input)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        normal, inverse, weight = ctx.saved_tensors
        gradient = gradients[0]
        for_bias = gradient.double().sum(ctx.axes)
        for_weight = (gradient.double() * normal.double()).sum(ctx.axes)
        for_input = None
        if ctx.needs_input_grad[0]:
            sums = mpi_ops.allreduce(torch.stack([for_bias, for_weight]), op=Sum, name="sync_batch_norm.gradients") / ctx.total
            for_input = gradient - _per_channel(sums[0], gradient) - normal * _per_channel(sums[1], gradient)
            for_input = for_input * _per_channel(inverse if weight is None else inverse * weight.double(), gradient)
        has_weight = weight is not None
        return (for_input, for_weight.to(weight.dtype) if has_weight and ctx.needs_input_grad[1] else None,
                for_bias.to(gradient.dtype) if ctx.needs_input_grad[2] else None, None, None, None, None)
