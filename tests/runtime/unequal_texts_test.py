"""Language models of texts of unequal length: loss and gradient are those of PyTorch on padded batches with `ignore_index`, and the
same bits come out on any number of ranks."""

import json
import math
import pathlib
import random
import struct
import subprocess
import unittest

from training_case import BIN, ROOT, TrainingCase, main

LENGTH, FEATURES, HEADS = 40, 16, 2
MODEL = f"""
name: tiny
input: [{LENGTH}]
layers:
  - embedding: {{name: tokens, vocabulary: 256, features: {FEATURES}}}
  - positions: {{name: places}}
  - layer_norm: {{name: norm}}
  - linear: {{name: qkv, features: {3 * FEATURES}}}
  - attention: {{heads: {HEADS}}}
  - linear: {{name: out, features: {FEATURES}}}
  - add: {{from: places}}
  - layer_norm: {{name: last}}
  - linear: {{name: head, features: 256, tied: tokens, bias: false}}
loss: next_token
"""
SETTINGS = {"epochs": 1, "batch": 32, "lr": 0.003, "optimizer": {"kind": "adamw"}, "weight_decay": 0, "warmup_epochs": 0,
            "schedule": "constant", "precision": {"leaves": 4}}
PLAIN = {"optimizer": {"kind": "sgd"}, "momentum": 0, "lr": 0.5, "validation": 0}  # a step is the gradient


def texts_of(path):
    """The samples of a .dlset of version 6, as bytes."""
    content = path.read_bytes()
    version, kind, count = struct.unpack_from("<IIQ", content, 8)
    assert (version, kind) == (6, 3)
    ends = struct.unpack_from(f"<{count}Q", content, 128)
    begin = 128 + 12 * count
    return [content[begin + first:begin + end] for first, end in zip((0,) + ends, ends)]


