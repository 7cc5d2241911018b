"""Writes what PyTorch makes of the losses that compare with targets, for target_loss_test.cpp: `pytorch_targets.py FILE`. Exit
status 77 where there is no PyTorch."""

import json
import sys

try:
    import torch
except ImportError:
    print("skipped here: no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
    sys.exit(77)

torch.manual_seed(3)
functional = torch.nn.functional
LOSSES = {"mse": functional.mse_loss, "l1": functional.l1_loss, "huber": functional.huber_loss,
          "bce": functional.binary_cross_entropy_with_logits}
cases = []
for name, loss_of in LOSSES.items():
    for num_targets in (1, 3):
        scores = (torch.randn(5, num_targets) * 4).requires_grad_()
        targets = torch.randint(2, (5, num_targets)).float() if name == "bce" else torch.randn(5, num_targets)
        loss = loss_of(scores, targets) * 5  # summed over the samples, the mean over the targets of each
        loss.backward()
        difference = (scores - targets).detach()
        cases.append({"name": name, "num_targets": num_targets, "scores": scores.flatten().tolist(),
                      "targets": targets.flatten().tolist(), "loss": loss.item(), "gradient": scores.grad.flatten().tolist(),
                      "squared_error": difference.square().mean().item() * 5, "absolute_error": difference.abs().mean().item() * 5})
with open(sys.argv[1], "w") as file:
    text = json.dumps({"torch": torch.__version__, "cases": cases}, separators=(",", ":"))
    file.write(text.replace('],"', '],\n"').replace("},{", "},\n{") + "\n")
