"""One training of bench/parity.py in PyTorch: `parity_torch.py JSON`. Prints one JSON line."""

import json
import math

import numpy
import torch
from torch.nn import functional

import torch_networks
import torch_peer
from parity_pictures import DATA, GIVEN, pictures


def text(split):
    content = (DATA / f"{split}.dlset").read_bytes()
    count, length = int.from_bytes(content[16:24], "little"), GIVEN["length"]
    start = 128 + 4 * count  # docs/user/dlset.md
    return torch.tensor(numpy.frombuffer(content[start:start + count * length], numpy.uint8).reshape(count, length).astype("i8"))


def main():
    torch.manual_seed(GIVEN["seed"])
    torch.set_num_threads(1)
    network = GIVEN["network"]
    if network == "gpt":
        model, (train, test) = torch_networks.GPT(*(GIVEN[key] for key in ("length", "features", "heads", "blocks")), drops_first=False), (text("train"), text("test"))
        targets = train, test
    else:
        model = {"lenet": torch_peer.lenet, "resnet20": torch_peer.resnet20, "unet": torch_networks.UNet}[network]()
        (train, labels), (test, test_labels) = (map(torch.tensor, pictures(name, (1, 28, 28), "i8")) for name in ("train", "t10k"))
        targets = (train, test) if network == "unet" else (labels, test_labels)
    loss_of = {"gpt": torch_networks.next_token, "unet": functional.mse_loss}.get(network, functional.cross_entropy)
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
