"""The backend "dlflow" of torch.distributed: `import dlflow.torch`, then `init_process_group("dlflow")`. docs/user/pytorch.md."""

from dlflow.torch.backend import ProcessGroup, monitored_barrier, register
from dlflow.torch.sampler import DistributedSampler

register()

__all__ = ["DistributedSampler", "ProcessGroup", "monitored_barrier"]


def _autoload() -> None:
    """PyTorch 2.5 and later call this at `import torch` (entry point `torch.backends`): importing this module was all."""
