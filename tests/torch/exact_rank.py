"""One rank of a test of `dlflow.torch.exact`: `exact_rank.py SCENARIO`, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

Prints `NAME SHA256 LOSSES` for each training on rank 0: of all parameters, buffers and the optimizer's state.
"""

import hashlib
import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils import data

import dlflow.torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FOLDER = os.environ.get("FOLDER", "")


class Images(data.Dataset):
    """Small images; `augments`: shifted and with noise, by three kinds of random numbers."""

    def __init__(self, count, augments=False):
        generator = torch.Generator().manual_seed(1)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        self.images = torch.randn(count, 3, 8, 8, generator=generator) + 0.5 * self.labels.float().view(-1, 1, 1, 1)
        self.augments = augments

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.augments:
            import numpy
            image = image.roll(random.randrange(3), 2) + 0.1 * torch.randn(3, 8, 8) + float(numpy.random.rand())
        return image, self.labels[index]


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                                  nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


class Transformer(nn.Module):
    """Of sequences of 8 tokens, the columns of an image."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(24, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 4)
        self.unused = nn.Linear(3, 3)  # keeps its bits, also where the optimizer decays weights
        self.sometimes = nn.Parameter(torch.ones(4))

    def forward(self, x):
        logits = self.head(self.encoder(self.embed(x.permute(0, 3, 1, 2).flatten(2))).mean(1))
        return logits * self.sometimes if torch.rand(()) < 0.3 else logits  # by some virtual ranks alone


def mlp():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.7), None


def resnet():
    model = nn.Sequential(Block(3, 8, 1), Block(8, 12, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 4))
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    return model, optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, 40), None


def transformer():
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003, weight_decay=0.1)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40), 0.5


MODELS = {"mlp": mlp, "resnet": resnet, "transformer": transformer}


def train(name, loader, epochs=2, checkpoint=None, virtual_ranks=6, kill_at=None, **options):
    """Prints the hash and the losses on rank 0."""
    torch.manual_seed(5 + RANK)  # rank 0's weights count
    model, optimizer, scheduler, clip = MODELS[name]()
    training = dlflow.torch.exact(model, loader, virtual_ranks, seed=7, **options)
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    if checkpoint:
        training.load(checkpoint, **objects)
    losses = hashlib.sha256()
    for _ in range(training.epoch, epochs):
        for step in training:
            for images, labels in step:
                step.backward(functional.cross_entropy(model(images), labels))
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            scheduler.step()
            losses.update(repr(step.loss).encode())
            if checkpoint:
                training.save(checkpoint, **objects)
            if kill_at is not None and (step.epoch, step.number) == kill_at:
                print("killed", flush=True)
                os.kill(os.getpid(), 9)
    if RANK == 0:
        print(name, dlflow.torch.sha256(model, optimizer, scheduler), losses.hexdigest()[:16], flush=True)
    return model


def models():
    """150 samples in batches of 24: the last step has 6, of which some ranks get none."""
    for name in MODELS:
        train(name, data.DataLoader(Images(150), batch_size=24, shuffle=True))


def augmented():
    workers = int(os.environ["WORKERS"])
    train("resnet", data.DataLoader(Images(60, augments=True), batch_size=24, shuffle=True, num_workers=workers, drop_last=True,
                                    persistent_workers=workers > 1))


def killed():
    """Saves after every step. Ends by SIGKILL after step KILL_AT."""
    at = os.environ.get("KILL_AT")
    train("transformer", data.DataLoader(Images(150), batch_size=24, shuffle=True), checkpoint=os.path.join(FOLDER, "last.pt"),
          kill_at=tuple(map(int, at.split(","))) if at else None)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
