"""Writes what PyTorch makes of softmax cross-entropy with label smoothing and class weights, for label_smoothing_test.cpp: `pytorch_loss.py
FILE`. Exit status 77 where there is no PyTorch."""

import json
import sys

try:
    import torch
except ImportError:
    print("skipped here: no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
    sys.exit(77)

torch.manual_seed(2)
scores = torch.randn(6, 10) * 3
labels = torch.randint(10, (6,))
cases = []
weights = [0.2 + 0.3 * c for c in range(10)]
for smoothing, weight in ((0.0, None), (0.1, None), (0.4, None), (0.0, weights), (0.3, weights)):
    given = scores.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(given, labels, reduction="sum", label_smoothing=smoothing,
                                             weight=None if weight is None else torch.tensor(weight))
    loss.backward()
    cases.append({"smoothing": smoothing, "weights": weight or [], "loss": loss.item(), "gradient": given.grad.flatten().tolist()})
with open(sys.argv[1], "w") as file:
    text = json.dumps({"torch": torch.__version__, "scores": scores.flatten().tolist(), "labels": labels.tolist(),
                       "cases": cases}, separators=(",", ":"))
    file.write(text.replace('],"', '],\n"').replace("},{", "},\n{") + "\n")
