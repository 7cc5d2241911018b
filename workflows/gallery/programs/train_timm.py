"""train_timm.py DATA EPOCHS: trains a network of timm, whose CheckpointSaver writes out/last.pth.tar after each epoch, and continues from it."""

import gzip
import os
import sys

import numpy
import timm
import torch
from timm.models import resume_checkpoint
from timm.optim import create_optimizer_v2
from timm.utils import CheckpointSaver

data, epochs = sys.argv[1], int(sys.argv[2])


def read(part, count):
    x = numpy.frombuffer(gzip.open(f"{data}/{part}-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)[:count]
    y = numpy.frombuffer(gzip.open(f"{data}/{part}-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)[:count]
    return torch.nn.functional.pad(torch.tensor(x / 255, dtype=torch.float32), (2, 2, 2, 2)), torch.tensor(y, dtype=torch.int64)


pictures, (tests, expected) = torch.utils.data.TensorDataset(*read("train", 12000)), read("t10k", 2000)
model = timm.create_model("mobilenetv3_small_050", in_chans=1, num_classes=10)
optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3)
saver = CheckpointSaver(model, optimizer, checkpoint_dir="out", recovery_dir="out", max_history=2)
os.makedirs("out", exist_ok=True)
first = resume_checkpoint(model, "out/last.pth.tar", optimizer) if os.path.exists("out/last.pth.tar") else 0
for epoch in range(first, epochs):
    model.train()
    for x, y in torch.utils.data.DataLoader(pictures, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(tests).argmax(1) == expected).float().mean().item()
    print(f"epoch {epoch + 1}: accuracy {accuracy:.3f}", flush=True)
    saver.save_checkpoint(epoch, accuracy)
