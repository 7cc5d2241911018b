"""GFLOP/s of this PyTorch's product of fp32 matrices on one thread, and whether it is right: one JSON line.

    python bench/torch_sgemm.py [--horovod]

bench/sgemm.cpp measures oneDNN. With --horovod, Horovod must be installed, too.
"""

import json
import sys
import time

import torch

SIZE = 512
TRIES = 100  # the best counts, so that other work on the machine matters less
SHAPES = [(SIZE, SIZE, SIZE), (64, 784, 512), (512, 64, 784), (64, 9216, 128)]  # the others occur in mlp and lenet


def error(rows, inner, columns):
    """The largest error of a product of numbers around 1, divided by the square root of the length of its sums."""
    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    return float(((a @ b).double() - a.double() @ b.double()).abs().max()) / inner**0.5


def seconds():
    a, b, c = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE), torch.empty(SIZE, SIZE)
    start = time.perf_counter()
    torch.mm(a, b, out=c)
    return time.perf_counter() - start


torch.manual_seed(0)
torch.set_num_threads(1)
if "--horovod" in sys.argv:
    import horovod.torch  # noqa: F401
print(json.dumps({"version": torch.__version__, "gflops": 2 * SIZE**3 / min(seconds() for _ in range(TRIES)) / 1e9,
                  "error": max(error(*shape) for shape in SHAPES)}))
