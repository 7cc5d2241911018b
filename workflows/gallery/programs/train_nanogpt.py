"""A small GPT of bytes. Saves out/ckpt.pt when it evaluates, and continues from it with --init_from=resume, as nanoGPT does."""

import argparse
import os
import pathlib

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--text", type=pathlib.Path, required=True)
parser.add_argument("--out_dir", default="out")
parser.add_argument("--init_from", choices=["scratch", "resume"], default="scratch")
parser.add_argument("--max_iters", type=int, default=300)
parser.add_argument("--eval_interval", type=int, default=25)
given = parser.parse_args()
block, width = 64, 64


class GPT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = torch.nn.Embedding(256, width), torch.nn.Embedding(block, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(width, 256)

    def forward(self, x, y):
        mask = torch.triu(torch.full((block, block), float("-inf")), 1)
        h = self.layers(self.token(x) + self.place(torch.arange(block)), mask)
        return torch.nn.functional.cross_entropy(self.head(h).flatten(0, 1), y.flatten())


def batch(tokens):
    places = torch.randint(len(tokens) - block, (16,)).tolist()
    return torch.stack([tokens[i:i + block] for i in places]), torch.stack([tokens[i + 1:i + 1 + block] for i in places])


tokens = torch.tensor(list(given.text.read_bytes()))
held_out = len(tokens) // 10
os.makedirs(given.out_dir, exist_ok=True)
path, first = os.path.join(given.out_dir, "ckpt.pt"), 0
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if given.init_from == "resume":
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    first = checkpoint["iter_num"]
for step in range(first, given.max_iters + 1):
    if step % given.eval_interval == 0:
        with torch.no_grad():
            print(f"step {step}: val loss {model(*batch(tokens[-held_out:])).item():.4f}", flush=True)
        if step > 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": step}, path)
    optimizer.zero_grad()
    model(*batch(tokens[:-held_out])).backward()
    optimizer.step()
