"""dlflow.torch.weights: networks of torchvision and Hugging Face become weights of dlflow's models with the same scores, and can be
converted back."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["DLFLOW_BUILD"]) / "bin"

try:
    import numpy
    import torch
    from torch import nn

    from dlflow.torch import weights
except ImportError:
    torch = None
try:
    import torchvision
except ImportError:
    torchvision = None

GPT = """name: tiny-gpt2
input: [8]
blocks:
  block:
    - layer_norm: {name: ln_1}
    - linear: {name: attn.c_attn, features: 48}
    - attention: {heads: 2}
    - linear: {name: attn.c_proj, features: 16}
    - add: {name: middle, from: input}
    - layer_norm: {name: ln_2}
    - linear: {name: mlp.c_fc, features: 64}
    - gelu
    - linear: {name: mlp.c_proj, features: 16}
    - add: {from: middle}
layers:
  - embedding: {name: wte, vocabulary: 11, features: 16}
  - positions: {name: wpe}
  - block: {name: h.0}
  - block: {name: h.1}
  - layer_norm: {name: ln_f}
  - linear: {name: lm_head, features: 11, tied: wte, bias: false}
loss: next_token
"""


def gpt2_state():
    """The state of GPT2LMHeadModel: Conv1D weights are (in, out), masks are buffers, the output layer is the embedding."""
    torch.manual_seed(3)
    state = {"transformer.wte.weight": torch.randn(11, 16), "transformer.wpe.weight": torch.randn(8, 16)}
    for block in ("h.0", "h.1"):
        for name, (rows, columns) in {"attn.c_attn": (16, 48), "attn.c_proj": (16, 16), "mlp.c_fc": (16, 64), "mlp.c_proj": (64, 16)}.items():
            state[f"transformer.{block}.{name}.weight"] = torch.randn(rows, columns) * 0.3
            state[f"transformer.{block}.{name}.bias"] = torch.randn(columns) * 0.1
        for name in ("ln_1", "ln_2"):
            state[f"transformer.{block}.{name}.weight"], state[f"transformer.{block}.{name}.bias"] = torch.rand(16) + 0.5, torch.randn(16)
        state[f"transformer.{block}.attn.bias"] = torch.ones(8, 8).tril().reshape(1, 1, 8, 8)
        state[f"transformer.{block}.attn.masked_bias"] = torch.tensor(-1e4)
    state["transformer.ln_f.weight"], state["transformer.ln_f.bias"] = torch.rand(16) + 0.5, torch.randn(16)
    state["lm_head.weight"] = state["transformer.wte.weight"]
    return state


def gpt2_scores(state, tokens):
    """Computed by Hugging Face's formulas, from its names."""
    value = lambda name: state["transformer." + name]
    norm = lambda x, name: nn.functional.layer_norm(x, (16,), value(name + ".weight"), value(name + ".bias"))
    conv1d = lambda x, name: x @ value(name + ".weight") + value(name + ".bias")
    x = value("wte.weight")[tokens] + value("wpe.weight")
    for block in ("h.0", "h.1"):
        q, k, v = (part.reshape(-1, 8, 2, 8).transpose(1, 2) for part in conv1d(norm(x, block + ".ln_1"), block + ".attn.c_attn").split(16, dim=-1))
        seen = torch.ones(8, 8).tril().bool()
        shares = (q @ k.transpose(-1, -2) / 8 ** 0.5).masked_fill(~seen, -1e9).softmax(-1)
        x = x + conv1d((shares @ v).transpose(1, 2).reshape(-1, 8, 16), block + ".attn.c_proj")
        x = x + conv1d(nn.functional.gelu(conv1d(norm(x, block + ".ln_2"), block + ".mlp.c_fc")), block + ".mlp.c_proj")
    return norm(x, "ln_f") @ state["lm_head.weight"].t()


