"""Writes what PyTorch's optimizers make of two layers in 20 steps, for optimizer_test.cpp: `pytorch_steps.py FILE`.

SGD, Adam, AdamW, RMSprop and Adagrad are torch.optim's; LARS and LAMB are written here after their papers' algorithms. Exit status 77 where
there is no PyTorch.
"""

import json
import sys

try:
    import torch
except ImportError:
    print("skipped here: no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
    sys.exit(77)

STEPS = 20
SHAPES = [(7, 5), (5,)]  # a weight and its bias

CASES = [
    ("sgd", 0.1, {"momentum": 0.0}),
    ("sgd", 0.1, {"momentum": 0.9}),
    ("sgd", 0.1, {"momentum": 0.9, "weight_decay": 0.01}),
    ("sgd", 0.1, {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("adam", 0.01, {}),
    ("adam", 0.01, {"betas": [0.8, 0.99], "eps": 1e-3, "weight_decay": 0.1}),
    ("adamw", 0.01, {}),
    ("adamw", 0.01, {"betas": [0.8, 0.99], "eps": 1e-3, "weight_decay": 0.1}),
    ("rmsprop", 0.01, {}),
    ("rmsprop", 0.01, {"alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1}),
    ("adagrad", 0.1, {"eps": 1e-10}),
    ("adagrad", 0.1, {"eps": 1e-3, "weight_decay": 0.1}),
    ("lars", 0.5, {"momentum": 0.9, "trust": 0.1}),
    ("lars", 0.5, {"momentum": 0.9, "trust": 0.2, "weight_decay": 0.1}),
    ("lamb", 0.01, {"eps": 1e-6}),
    ("lamb", 0.01, {"betas": [0.8, 0.99], "eps": 1e-6, "weight_decay": 0.1}),
]


def lars(parameter, state, rate, momentum=0.9, trust=0.001, weight_decay=0.0):
    """Algorithm 1 of arXiv 1708.03888; vectors take plain steps, without decay."""
    gradient, local = parameter.grad, 1.0
    if parameter.dim() > 1:
        local = trust * parameter.norm() / (gradient.norm() + weight_decay * parameter.norm())
        gradient = gradient + weight_decay * parameter
    state["v"] = momentum * state.get("v", 0) + rate * local * gradient
    parameter -= state["v"]


def lamb(parameter, state, rate, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
    """Algorithm 2 of arXiv 1904.00962; vectors take Adam's steps, without decay."""
    t = state["t"] = state.get("t", 0) + 1
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * parameter.grad
    state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * parameter.grad**2
    r = (state["m"] / (1 - betas[0] ** t)) / ((state["v"] / (1 - betas[1] ** t)).sqrt() + eps)
    ratio = 1.0
    if parameter.dim() > 1:
        r = r + weight_decay * parameter
        ratio = parameter.norm() / r.norm()
    parameter -= rate * ratio * r


def of_paper(function, parameters, options):
    states = [{} for _ in parameters]

    def step(rate):
        with torch.no_grad():
            for parameter, state in zip(parameters, states):
                function(parameter, state, rate, **options)

    return step


def of_torch(kind, parameters, rate, options):
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
                 "rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad}[kind](
        parameters, lr=rate, **({"weight_decay": 0} | options))

    def step(rate):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()

    return step


def flat(tensors):
    return [float(value) for tensor in tensors for value in tensor.detach().flatten()]


def run(case, start, gradients):
    kind, rate, options = case
    parameters = [tensor.clone().requires_grad_() for tensor in start]
    step = (of_paper({"lars": lars, "lamb": lamb}[kind], parameters, options) if kind in ("lars", "lamb")
            else of_torch(kind, parameters, rate, options))
    weights = []
    for number in range(STEPS):
        for parameter, gradient in zip(parameters, gradients[number]):
            parameter.grad = gradient.clone()
        step(rate / (1 + number / 10))
        weights.append(flat(parameters))
    return {"kind": kind, "lr": rate, **options, "after_1": weights[0], "after_10": weights[9], "after_20": weights[19]}


def main():
    torch.manual_seed(1)
    start = [torch.randn(shape) for shape in SHAPES]
    gradients = [[torch.randn(shape) / 4 for shape in SHAPES] for _ in range(STEPS)]
    content = {"torch": torch.__version__, "sizes": [tensor.numel() for tensor in start], "start": flat(start),
               "gradients": [flat(step) for step in gradients], "cases": [run(case, start, gradients) for case in CASES]}
    with open(sys.argv[1], "w") as file:
        text = json.dumps(content, separators=(",", ":"))
        file.write(text.replace("],\"", "],\n\"").replace("],[", "],\n[").replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    main()
