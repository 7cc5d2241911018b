"""The backend "dlflow" of torch.distributed: `import dlflow.torch`, then `init_process_group("dlflow")`. docs/user/pytorch.md.
`exact(model, loader)` trains with the same bits on any number of ranks. docs/user/pytorch-exact.md."""

import sys
from importlib import util

if util.find_spec("torch") is None:
    _MESSAGE = f"dlflow.torch needs PyTorch, which is not installed: {sys.executable} -m pip install torch"
    if sys.argv[:1] == ["-m"]:  # `python3 -m dlflow.torch.weights`: no traceback
        sys.exit(f"error: {_MESSAGE}")
    raise ModuleNotFoundError(_MESSAGE, name="torch")

from dlflow.torch.backend import ProcessGroup, monitored_barrier, register
from dlflow.torch.in_place_of_gloo import replace_gloo
from dlflow.torch.same_bits.training import exact, sha256
from dlflow.torch.sampler import DistributedSampler

register()
replace_gloo()

__all__ = ["DistributedSampler", "ProcessGroup", "exact", "monitored_barrier", "sha256"]
