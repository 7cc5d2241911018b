"""Classes of texts of unequal length: loss, scores and gradient equal those of PyTorch's MultiheadAttention with `key_padding_mask`,
with the same bits on any number of ranks; evaluate and predict; the workflow text-classes.yaml."""

import csv
import json
import os
import pathlib
import random
import subprocess

from texts_case import FEATURES, HEADS, LENGTH, TextsCase, model, parameters
from training_case import BIN, ROOT, main

CLASSES = ["letters", "mixed", "numbers"]
ONNX = BIN.parent / "venv/bin/python"  # made by tests/python/make_venv
# The largest difference between onnxruntime's scores and ours, relative to the largest score. Bytes after the end of a text do not matter.
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


class TextClasses(TextsCase):
    version = 7
    model = model(f"heads: {HEADS}, causal: false", "  - mean_pool", "  - linear: {name: head, features: 3}")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = pathlib.Path(cls.temporary.name) / "source"
        rng = random.Random(1)
        for number in range(360):
            kind = CLASSES[number % 3]
            signs = {"letters": "abcdef", "numbers": "123456", "mixed": "ab12"}[kind]
            (folder / kind).mkdir(parents=True, exist_ok=True)
            (folder / kind / f"{number}.txt").write_text("".join(rng.choice(signs) for _ in range(rng.randint(1, LENGTH + 5))))
        cls.pack(folder, "--per", "document", "--labels", "folders")
        content = (cls.text / "train.dlset").read_bytes()
        assert (content[36], int.from_bytes(content[108:112], "little")) == (3, 256)  # classes, vocabulary

    def test_any_number_of_ranks_trains_the_same_weights_even_after_a_kill(self):
        summary, result = self.check_ranks_and_a_kill(epochs=6)
        self.assertIn("f1", summary)
        self.assertGreater(result["accuracy"], 0.6)  # 0.33 by chance

    def test_predictions_are_classes_by_name_in_the_order_of_documents(self):
        folder = self.trained(epochs=6)
        measured = self.run_with(folder, "evaluate", 2)
        self.run_with(folder, "predict", 2)
        rows = list(csv.DictReader(next(folder.rglob("predictions.csv")).read_text().splitlines()))
        texts, labels = self.split("test")
        self.assertEqual([row["label"] for row in rows], [CLASSES[label] for label in labels])
        right = sum(row["label"] == row["prediction"] for row in rows)
        self.assertAlmostEqual(right / len(texts), measured["accuracy"], places=6)
        self.run_with(folder, "predict", 2, format="npy")
        head = next(folder.rglob("predictions.npy")).read_bytes()[:128].decode("latin1")
        self.assertIn(f"({len(texts)}, 3", head)

    def test_scores_loss_and_gradient_are_those_of_pytorch_with_key_padding_mask(self):
        self.check_a_step(twin)

    def test_onnxruntime_gives_the_scores_of_texts_of_each_length(self):
        if not ONNX.exists():
            self.skipTest("no onnxruntime: build/venv is not there")
        folder = self.trained(epochs=3)
        self.run_with(folder, "predict", 2, format="npy")
        ours = next(folder.rglob("predictions.npy"))
        export = self.exported("onnx", folder)
        texts, _ = self.split("test")
        (export / "texts.json").write_text(json.dumps([list(text) for text in texts]))
        run = subprocess.run([ONNX, "-c", SCORES, export / "model.onnx", export / "texts.json", ours, str(LENGTH)], stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 0)
        self.assertLess(float(run.stdout), 1e-5)

    def test_the_workflow_text_classes_distinguishes_programming_languages(self):
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
    p, norm = parameters(torch, tensors)
    tokens, padding = torch.zeros(len(texts), LENGTH, dtype=torch.long), torch.ones(len(texts), LENGTH, dtype=torch.bool)
    for row, text in enumerate(texts):
        tokens[row, :len(text)] = torch.tensor(list(text))
        padding[row, :len(text)] = False

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
