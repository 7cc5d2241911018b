"""`uses: generate`: what a language model writes is what PyTorch's arithmetic writes with its exported weights, on any number of ranks."""

import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import unittest

from training_case import BIN, ROOT, TrainingCase, main

LENGTH, FEATURES, HEADS = 24, 32, 2
MODEL = f"""
name: tiny
input: [{LENGTH}]
blocks:
  block:
    - layer_norm: {{name: norm1}}
    - linear: {{name: qkv, features: {3 * FEATURES}}}
    - attention: {{heads: {HEADS}}}
    - linear: {{name: out, features: {FEATURES}}}
    - dropout: {{name: drop, rate: 0.1}}
    - add: {{name: middle, from: input}}
    - layer_norm: {{name: norm2}}
    - linear: {{name: up, features: {4 * FEATURES}}}
    - gelu
    - linear: {{name: down, features: {FEATURES}}}
    - add: {{from: middle}}
layers:
  - embedding: {{name: tokens, vocabulary: VOCABULARY, features: {FEATURES}}}
  - positions: {{name: places}}
  - block: {{name: a}}
  - block: {{name: b}}
  - layer_norm: {{name: last}}
  - linear: {{name: head, features: VOCABULARY, tied: tokens, bias: false}}
loss: next_token
"""
SETTINGS = {"model": "model.yaml", "epochs": 1, "batch": 32, "lr": 0.005, "optimizer": {"kind": "adamw"}, "warmup_epochs": 0,
            "schedule": "constant", "validation": 0, "precision": {"leaves": 4}}
HAS_PAIRS = "libsentencepiece" in subprocess.run(["objdump", "-p", BIN / "dlflow-tokenize"], capture_output=True, text=True).stdout


def read_safetensors(path):
    """name -> (shape, list of floats)"""
    content = path.read_bytes()
    size, = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            tensors[name] = entry["shape"], struct.unpack_from(f"<{(end - first) // 4}f", content, 8 + size + first)
    return tensors


