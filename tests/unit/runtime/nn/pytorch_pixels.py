"""Writes what PyTorch makes of the losses of a class per pixel, for pixel_loss_test.cpp: `pytorch_pixels.py FILE`. Exit status 77
where there is no PyTorch."""

import json
import sys

try:
    import torch
except ImportError:
    print("skipped here: no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
    sys.exit(77)

torch.manual_seed(5)
IGNORED = 255


def dice_loss(scores, mask, weights):
    """Of each sample: 1 - the weighted mean over classes of (2 I + 1) / (S + 1)."""
    counts = (mask != IGNORED).float()[:, None]
    own = torch.nn.functional.one_hot(torch.where(mask == IGNORED, 0, mask), scores.shape[1]).movedim(-1, 1) * counts
    p = scores.softmax(1) * counts
    dice = (2 * (p * own).sum((2, 3)) + 1) / (p.sum((2, 3)) + own.sum((2, 3)) + 1)
    weights = torch.ones(scores.shape[1]) if weights is None else weights
    return 1 - (dice * weights).sum(1) / weights.sum()


def cross_entropy(scores, mask, weights, smoothing):
    """Of each sample the mean over the pixels that count; without weights and ignored pixels PyTorch's own mean."""
    loss = torch.nn.functional.cross_entropy(scores, mask, weights, ignore_index=IGNORED, reduction="none", label_smoothing=smoothing)
    counted = (mask != IGNORED).sum((1, 2))
    return loss.sum((1, 2)) / counted.clamp(min=1)


SETTINGS = ((False, 0, 0, (3, 5)), (False, 0.3, 0, (4, 5)), (True, 0.3, 0, (3, 7)), (True, 0.2, 0.1, (2, 3)))
cases = []
for name in ("pixel_cross_entropy", "dice", "pixel_cross_entropy_and_dice"):
    for weighted, ignored, smoothing, (height, width) in SETTINGS:
        scores = (torch.randn(2, 3, height, width) * 3).requires_grad_()
        mask = torch.randint(3, (2, height, width))
        mask[torch.rand(mask.shape) < ignored] = IGNORED
        if ignored == 0.3:
            mask[1] = IGNORED  # a sample of which nothing counts
        weights = torch.tensor([0.5, 1, 2]) if weighted else None
        loss = torch.zeros(2)
        if name != "dice":
            loss = loss + cross_entropy(scores, mask, weights, smoothing)
        if name != "pixel_cross_entropy":
            loss = loss + dice_loss(scores, mask, weights)
        loss.sum().backward()
        with torch.no_grad():
            correct = (scores.argmax(1) == mask).sum().item()
        cases.append({"name": name, "classes": 3, "smoothing": smoothing, "weights": weights.tolist() if weighted else [],
                      "scores": scores.flatten().tolist(), "mask": mask.flatten().tolist(), "loss": loss.sum().item(),
                      "gradient": scores.grad.flatten().tolist(), "correct": correct, "counted": (mask != IGNORED).sum().item()})
with open(sys.argv[1], "w") as file:
    text = json.dumps({"torch": torch.__version__, "cases": cases}, separators=(",", ":"))
    file.write(text.replace('],"', '],\n"').replace("},{", "},\n{") + "\n")