def tensors_of(path):
    content = path.read_bytes()
    size, = struct.unpack_from("<Q", content)
    tensors = {}
    for name, entry in json.loads(content[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        tensors[name] = (entry["shape"], struct.unpack_from(f"<{(end - first) // 4}f", content, 8 + size + first))
    return tensors


class UnequalTexts(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = pathlib.Path(cls.temporary.name) / "text"
        lines = [line for page in sorted((ROOT / "docs/user").glob("tutorial-*.md")) for line in page.read_text().splitlines() if line]
        random.Random(1).shuffle(lines)
        source = pathlib.Path(cls.temporary.name) / "lines.txt"
        source.write_text("\n".join(line[:random.Random(i).randint(1, 60)] for i, line in enumerate(lines[:300])))
        subprocess.run([BIN / "dlflow", "data", "pack", source, "-o", cls.text, "--tokens", "bytes", "--per", "line", "--length", str(LENGTH),
                        "--test-share", "0.2"], check=True, stdout=subprocess.DEVNULL)

    def model_folder(self, **more):
        folder = self.folder("text", data=str(self.text), model="model.yaml", **{"validation": 20} | SETTINGS | more)
        (folder / "model.yaml").write_text(MODEL)
        return folder

    def evaluate(self, folder, ranks=1):
        (folder / "with.json").write_text(json.dumps({"checkpoint": "checkpoints/latest", "data": str(self.text), "batch": 7}))
        status, _, errors = self.run_to_end(folder, ranks, "dlflow-evaluate")
        self.assertEqual(status, 0, errors)
        return json.loads((folder / "metrics.json").read_text())

    def test_any_number_of_ranks_trains_the_same_weights_also_after_a_kill(self):
        alone = self.model_folder(epochs=3)
        summary = self.train(alone, 1)
        self.assertAlmostEqual(summary["perplexity"], math.exp(summary["loss"]), places=4)
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                folder = self.model_folder(epochs=3)
                self.assertEqual(self.train(folder, ranks)["loss"], summary["loss"])
                self.assertEqual(self.bits(folder), self.bits(alone))
        killed = self.model_folder(epochs=3)
        self.kill_at(killed, 2, 3)
        self.train(killed, 3)
        self.assertEqual(self.bits(killed), self.bits(alone))
        self.assertEqual(self.evaluate(killed, 2)["loss"], self.evaluate(alone, 1)["loss"])

    def test_bits_per_byte_and_tokens_are_those_of_real_tokens(self):
        folder = self.model_folder()
        self.train(folder, 1)
        result = self.evaluate(folder)
        texts = texts_of(self.text / "test.dlset")
        targets = sum(len(text) - 1 for text in texts)
        text_bytes = sum(len(text[1:].rstrip(b"\0")) for text in texts)
        self.assertAlmostEqual(result["bits_per_byte"], result["loss"] / math.log(2) * targets / text_bytes, places=5)
        self.assertEqual(result["samples"], len(texts))

    def test_predictions_have_rows_of_one_length_with_zeros_behind_the_ends(self):
        folder = self.model_folder()
        self.train(folder, 1)
        (folder / "with.json").write_text(json.dumps({"checkpoint": "checkpoints/latest", "data": str(self.text), "batch": 7, "format": "npy"}))
        status, _, errors = self.run_to_end(folder, 2, "dlflow-predict")
        self.assertEqual(status, 0, errors)
        texts = texts_of(self.text / "test.dlset")
        content = next(folder.rglob("predictions.npy")).read_bytes()
        begin = 10 + struct.unpack_from("<H", content, 8)[0]
        self.assertIn(f"({len(texts)}, {LENGTH}, 256", content[:begin].decode("latin1"))
        self.assertEqual(len(content), begin + 4 * len(texts) * LENGTH * 256)
        for i, text in enumerate(texts):
            row = struct.unpack_from(f"<{LENGTH * 256}f", content, begin + 4 * i * LENGTH * 256)
            self.assertTrue(any(row[(len(text) - 1) * 256:len(text) * 256]))
            self.assertFalse(any(row[len(text) * 256:]))

    def test_loss_and_gradient_are_those_of_pytorch_with_padding(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
        begun = self.model_folder(epochs=3)
        self.train(begun, 1)
        texts = texts_of(self.text / "train.dlset")
        before = tensors_of(begun / "checkpoints/latest/model.safetensors")
        stepped = self.model_folder(**PLAIN | {"batch": len(texts), "start_from": str((begun / "checkpoints/latest").resolve())})
        self.train(stepped, 2)
        after = tensors_of(stepped / "checkpoints/latest/model.safetensors")
        loss, gradients = twin(torch, before, texts)
        self.assertGreater(len({len(text) for text in texts}), 20)
        for name, (shape, values) in after.items():
            moved = (torch.tensor(before[name][1]) - torch.tensor(values)) / PLAIN["lr"]
            expected = gradients[name].flatten()
            error = (moved - expected).abs().max().item()
            self.assertLess(error, 1e-6 + 1e-5 * expected.abs().max().item(), name)
        measured = self.evaluate(begun)["loss"]
        expected, _ = twin(torch, before, texts_of(self.text / "test.dlset"))
        self.assertLess(abs(measured - expected), 1e-5)
        self.assertGreater(abs(loss - math.log(256)), 0.5)  # it has learnt


def twin(torch, tensors, texts):
    """Loss and gradients of all texts as one padded batch."""
    functional = torch.nn.functional
    torch.set_num_threads(1)
    p = {name: torch.tensor(values).view(shape).requires_grad_() for name, (shape, values) in tensors.items()}
    tokens = torch.zeros(len(texts), LENGTH, dtype=torch.long)
    targets = torch.full((len(texts), LENGTH), -100)
    for row, text in enumerate(texts):
        tokens[row, :len(text)] = torch.tensor(list(text))
        targets[row, :len(text) - 1] = torch.tensor(list(text[1:]))

    def norm(x, name):
        return functional.layer_norm(x, (FEATURES,), p[f"{name}.weight"], p[f"{name}.bias"])

    x = p["tokens.weight"][tokens] + p["places.weight"]
    parts = functional.linear(norm(x, "norm"), p["qkv.weight"], p["qkv.bias"]).view(len(texts), LENGTH, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
    scores = parts[0] @ parts[1].transpose(-1, -2) / math.sqrt(FEATURES // HEADS)
    scores = scores.masked_fill(torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1), -math.inf)
    seen = (scores.softmax(-1) @ parts[2]).transpose(1, 2).reshape(len(texts), LENGTH, FEATURES)
    x = norm(functional.linear(seen, p["out.weight"], p["out.bias"]) + x, "last") @ p["tokens.weight"].T
    loss = functional.cross_entropy(x.flatten(0, 1), targets.flatten(), ignore_index=-100)
    loss.backward()
    return loss.item(), {name: tensor.grad for name, tensor in p.items()}


if __name__ == "__main__":
    main()
