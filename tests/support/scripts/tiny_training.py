"""Common parts of the training scripts: a tiny network, numbered batches, a loader with a spawned worker, and the weights as text.

STEPS is the number of steps, PAUSE the seconds of each; their product is the duration of a run.
"""

import hashlib
import os
import time

import torch

STEPS, PAUSE = int(os.environ.get("STEPS", 40)), float(os.environ.get("PAUSE", 0))
FEATURES, BATCH = 8, 4


class Batches(torch.utils.data.Dataset):
    """Sample `i` is the same in every process and pass."""

    def __init__(self, samples=STEPS * BATCH * 2):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        x = torch.rand(FEATURES, generator=torch.Generator().manual_seed(i))
        return {"x": x, "labels": x.sum() + i % 3}


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(FEATURES, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def forward(self, x, labels):
        time.sleep(PAUSE)
        print("step", flush=True)
        return {"loss": (self.layers(x).squeeze(1) - labels).square().mean()}


def loader(first_batch=0, rank=0, ranks=1):
    """A rank's batches from `first_batch` on, from a spawned worker, as CUDA requires."""
    batches = [[batch * BATCH * ranks + rank * BATCH + i for i in range(BATCH)] for batch in range(first_batch, STEPS)]
    return torch.utils.data.DataLoader(Batches(), batch_sampler=batches, num_workers=1, multiprocessing_context="spawn")


def weights(model):
    """Equal for trainings with the same steps."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.rpartition("layers.")[2].encode() + tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def tell_end(steps, model):
    """Rank 0 writes the end into the step's outputs, once."""
    if int(os.environ.get("RANK", 0)) == 0:
        with open(os.path.join(os.environ.get("DLFLOW_OUTPUTS", "."), "end"), "w") as file:
            file.write(f"{steps} steps, {weights(model)}\n")
