"""Writes how PyTorch resizes a picture with antialiasing, for reshape_test.cpp: `pytorch_resize.py FILE`. Exit status 77 where there
is no PyTorch."""

import json
import sys

try:
    import torch
except ImportError:
    print("skipped here: no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
    sys.exit(77)

torch.manual_seed(4)
cases = []
for height, width, new_height, new_width in ((5, 7, 3, 4), (3, 4, 6, 9), (8, 8, 8, 3), (16, 9, 5, 9), (1, 1, 2, 3), (7, 6, 1, 1)):
    values = torch.randint(256, (1, 3, height, width)).float()
    resized = torch.nn.functional.interpolate(values, size=(new_height, new_width), mode="bilinear", antialias=True)
    cases.append({"from": [width, height], "to": [new_width, new_height], "values": values.int().flatten().tolist(),
                  "resized": resized.flatten().tolist()})
with open(sys.argv[1], "w") as file:
    text = json.dumps({"torch": torch.__version__, "cases": cases}, separators=(",", ":"))
    file.write(text.replace('],"', '],\n"').replace("},{", "},\n{") + "\n")