@unittest.skipUnless(torch and (BIN / "dlflow-train").exists(), "PyTorch is not installed, or dlflow-train was not built")
class Weights(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="dlflow-weights.")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def convert(self, *arguments, status=0):
        """The output of the command."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(weights.main([str(word) for word in arguments]), status, err.getvalue())
        return out.getvalue() + err.getvalue()

    def run_step(self, program, settings):
        (self.folder / "with.json").write_text(json.dumps(settings))
        done = subprocess.run([BIN / program, "with.json"], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def scores(self, model, start, pixels, freeze, **settings):
        """The scores of dlflow's network with these weights on `pixels` (N, C, H, W), from a training without any change."""
        numpy.save(self.folder / "pixels.npy", pixels)
        numpy.save(self.folder / "labels.npy", numpy.arange(len(pixels)) % 3)
        for split in ("train", "test"):
            subprocess.run([BIN / "dlflow", "data", "pack", "pixels.npy", "labels.npy", "-o", "data", "--split", split], cwd=self.folder, check=True, capture_output=True)
        (self.folder / "model.yaml").write_text(model)
        said = self.run_step("dlflow-train", {"model": "model.yaml", "data": "data", "epochs": 1, "lr": 1e-30, "batch": len(pixels), "validation": 0, "start_from": str(start),
                                              "freeze": freeze, **settings})
        self.run_step("dlflow-predict", {"checkpoint": "checkpoints/latest", "data": "data", "format": "npy"})
        return numpy.load(self.folder / "outputs/predictions.npy"), said

    @unittest.skipUnless(torchvision, "python3-torchvision is not installed")
    def test_networks_of_torchvision_give_the_same_scores(self):
        pixels = numpy.random.default_rng(1).standard_normal((6, 3, 64, 64)).astype("float32")
        normalize = {"mean": 0, "std": 1}
        for name in ("resnet18", "mobilenet-v2"):
            with self.subTest(name):
                torch.manual_seed(5)
                network = getattr(torchvision.models, name.replace("-", "_"))(num_classes=10)
                network.train()(torch.tensor(pixels))  # running statistics that are not those of the beginning
                network.eval()
                torch.save({"state_dict": {"module." + key: value for key, value in network.state_dict().items()}, "epoch": 3}, self.folder / f"{name}.pth")
                self.convert(self.folder / f"{name}.pth", "-o", self.folder / f"{name}.safetensors")
                model = (ROOT / f"workflows/models/{name}.yaml").read_text().replace("[3, 224, 224]", "[3, 64, 64]").replace("features: 1000", "features: 10")
                frozen = [layer for layer in {key.rpartition(".")[0] for key in network.state_dict()} if layer not in ("fc", "classifier.1")]
                scores, said = self.scores(model, self.folder / f"{name}.safetensors", pixels, frozen, normalize=normalize)
                self.assertNotIn("random numbers", said)
                with torch.no_grad():
                    expected = network(torch.tensor(pixels)).numpy()
                self.assertLess(abs(scores - expected).max() / abs(expected).max(), 1e-4)
                for name in ("checkpoints", "data", "outputs"):
                    shutil.rmtree(self.folder / name)

    def test_a_gpt2_of_hugging_face_gives_the_same_scores_and_can_be_converted_back(self):
        state = gpt2_state()
        torch.save(state, self.folder / "pytorch_model.bin")
        self.convert(self.folder, "-o", self.folder / "start.safetensors")
        tokens = numpy.random.default_rng(2).integers(0, 11, (6, 8))
        frozen = [layer for layer in {name.rpartition(".")[0] for name in weights.load(self.folder / "start.safetensors")} if layer != "ln_f"]
        scores, said = self.scores(GPT, self.folder / "start.safetensors", tokens.astype("uint8").reshape(6, 1, 1, 8), frozen)
        self.assertNotIn("random numbers", said)
        expected = gpt2_scores(state, torch.tensor(tokens)).numpy()
        self.assertLess(abs(scores - expected).max() / abs(expected).max(), 1e-4)
        self.convert(self.folder / "start.safetensors", "-o", self.folder / "back.safetensors", "--to", "huggingface")
        back = weights.load(self.folder / "back.safetensors")
        for name, tensor in back.items():
            self.assertTrue(torch.equal(tensor, state[name]), name)
        self.assertEqual(set(state) - set(back), {name for name in state if name.endswith((".attn.bias", "masked_bias"))} | {"lm_head.weight"})

    def test_a_divided_file_is_assembled_from_its_index(self):
        parts = {"model-1.safetensors": {"a.weight": torch.rand(2, 3)}, "model-2.safetensors": {"b.weight": torch.rand(4).half(), "b.num_batches_tracked": torch.tensor(3)}}
        for name, tensors in parts.items():
            weights.save(self.folder / name, tensors)
        index = {"weight_map": {tensor: name for name, tensors in parts.items() for tensor in tensors}}
        (self.folder / "model.safetensors.index.json").write_text(json.dumps(index))
        self.assertIn("2 tensors, 10 numbers", self.convert(self.folder, "-o", self.folder / "whole.safetensors"))
        whole = weights.load(self.folder / "whole.safetensors")
        self.assertTrue(torch.equal(whole["a.weight"], parts["model-1.safetensors"]["a.weight"]))
        self.assertEqual(whole["b.weight"].dtype, torch.float16)

    def test_files_without_weights_are_refused_with_the_reason(self):
        (self.folder / "text.pth").write_text("no tensors")
        (self.folder / "out.index.json").write_text(json.dumps({"weight_map": {"a": "../a.safetensors"}}))
        torch.save([1, 2], self.folder / "list.pt")
        torch.save(torch.nn.Linear(2, 1), self.folder / "whole.pt")
        weights.save(self.folder / "other.safetensors", {"a.weight": torch.rand(2)})
        for name, error in (("none.pth", "there is no file"), ("text.pth", "is not a file of tensors"), ("out.index.json", "which is not beside it"),
                            ("whole.pt", "weights_only=False).state_dict()"), ("list.pt", "holds list, not the tensors of a network"), (".", "has none of model.safetensors")):
            with self.subTest(name):
                self.assertIn(error, self.convert(self.folder / name, "-o", self.folder / "x", status=2))
        self.assertIn("is for GPT-2", self.convert(self.folder / "other.safetensors", "-o", self.folder / "x", "--to", "huggingface", status=2))
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    main()
