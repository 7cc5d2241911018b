"""Writes what PyTorch makes of a small network in 5 steps with frozen layers, groups of parameters and averages, for
recipes_test.cpp: `pytorch_recipes.py FILE`. Exit status 77 where there is no PyTorch.

A frozen layer is one with requires_grad_(False) and, for its batch normalisation, eval(), as people write it by hand.
"""

import json
import sys
from collections import OrderedDict
from fnmatch import fnmatchcase

try:
    import torch
except ImportError:
    print("skipped here: no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
    sys.exit(77)

STEPS, SAMPLES = 5, 24
GROUPS = [{"match": "fc.*", "lr_multiplier": 10, "weight_decay": 0}, {"match": "*.bias", "lr_multiplier": 0.5},
          {"match": "bn?.weight", "weight_decay": 0.2}]
# eps: the bias before a batch normalisation has a gradient of nothing but rounding.
CASES = [
    {},
    {"freeze": ["conv1", "bn1"]},
    {"freeze": ["conv2", "bn*"]},
    {"freeze": ["conv?", "bn?"], "weight_decay": 0.1},
    {"freeze": ["fc"], "optimizer": {"kind": "adamw", "eps": 1e-3}, "weight_decay": 0.1},
    {"groups": GROUPS, "weight_decay": 0.1},
    {"groups": GROUPS, "weight_decay": 0.1, "optimizer": {"kind": "adamw", "eps": 1e-3}},
    {"groups": GROUPS, "freeze": ["conv1"], "clip_norm": 0.5},
    {"ema": 0.7},
    {"ema": 0.9, "freeze": ["bn2"], "clip_norm": 0.5},
]


def network():
    nn = torch.nn
    return nn.Sequential(OrderedDict([
        ("conv1", nn.Conv2d(1, 16, 3, padding=1)), ("bn1", nn.BatchNorm2d(16)), ("relu1", nn.ReLU()),
        ("conv2", nn.Conv2d(16, 16, 1, stride=2)), ("bn2", nn.BatchNorm2d(16)), ("relu2", nn.ReLU()), ("flatten", nn.Flatten()),
        ("fc", nn.Linear(256, 3))]))


def freeze(model, patterns):
    for name, layer in model.named_children():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            layer.requires_grad_(False)
            layer.eval()


def groups_of(model, case):
    groups = case.get("groups", []) + [{"match": "*"}]
    parameters = [[] for _ in groups]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameters[next(i for i, group in enumerate(groups) if fnmatchcase(name, group["match"]))].append(parameter)
    return [{"params": p, "lr": case["lr"] * g.get("lr_multiplier", 1),
             "weight_decay": g.get("weight_decay", case.get("weight_decay", 0))} for p, g in zip(parameters, groups) if p]


def tensors_of(model):
    return {name: {"shape": list(t.shape), "values": [float(f"{v:.7g}") for v in t.flatten().tolist()]} for name, t in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def run(case, start, images, labels):
    model = network()
    model.load_state_dict(start)
    model.train()
    freeze(model, case.get("freeze", []))
    kind = case.get("optimizer", {"kind": "sgd"})["kind"]
    case = {"lr": 0.01 if kind == "adamw" else 0.05, **case}
    groups = groups_of(model, case)
    optimizer = torch.optim.AdamW(groups, eps=1e-3) if kind == "adamw" else torch.optim.SGD(groups, lr=1, momentum=0.9)
    decay = case.get("ema")
    averaged = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda mean, now, _: mean + (1 - decay) * (now - mean),
                                                   use_buffers=True) if decay else None
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        if "clip_norm" in case:
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], case["clip_norm"])
        optimizer.step()
        if averaged:
            averaged.update_parameters(model)
    return {"with": case, "end": tensors_of(averaged.module if averaged else model)}


def main():
    torch.manual_seed(3)
    model = network()
    for layer in (model.bn1, model.bn2):  # as if it had been trained
        for tensor in (layer.running_mean, layer.bias.data):
            tensor.normal_(0, 0.3)
        for tensor in (layer.running_var, layer.weight.data):
            tensor.uniform_(0.5, 1.5)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    images = torch.randint(256, (SAMPLES, 1, 8, 8))
    labels = torch.randint(3, (SAMPLES,))
    cases = [run(case, start, images / 255, labels) for case in CASES]
    content = {"torch": torch.__version__, "steps": STEPS, "images": images.flatten().tolist(), "labels": labels.tolist(),
               "start": tensors_of(model), "cases": cases}
    with open(sys.argv[1], "w") as file:
        text = json.dumps(content, separators=(",", ":"))
        file.write(text.replace("],\"", "],\n\"").replace("},{", "},\n{").replace("},\"", "},\n\"") + "\n")


if __name__ == "__main__":
    main()
