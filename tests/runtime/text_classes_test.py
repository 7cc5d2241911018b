"""Classes of texts of unequal length: loss, scores and gradient are those of PyTorch's MultiheadAttention with `key_padding_mask`, and the same
bits come out on any number of ranks; evaluate and predict; the workflow text-classes.yaml."""

import csv
import json
import os
import pathlib
import random
import struct
import subprocess
import unittest

from training_case import BIN, ROOT, TrainingCase, main
from unequal_texts_test import tensors_of

LENGTH, FEATURES, HEADS = 40, 16, 2
CLASSES = ["letters", "mixed", "numbers"]
MODEL = f"""
name: tiny
input: [{LENGTH}]
layers:
  - embedding: {{name: tokens, vocabulary: 256, features: {FEATURES}}}
  - positions: {{name: places}}
  - layer_norm: {{name: norm}}
  - linear: {{name: qkv, features: {3 * FEATURES}}}
  - attention: {{heads: {HEADS}, causal: false}}
  - linear: {{name: out, features: {FEATURES}}}
  - add: {{from: places}}
  - layer_norm: {{name: last}}
  - mean_pool
  - linear: {{name: head, features: 3}}
"""
SETTINGS = {"epochs": 1, "batch": 32, "lr": 0.003, "optimizer": {"kind": "adamw"}, "weight_decay": 0, "warmup_epochs": 0,
            "schedule": "constant", "precision": {"leaves": 4}}
ONNX = BIN.parent / "venv/bin/python"  # made by tests/python/make_venv
# The largest difference of onnxruntime's scores to ours, in parts of the largest score. What stands behind the end of a text does not matter.
SCORES = """
import json, numpy, onnxruntime, sys
model, texts, scores, length = sys.argv[1:]
texts = json.load(open(texts))
tokens = numpy.full((len(texts), int(length)), 7)
for row, text in zip(tokens, texts):
    row[:len(text)] = text
given, = onnxruntime.InferenceSession(model).run(["scores"], {"input": tokens, "lengths": numpy.array([len(text) for text in texts])})
ours = numpy.load(scores)
print(abs(given - ours).max() / abs(ours).max())
"""
PLAIN = {"optimizer": {"kind": "sgd"}, "momentum": 0, "lr": 0.5, "validation": 0}  # a step is the gradient


def texts_of(path):
    """The samples of a .dlset of version 7, as bytes, and their labels."""
    content = path.read_bytes()
    version, kind, count = struct.unpack_from("<IIQ", content, 8)
    assert (version, kind) == (7, 3)
    assert struct.unpack_from("<I", content, 36) + struct.unpack_from("<I", content, 108) == (3, 256)  # classes, vocabulary
    ends = struct.unpack_from(f"<{count}Q", content, 128)
    labels = struct.unpack_from(f"<{count}I", content, 128 + 8 * count)
    begin = 128 + 12 * count
    return [content[begin + first:begin + end] for first, end in zip((0,) + ends, ends)], list(labels)


