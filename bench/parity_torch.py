"""One training of bench/parity.py in PyTorch: `parity_torch.py JSON`. Prints one JSON line."""

import json
import math
import pathlib
import sys

import numpy
import torch
from torch import nn
from torch.nn import functional

import torch_peer

GIVEN = json.loads(sys.argv[1])
DATA = pathlib.Path(GIVEN["data"])


class Two(nn.Sequential):
    """The U-Net's two convolutions."""

    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    """workflows/models/unet.yaml."""

    def __init__(self):
        super().__init__()
        self.noise = nn.Dropout(0.3)
        self.down1, self.down2, self.bottom = Two(1, 32), Two(32, 64), Two(64, 128)
        self.up2, self.right2 = nn.ConvTranspose2d(128, 64, 2, 2), Two(128, 64)
        self.up1, self.right1 = nn.ConvTranspose2d(64, 32, 2, 2), Two(64, 32)
        self.out = nn.Conv2d(32, 1, 1)

    def forward(self, x):
        one = self.down1(self.noise(x))
        two = self.down2(functional.max_pool2d(one, 2))
        x = self.bottom(functional.max_pool2d(two, 2))
        x = self.right2(torch.cat([two, self.up2(x)], 1))
        return self.out(self.right1(torch.cat([one, self.up1(x)], 1)))


class Block(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.qkv, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, features = x.shape
        heads = GIVEN["heads"]
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, heads, features // heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(features // heads)
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
        x = x + self.drop(self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, features)))
        return x + self.drop(self.down(functional.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """The language model of parity.py."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, GIVEN["features"]), nn.Parameter(0.02 * torch.randn(GIVEN["length"], GIVEN["features"]))
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.blocks, self.last = nn.Sequential(*(Block(GIVEN["features"]) for _ in range(GIVEN["blocks"]))), nn.LayerNorm(GIVEN["features"])

    def forward(self, x):
        return self.last(self.blocks(self.tokens(x) + self.places)) @ self.tokens.weight.T


def pictures(name):
    read = lambda kind: (DATA / f"{name}-{kind}-ubyte").read_bytes()
    images = numpy.frombuffer(read("images-idx3")[16:], numpy.uint8).reshape(-1, 1, 28, 28)
    labels = numpy.frombuffer(read("labels-idx1")[8:], numpy.uint8)
    return torch.tensor((images.astype("f4") / 255 - GIVEN["mean"]) / GIVEN["deviation"]), torch.tensor(labels.astype("i8"))


def text(split):
    content = (DATA / f"{split}.dlset").read_bytes()
    count, length = int.from_bytes(content[16:24], "little"), GIVEN["length"]
    start = 128 + 4 * count  # docs/user/data-format.md
    return torch.tensor(numpy.frombuffer(content[start:start + count * length], numpy.uint8).reshape(count, length).astype("i8"))


def next_token(scores, tokens):
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def main():
    torch.manual_seed(GIVEN["seed"])
    torch.set_num_threads(1)
    network = GIVEN["network"]
    if network == "gpt":
        model, (train, test) = GPT(), (text("train"), text("test"))
        targets = train, test
    else:
        model = {"lenet": torch_peer.lenet, "resnet20": torch_peer.resnet20, "unet": UNet}[network]()
        (train, labels), (test, test_labels) = pictures("train"), pictures("t10k")
        targets = (train, test) if network == "unet" else (labels, test_labels)
    loss_of = {"gpt": next_token, "unet": functional.mse_loss}.get(network, functional.cross_entropy)
    make = {"sgd": lambda: torch.optim.SGD(model.parameters(), lr=GIVEN["lr"], momentum=0.9),
            "adam": lambda: torch.optim.Adam(model.parameters(), lr=GIVEN["lr"]),
            "adamw": lambda: torch.optim.AdamW(model.parameters(), lr=GIVEN["lr"])}
    optimizer = make[GIVEN["optimizer"]]()
    for _ in range(GIVEN["epochs"]):
        for batch in torch.randperm(len(train)).split(GIVEN["batch"]):
            optimizer.zero_grad()
            loss_of(model(train[batch]), targets[0][batch]).backward()
            optimizer.step()
    model.eval()
    total = right = 0
    with torch.no_grad():
        for inputs, wanted in zip(test.split(100), targets[1].split(100)):
            result = model(inputs)
            total += loss_of(result, wanted).item() * len(inputs)
            right += (result.argmax(1) == wanted).sum().item() if network in ("lenet", "resnet20") else 0
    loss = total / len(test)
    print(json.dumps({"loss": loss, "rmse": math.sqrt(loss), "accuracy": right / len(test)}))


if __name__ == "__main__":
    main()
