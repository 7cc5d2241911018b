"""The network of models/unet-climate.yaml in PyTorch, as a script for Horovod: train_pytorch.py FOLDER EPOCHS PREDICTIONS.npy."""

import sys

import numpy as np
import torch
import horovod.torch as hvd
from torch import nn

BATCH, RATE = 32, 0.005


def two(inputs, channels):
    convolutions = [nn.Conv2d(a, channels, 3, padding=1, bias=False) for a in (inputs, channels)]
    return nn.Sequential(*(layer for one in convolutions for layer in (one, nn.BatchNorm2d(channels), nn.ReLU())))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = two(2, 16), two(16, 32), two(32, 64)
        self.up2, self.right2 = nn.ConvTranspose2d(64, 32, 2, 2), two(64, 32)
        self.up1, self.right1 = nn.ConvTranspose2d(32, 16, 2, 2), two(32, 16)
        self.out, self.pool = nn.Conv2d(16, 1, 1), nn.MaxPool2d(2)

    def forward(self, x):
        down1 = self.down1(x)
        down2 = self.down2(self.pool(down1))
        right2 = self.right2(torch.cat([down2, self.up2(self.bottom(self.pool(down2)))], 1))
        return self.out(self.right1(torch.cat([down1, self.up1(right2)], 1))).flatten(1)


def main():
    folder, epochs, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    hvd.init()
    torch.manual_seed(1)
    train_x, train_y, test_x = (torch.from_numpy(np.load(f"{folder}/{name}.npy")) for name in ("train_x", "train_y", "test_x"))
    mean, deviation = (getattr(train_x, name)((0, 2, 3), keepdim=True) for name in ("mean", "std"))
    data = torch.utils.data.TensorDataset((train_x - mean) / deviation, train_y)
    sampler = torch.utils.data.distributed.DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH // hvd.size(), sampler=sampler)
    model = UNet()
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=RATE), named_parameters=model.named_parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for samples, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(samples), targets)
            loss.backward()
            optimizer.step()
            schedule.step()
        loss = hvd.allreduce(loss.detach(), name="loss")
        if hvd.rank() == 0:
            print(f"{hvd.size()} ranks, epoch {epoch + 1}: loss {loss:.3f} in the last step", flush=True)
    if hvd.rank() == 0:
        model.eval()
        with torch.no_grad():
            np.save(target, torch.cat([model(part) for part in ((test_x - mean) / deviation).split(64)]).numpy())


main()