class TextClasses(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder, cls.text = pathlib.Path(cls.temporary.name) / "source", pathlib.Path(cls.temporary.name) / "text"
        rng = random.Random(1)
        for number in range(360):
            kind = CLASSES[number % 3]
            signs = {"letters": "abcdef", "numbers": "123456", "mixed": "ab12"}[kind]
            (folder / kind).mkdir(parents=True, exist_ok=True)
            (folder / kind / f"{number}.txt").write_text("".join(rng.choice(signs) for _ in range(rng.randint(1, LENGTH + 5))))
        subprocess.run([BIN / "dlflow", "data", "pack", folder, "-o", cls.text, "--tokens", "bytes", "--per", "document", "--labels", "folders",
                        "--length", str(LENGTH), "--test-share", "0.2"], check=True, stdout=subprocess.DEVNULL)

    def model_folder(self, **more):
        folder = self.folder("text", data=str(self.text), model="model.yaml", **{"validation": 20} | SETTINGS | more)
        (folder / "model.yaml").write_text(MODEL)
        return folder

    def run_with(self, folder, program, ranks=1, **more):
        (folder / "with.json").write_text(json.dumps({"checkpoint": "checkpoints/latest", "data": str(self.text), "batch": 7} | more))
        status, _, errors = self.run_to_end(folder, ranks, program)
        self.assertEqual(status, 0, errors)
        return json.loads((folder / "metrics.json").read_text())

    def test_any_number_of_ranks_trains_the_same_weights_also_after_a_kill(self):
        alone = self.model_folder(epochs=6)
        summary = self.train(alone, 1)
        self.assertIn("f1", summary)
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                folder = self.model_folder(epochs=6)
                self.assertEqual(self.train(folder, ranks)["loss"], summary["loss"])
                self.assertEqual(self.bits(folder), self.bits(alone))
        killed = self.model_folder(epochs=6)
        self.kill_at(killed, 2, 3)
        self.train(killed, 3)
        self.assertEqual(self.bits(killed), self.bits(alone))
        result = self.run_with(killed, "dlflow-evaluate", 2)
        self.assertEqual(self.run_with(alone, "dlflow-evaluate", 1)["loss"], result["loss"])
        self.assertGreater(result["accuracy"], 0.6)  # by chance 0.33

    def test_predictions_are_classes_by_name_in_the_order_of_documents(self):
        folder = self.model_folder(epochs=6)
        self.train(folder, 1)
        measured = self.run_with(folder, "dlflow-evaluate", 2)
        self.run_with(folder, "dlflow-predict", 2)
        rows = list(csv.DictReader(next(folder.rglob("predictions.csv")).read_text().splitlines()))
        texts, labels = texts_of(self.text / "test.dlset")
        self.assertEqual([row["label"] for row in rows], [CLASSES[label] for label in labels])
        right = sum(row["label"] == row["prediction"] for row in rows)
        self.assertAlmostEqual(right / len(texts), measured["accuracy"], places=6)
        self.run_with(folder, "dlflow-predict", 2, format="npy")
        head = next(folder.rglob("predictions.npy")).read_bytes()[:128].decode("latin1")
        self.assertIn(f"({len(texts)}, 3", head)

    def test_scores_loss_and_gradient_are_those_of_pytorch_with_key_padding_mask(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
        begun = self.model_folder(epochs=3)
        self.train(begun, 1)
        texts, labels = texts_of(self.text / "train.dlset")
        before = tensors_of(begun / "checkpoints/latest/model.safetensors")
        stepped = self.model_folder(**PLAIN | {"batch": len(texts), "start_from": str((begun / "checkpoints/latest").resolve())})
        self.train(stepped, 2)
        after = tensors_of(stepped / "checkpoints/latest/model.safetensors")
        _, gradients = twin(torch, before, texts, labels)
        self.assertGreater(len({len(text) for text in texts}), 20)
        for name, (_, values) in after.items():
            moved = (torch.tensor(before[name][1]) - torch.tensor(values)) / PLAIN["lr"]
            expected = gradients[name].flatten()
            error = (moved - expected).abs().max().item()
            self.assertLess(error, 1e-6 + 1e-5 * expected.abs().max().item(), name)
        expected, _ = twin(torch, before, *texts_of(self.text / "test.dlset"))
        self.assertLess(abs(self.run_with(begun, "dlflow-evaluate")["loss"] - expected), 1e-5)

    def test_onnxruntime_gives_the_scores_of_texts_of_each_length(self):
        if not ONNX.exists():
            self.skipTest("no onnxruntime: build/venv is not there")
        folder = self.model_folder(epochs=3)
        self.train(folder, 1)
        self.run_with(folder, "dlflow-predict", 2, format="npy")
        ours = next(folder.rglob("predictions.npy"))
        export = self.exported("onnx", folder)
        texts, _ = texts_of(self.text / "test.dlset")
        (export / "texts.json").write_text(json.dumps([list(text) for text in texts]))
        run = subprocess.run([ONNX, "-c", SCORES, export / "model.onnx", export / "texts.json", ours, str(LENGTH)], stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 0)
        self.assertLess(float(run.stdout), 1e-5)

    def test_the_workflow_text_classes_tells_programming_languages_apart(self):
        folder = pathlib.Path(self.temporary.name) / "workflow"
        (folder / "models").mkdir(parents=True)
        for file in ("text-classes.yaml", "excerpts.py", "models/text-classes.yaml"):
            (folder / file).write_bytes((ROOT / "workflows" / file).read_bytes())
        words = [word for param in ("ranks=1", "count=400", "epochs=2", "accuracy=0.5") for word in ("--set", param)]
        environment = os.environ | {"PATH": f"{BIN}:/usr/bin:{os.environ['PATH']}", "DLFLOW_HOME": str(folder / "home")}
        run = subprocess.run([BIN / "dlflow", "run", "text-classes.yaml", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=250)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


def twin(torch, tensors, texts, labels):
    """Loss and gradients of all texts as one padded batch."""
    functional = torch.nn.functional
    torch.set_num_threads(1)
    p = {name: torch.tensor(values).view(shape).requires_grad_() for name, (shape, values) in tensors.items()}
    tokens, padding = torch.zeros(len(texts), LENGTH, dtype=torch.long), torch.ones(len(texts), LENGTH, dtype=torch.bool)
    for row, text in enumerate(texts):
        tokens[row, :len(text)] = torch.tensor(list(text))
        padding[row, :len(text)] = False

    def norm(x, name):
        return functional.layer_norm(x, (FEATURES,), p[f"{name}.weight"], p[f"{name}.bias"])

    attention = torch.nn.MultiheadAttention(FEATURES, HEADS, batch_first=True)
    names = {"in_proj_weight": "qkv.weight", "in_proj_bias": "qkv.bias", "out_proj.weight": "out.weight", "out_proj.bias": "out.bias"}
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            parameter.copy_(p[names[name]])
    x = p["tokens.weight"][tokens] + p["places.weight"]
    n = norm(x, "norm")
    x = norm(attention(n, n, n, key_padding_mask=padding, need_weights=False)[0] + x, "last")
    real = (~padding).unsqueeze(-1)
    pooled = (x * real).sum(1) / real.sum(1)
    loss = functional.cross_entropy(functional.linear(pooled, p["head.weight"], p["head.bias"]), torch.tensor(labels))
    loss.backward()
    gradients = {name: tensor.grad for name, tensor in p.items()}
    return loss.item(), gradients | {names[name]: parameter.grad for name, parameter in attention.named_parameters()}


if __name__ == "__main__":
    main()
