"""A small language model of the bytes of made-up sentences: it learns as well as PyTorch's twin does, and has the same bits on any
number of ranks."""

import math
import pathlib
import random
import re
import subprocess
import unittest

from texts_case import SETTINGS
from training_case import BIN, ROOT, TrainingCase, main

ONNX = BIN.parent / "venv/bin/python"  # made by tests/python/make_venv
LENGTH, FEATURES, HEADS = 32, 32, 2
MODEL = f"""
name: tiny
input: [{LENGTH}]
blocks:
  block:
    - layer_norm: {{name: norm1}}
    - linear: {{name: qkv, features: {3 * FEATURES}}}
    - attention: {{heads: {HEADS}}}
    - linear: {{name: out, features: {FEATURES}}}
    - dropout: {{name: drop, rate: $rate}}
    - add: {{name: middle, from: input}}
    - layer_norm: {{name: norm2}}
    - linear: {{name: up, features: {4 * FEATURES}}}
    - gelu
    - linear: {{name: down, features: {FEATURES}}}
    - add: {{from: middle}}
layers:
  - embedding: {{name: tokens, vocabulary: 256, features: {FEATURES}}}
  - positions: {{name: places}}
  - block: {{name: a, rate: RATE}}
  - block: {{name: b, rate: RATE}}
  - layer_norm: {{name: last}}
  - linear: {{name: head, features: 256, tied: tokens, bias: false}}
loss: next_token
"""


def write_documents(folder):
    """40 documents of 15 kB, always the same: few words are frequent, and none is of any language."""
    dice = random.Random(1)
    words = ["".join(dice.choice("bdfgklmnprst") + dice.choice("aeiou") for _ in range(dice.randint(1, 4))) for _ in range(400)]
    weights = [1 / place for place in range(1, len(words) + 1)]
    folder.mkdir()
    for number in range(40):
        sentences = [" ".join(dice.choices(words, weights, k=dice.randint(4, 14))).capitalize() + "." for _ in range(300)]
        (folder / f"{number}.md").write_text("\n".join(sentences) + "\n")


class LanguageModel(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = pathlib.Path(cls.temporary.name) / "text"
        documents = pathlib.Path(cls.temporary.name) / "documents"
        write_documents(documents)
        subprocess.run([BIN / "dlflow", "data", "pack", documents, "--pattern", "*.md", "-o", cls.text, "--tokens", "bytes", "--length", str(LENGTH),
                        "--test-share", "0.1"], check=True, stdout=subprocess.DEVNULL)

    def model_folder(self, rate, **more):
        folder = self.folder("text", data=str(self.text), model="model.yaml", **{"validation": 500} | SETTINGS | more)
        (folder / "model.yaml").write_text(MODEL.replace("RATE", str(rate)))
        return folder

    _trained = None

    def trained(self):
        """The folder of a training of two epochs without dropout, one for all tests."""
        if LanguageModel._trained is None:
            folder = self.model_folder(0, epochs=2, validation=0)
            self.train(folder, 2)
            LanguageModel._trained = folder
        return LanguageModel._trained

    def evaluate(self, folder):
        return self.program(folder, "evaluate", data=str(self.text), batch=50)[0]

    def test_any_number_of_ranks_trains_the_same_weights(self):
        _, summary = self.assert_same_bits(lambda: self.model_folder(0.1), (2, 3), ("loss",))
        self.assertLess(summary["loss"], 2)
        self.assertIn("tokens_per_s", summary)
        self.assertNotIn("images_per_s", summary)
        self.assertAlmostEqual(summary["perplexity"], math.exp(summary["loss"]), places=4)

    def test_bits_per_byte_are_the_loss_divided_by_predicted_bytes(self):
        summary = self.evaluate(self.trained())
        count = summary["samples"]
        samples = (self.text / "test.dlset").read_bytes()[128 + 4 * count:][:count * LENGTH]
        predicted = sum(samples[i] != 0 for i in range(len(samples)) if i % LENGTH)
        self.assertAlmostEqual(summary["bits_per_byte"], summary["loss"] / math.log(2) * count * (LENGTH - 1) / predicted, places=9)

    @unittest.skipUnless(ONNX.exists(), "no onnxruntime: build/venv is not there (tests/python/make_venv)")
    def test_the_code_of_the_page_generates_text_like_that_of_the_training(self):
        code = re.search(r"```python\n(.*?)```", (ROOT / "docs/user/generate.md").read_text(), re.DOTALL)[1]
        run = subprocess.run([ONNX, "-B", "-c", code, self.exported("onnx", self.trained()) / "model.onnx", "Ba"], check=True, stdout=subprocess.PIPE, text=True)
        self.assertRegex(run.stdout, "^Ba")
        self.assertGreater(len(run.stdout), 3 * LENGTH)
        pairs = re.findall("(?=([a-z]{2}))", run.stdout)  # consonants and vowels alternate in these words
        self.assertGreater(sum((pair[0] in "aeiou") != (pair[1] in "aeiou") for pair in pairs), 0.9 * len(pairs), run.stdout)

    def test_training_reaches_the_result_of_the_same_training_in_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
        ours = self.evaluate(self.trained())["loss"]
        twin = twin_loss(torch, self.text)
        self.assertLess(abs(ours - twin), 0.1, f"ours {ours:.3f}, PyTorch {twin:.3f}")


def twin_loss(torch, data):
    """That of the test text, after as many steps of the same size."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(FEATURES), nn.LayerNorm(FEATURES)
            self.qkv, self.out = nn.Linear(FEATURES, 3 * FEATURES), nn.Linear(FEATURES, FEATURES)
            self.up, self.down = nn.Linear(FEATURES, 4 * FEATURES), nn.Linear(4 * FEATURES, FEATURES)

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, FEATURES // HEADS).permute(2, 0, 3, 1, 4)
            scores = parts[0] @ parts[1].transpose(-1, -2) / math.sqrt(FEATURES // HEADS)
            scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
            x = x + self.out((scores.softmax(-1) @ parts[2]).transpose(1, 2).reshape(batch, length, FEATURES))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Twin(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, FEATURES), nn.Parameter(0.02 * torch.randn(LENGTH, FEATURES))
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.blocks, self.last = nn.Sequential(Block(), Block()), nn.LayerNorm(FEATURES)

        def forward(self, x):
            return self.last(self.blocks(self.tokens(x) + self.places)) @ self.tokens.weight.T

    def read(split):
        content = (data / f"{split}.dlset").read_bytes()
        count = int.from_bytes(content[16:24], "little")
        pixels = content[128 + 4 * count:128 + 4 * count + count * LENGTH]
        return torch.tensor(list(pixels)).view(count, LENGTH)

    def loss_of(model, batch):
        return functional.cross_entropy(model(batch)[:, :-1].flatten(0, 1), batch[:, 1:].flatten())

    model, train = Twin(), read("train")
    optimizer = torch.optim.AdamW(model.parameters(), lr=SETTINGS["lr"], weight_decay=0)
    for _ in range(2):
        for batch in train[torch.randperm(len(train))].split(SETTINGS["batch"]):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
    with torch.no_grad():
        return loss_of(model, read("test")).item()


if __name__ == "__main__":
    main()
