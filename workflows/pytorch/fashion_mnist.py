"""LeNet on Fashion-MNIST in PyTorch, with the same bits on any number of ranks, however often it is stopped and continued:

    fashion_mnist.py train DATA        by dlflow.torch.exact; saves after each epoch and on request
    fashion_mnist.py evaluate DATA CHECKPOINTS

DATA is a folder with the four files of the data set, unpacked.
"""

import pathlib
import sys

import torch
from torch import nn

import dlflow
import dlflow.torch

VIRTUAL_RANKS = 4


def tensors(folder, split):
    """Images of 28 x 28 numbers in [0, 1], and their labels, read after the headers of the IDX files."""
    images = torch.frombuffer(bytearray((folder / f"{split}-images-idx3-ubyte").read_bytes()), dtype=torch.uint8, offset=16)
    labels = torch.frombuffer(bytearray((folder / f"{split}-labels-idx1-ubyte").read_bytes()), dtype=torch.uint8, offset=8)
    return torch.utils.data.TensorDataset(images.reshape(-1, 1, 28, 28) / 255, labels.long())


def lenet():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Dropout(0.1), nn.Linear(32 * 5 * 5, 10))


def train(folder):
    given = dlflow.params(epochs=3, lr=0.002, samples=60_000)
    data = torch.utils.data.Subset(tensors(folder, "train"), range(given.samples))
    loader = torch.utils.data.DataLoader(data, batch_size=128, shuffle=True)
    model = lenet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr)
    training = dlflow.torch.exact(model, loader, virtual_ranks=VIRTUAL_RANKS)
    parts = {"model": model, "optimizer": optimizer, "training": training}
    steps_done = dlflow.resume(folder="checkpoints", **parts).step

    for epoch in range(training.epoch, given.epochs):
        for step in training:
            for images, labels in step:
                step.backward(nn.functional.cross_entropy(model(images), labels))
            optimizer.step()
            steps_done += 1
            if dlflow.should_stop() and training.step < len(training):  # the end of an epoch is saved below
                dlflow.checkpoint(steps_done, epoch=epoch, **parts)
                dlflow.stop()
        dlflow.report(epoch=epoch + 1, epochs=given.epochs, step=steps_done, loss=step.loss)
        dlflow.checkpoint(steps_done, epoch=epoch + 1, **parts)
    if training.rank == 0:
        print(f"{training.size} ranks: {dlflow.torch.sha256(model, optimizer)}")


def evaluate(folder, checkpoints):
    model = lenet()
    dlflow.load(checkpoints, model=model)
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in torch.utils.data.DataLoader(tensors(folder, "t10k"), batch_size=500):
            correct += int((model(images).argmax(1) == labels).sum())
    dlflow.report(accuracy=correct / 10_000)


if __name__ == "__main__":
    verb, *folders = sys.argv[1:]
    {"train": train, "evaluate": evaluate}[verb](*map(pathlib.Path, folders))