class Generate(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bytes = cls.pack("bytes")
        cls.trained = cls.trained_on(cls.bytes, 256)

    def runTest(self):
        pass

    @classmethod
    def pack(cls, tokens):
        folder = pathlib.Path(cls.temporary.name) / tokens.replace(":", "-")
        subprocess.run([BIN / "dlflow", "data", "pack", ROOT / "docs/user", "--pattern", "*.md", "-o", folder, "--tokens", tokens, "--length", str(LENGTH)],
                       check=True, capture_output=True)
        return folder

    @classmethod
    def trained_on(cls, data, vocabulary, **more):
        """The folder of a training."""
        case = cls()
        folder = case.folder("text", **{"data": str(data)} | SETTINGS | more)
        (folder / "model.yaml").write_text(MODEL.replace("VOCABULARY", str(vocabulary)))
        case.train(folder, 1)
        return folder

    def generate(self, trained, ranks=1, error=None, **settings):
        """The samples, and the text file; or what standard error must have."""
        folder = self.folder("generate")
        (folder / "with.json").write_text(json.dumps({"checkpoint": str(trained / "checkpoints/latest")} | settings))
        status, _, errors = self.run_to_end(folder, ranks, "dlflow-generate")
        self.assertEqual(status, 1 if error else 0, errors)
        if error:
            self.assertIn(error, errors)
            return None
        self.assertEqual(json.loads((folder / "outputs/outputs.json").read_text()), {"text": "samples.txt", "samples": "samples.jsonl"})
        self.assertEqual(sorted(file.name for file in (folder / "outputs").iterdir()), ["outputs.json", "samples.jsonl", "samples.txt"])
        samples = [json.loads(line) for line in (folder / "outputs/samples.jsonl").read_text().splitlines()]
        self.assertEqual(json.loads((folder / "metrics.json").read_text())["tokens"], sum(len(sample["tokens"]) for sample in samples))
        return samples, (folder / "outputs/samples.txt").read_bytes()

    def export(self, trained):
        folder = self.folder("export")
        environment = {"DLFLOW_WITH": folder / "with.json", "DLFLOW_OUTPUTS": folder, "DLFLOW_METRICS": folder / "m", "DLFLOW_SUMMARY": folder / "s"}
        (folder / "with.json").write_text(json.dumps({"from": str(trained / "checkpoints"), "export": "safetensors"}))
        subprocess.run([BIN / "dlflow", "step", "checkpoint"], env=os.environ | {name: str(value) for name, value in environment.items()}, check=True, capture_output=True)
        return folder / "model.safetensors"

    def test_the_likeliest_tokens_are_those_of_pytorch_with_the_exported_weights(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
        weights = {name: torch.tensor(values).reshape(shape) for name, (shape, values) in read_safetensors(self.export(self.trained)).items()}
        for prompt in ("The workflow ", "x"):
            with self.subTest(prompt):
                sample = self.generate(self.trained, prompt=prompt, temperature=0, max_tokens=3 * LENGTH)[0][0]
                self.assertEqual(sample["tokens"], greedy(torch, weights, list(prompt.encode()), 3 * LENGTH))
                self.assertFalse(sample["ended"])

    def test_any_number_of_ranks_writes_the_same_text(self):
        settings = {"prompt": "A step", "temperature": 0.8, "top_k": 50, "top_p": 0.95, "samples": 3, "max_tokens": 40, "seed": 5}
        samples, text = self.generate(self.trained, **settings)
        for ranks in (2, 4):
            self.assertEqual(self.generate(self.trained, ranks, **settings), (samples, text))
        self.assertEqual([sample["sample"] for sample in samples], [0, 1, 2])
        self.assertEqual(len({sample["text"] for sample in samples}), 3)
        parts = [b"A step" + bytes(sample["tokens"]) + b"\n" for sample in samples]
        self.assertEqual(text, b"<|endoftext|>\n".join(parts))
        other = self.generate(self.trained, **settings | {"seed": 6})[0]
        self.assertNotEqual([sample["tokens"] for sample in other], [sample["tokens"] for sample in samples])

    def test_exported_and_imported_weights_write_the_same_text(self):
        start = self.export(self.trained)
        again = self.trained_on(self.bytes, 256, start_from=str(start), lr=1e-30, optimizer={"kind": "sgd"}, momentum=0)
        for settings in ({"prompt": "The ", "temperature": 0}, {"seed": 3}):
            self.assertEqual(self.generate(again, max_tokens=60, **settings), self.generate(self.trained, max_tokens=60, **settings))

    @unittest.skipUnless(HAS_PAIRS, "dlflow-tokenize was built without SentencePiece")
    def test_networks_of_byte_pairs_write_with_their_tokenizer(self):
        data = self.pack("bpe:500")
        trained = self.trained_on(data, 500)
        tokenizer = str(data / "tokenizer.model")
        samples, text = self.generate(trained, tokenizer=tokenizer, prompt="The workflow", samples=2, max_tokens=50)
        self.assertEqual(self.generate(trained, 2, tokenizer=tokenizer, prompt="The workflow", samples=2, max_tokens=50), (samples, text))
        self.assertTrue(all(1 < token < 500 for sample in samples for token in sample["tokens"]))
        self.assertGreater(len(samples[0]["text"].encode()), len(samples[0]["tokens"]))
        self.assertTrue(text.startswith(b"The workflow"))
        self.generate(trained, error="with: 'tokenizer' is missing: the network was trained with byte pairs")
        other = self.folder("other") / "tokenizer.model"
        subprocess.run([BIN / "dlflow", "data", "pack", ROOT / "docs/operator", "--pattern", "*.md", "-o", other.parent, "--tokens", "bpe:500"], check=True, capture_output=True)
        self.generate(trained, tokenizer=str(other), error="which is another one than the network was trained with")
        folder = self.folder("evaluate")
        shutil.copy(self.bytes / "train.dlset", folder / "test.dlset")
        (folder / "with.json").write_text(json.dumps({"checkpoint": str(trained / "checkpoints/latest"), "data": str(folder)}))
        status, _, errors = self.run_to_end(folder, 1, "dlflow-evaluate")
        self.assertEqual(status, 1)
        self.assertIn("its tokens are those of another tokenizer than the network was trained with", errors)

    def test_bits_per_byte_are_the_loss_by_the_bytes_that_were_foretold(self):
        data = self.folder("test")
        shutil.copy(self.bytes / "train.dlset", data / "test.dlset")
        folder = self.folder("evaluate")
        (folder / "with.json").write_text(json.dumps({"checkpoint": str(self.trained / "checkpoints/latest"), "data": str(data)}))
        self.assertEqual(self.run_to_end(folder, 1, "dlflow-evaluate")[0], 0)
        summary = json.loads((folder / "metrics.json").read_text())
        samples = (data / "test.dlset").read_bytes()[128 + 4 * summary["samples"]:][:summary["samples"] * LENGTH]
        foretold = sum(samples[i] != 0 for i in range(len(samples)) if i % LENGTH)
        self.assertAlmostEqual(summary["bits_per_byte"], summary["loss"] / math.log(2) * summary["samples"] * (LENGTH - 1) / foretold, places=9)

    def test_what_cannot_be_written_says_why(self):
        pictures = self.folder("pictures", epochs=1)
        self.train(pictures, 1)
        self.generate(pictures, error="text is generated by language models, with 'loss: next_token'")
        for settings, error in (({"top_p": 0}, "with: 'top_p' must be above 0 and at most 1"),
                                ({"prompt": 3}, "with: 'prompt' must be a text"),
                                ({"max_tokens": 0}, "'max_tokens'"),
                                ({"tempreature": 1}, "tempreature"),
                                ({"tokenizer": str(self.bytes / "train.dlset")}, "is not a tokenizer of SentencePiece" if HAS_PAIRS else "built without SentencePiece")):
            with self.subTest(settings):
                self.generate(self.trained, error=error, **settings)


def greedy(torch, weights, tokens, count):
    """The likeliest tokens, by PyTorch's functions. After LENGTH tokens, the last LENGTH // 2 are the beginning."""
    functional = torch.nn.functional
    norm = lambda x, name: functional.layer_norm(x, (FEATURES,), weights[name + ".weight"], weights[name + ".bias"])
    linear = lambda x, name: functional.linear(x, weights[name + ".weight"], weights[name + ".bias"])

    def scores(seen):
        x = weights["tokens.weight"][torch.tensor(seen)] + weights["places.weight"][:len(seen)]
        for block in ("a.", "b."):
            q, k, v = (part.reshape(len(seen), HEADS, -1).transpose(0, 1) for part in linear(norm(x, block + "norm1"), block + "qkv").split(FEATURES, -1))
            shares = (q @ k.transpose(-1, -2) / math.sqrt(FEATURES // HEADS)).masked_fill(torch.ones(len(seen), len(seen)).triu(1).bool(), -math.inf).softmax(-1)
            x = x + linear((shares @ v).transpose(0, 1).reshape(len(seen), FEATURES), block + "out")
            x = x + linear(functional.gelu(linear(norm(x, block + "norm2"), block + "up")), block + "down")
        return norm(x[-1], "last") @ weights["tokens.weight"].T

    written, begin = list(tokens), 0
    with torch.no_grad():
        for _ in range(count):
            if len(written) - begin > LENGTH:
                begin = len(written) - LENGTH // 2
            written.append(scores(written[begin:]).argmax().item())
    return written[len(tokens):]


if __name__ == "__main__":
    main()
