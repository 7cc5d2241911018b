"""Writes what PyTorch makes of the contrastive loss of two towers, for contrastive_loss_test.cpp: `pytorch_pairs.py FILE`. Exit status
77 where there is no PyTorch."""

import json
import sys

try:
    import torch
except ImportError:
    print("skipped here: no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
    sys.exit(77)

torch.manual_seed(4)
functional = torch.nn.functional
cases = []
for samples, size, temperature in ((1, 3, 1.0), (5, 4, 0.07), (21, 6, 0.2)):
    scores = torch.randn(samples, 2, size).requires_grad_()
    first, second = (functional.normalize(scores[:, side]) for side in range(2))
    products = first @ second.T / temperature
    own = torch.arange(samples)
    loss = (functional.cross_entropy(products, own, reduction="sum") + functional.cross_entropy(products.T, own, reduction="sum")) / 2
    loss.backward()
    cases.append({"samples": samples, "size": size, "temperature": temperature, "scores": scores.flatten().tolist(), "loss": loss.item(),
                  "correct": (products.argmax(1) == own).sum().item(), "gradient": scores.grad.flatten().tolist()})
with open(sys.argv[1], "w") as file:
    text = json.dumps({"torch": torch.__version__, "cases": cases}, separators=(",", ":"))
    file.write(text.replace('],"', '],\n"').replace("},{", "},\n{") + "\n")
