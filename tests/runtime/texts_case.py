"""The common parts of tests of networks on texts of unequal length: data, trainings, and the comparison of a step with PyTorch."""

import json
import pathlib
import struct
import subprocess

from training_case import BIN, TrainingCase

LENGTH, FEATURES, HEADS = 40, 16, 2
SETTINGS = {"epochs": 1, "batch": 32, "lr": 0.003, "optimizer": {"kind": "adamw"}, "weight_decay": 0, "warmup_epochs": 0,
            "schedule": "constant", "precision": {"leaves": 4}}
PLAIN = {"optimizer": {"kind": "sgd"}, "momentum": 0, "lr": 0.5, "validation": 0}  # a step equals the gradient


def model(heads_of, *last):
    """A network of one block of attention over LENGTH bytes, with `last` behind it."""
    return f"""
name: tiny
input: [{LENGTH}]
layers:
  - embedding: {{name: tokens, vocabulary: 256, features: {FEATURES}}}
  - positions: {{name: places}}
  - layer_norm: {{name: norm}}
  - linear: {{name: qkv, features: {3 * FEATURES}}}
  - attention: {{{heads_of}}}
  - linear: {{name: out, features: {FEATURES}}}
  - add: {{from: places}}
  - layer_norm: {{name: last}}
""" + "\n".join(last) + "\n"


def texts_of(path, version):
    """The samples of a .dlset of that version, as bytes, and their labels."""
    content = path.read_bytes()
    found, elements, count = struct.unpack_from("<IIQ", content, 8)
    assert (found, elements) == (version, 3)
    ends = struct.unpack_from(f"<{count}Q", content, 128)
    labels = struct.unpack_from(f"<{count}I", content, 128 + 8 * count)
    begin = 128 + 12 * count
    return [content[begin + first:begin + end] for first, end in zip((0,) + ends, ends)], list(labels)


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


class TextsCase(TrainingCase):
    version = 6  # of the .dlset

    @classmethod
    def pack(cls, source, *options):
        cls.text = pathlib.Path(cls.temporary.name) / "text"
        subprocess.run([BIN / "dlflow", "data", "pack", source, "-o", cls.text, "--tokens", "bytes", "--length", str(LENGTH),
                        "--test-share", "0.2", *options], check=True, stdout=subprocess.DEVNULL)

    def model_folder(self, **more):
        folder = self.folder("text", data=str(self.text), model="model.yaml", **{"validation": 20} | SETTINGS | more)
        (folder / "model.yaml").write_text(self.model)
        return folder

    def trained(self, ranks=1, **more):
        folder = self.model_folder(**more)
        self.train(folder, ranks)
        return folder

    def run_with(self, folder, program, ranks=1, **more):
        """What `program` measures of the newest checkpoint in `folder`."""
        return self.program(folder, program, ranks, **{"data": str(self.text), "batch": 7} | more)[0]

    def split(self, name):
        return texts_of(self.text / f"{name}.dlset", self.version)

    def check_ranks_and_a_kill(self, **settings):
        """The same bits and losses on 1, 2 and 3 ranks, and after a kill; the measures of the training and of its evaluation."""
        alone, summary = self.assert_same_bits(lambda: self.model_folder(**settings), (2, 3), ("loss",))
        killed = self.model_folder(**settings)
        self.train_with_kills(killed, [(2, 3)], 3)
        self.assertEqual(self.bits(killed), self.bits(alone))
        result = self.run_with(killed, "evaluate", 2)
        self.assertEqual(self.run_with(alone, "evaluate")["loss"], result["loss"])
        return summary, result

    def check_a_step(self, twin):
        """A step on all texts moves each weight by the gradient, and an evaluation gives the loss, of `twin`(torch, tensors, texts,
        labels); the loss before the step."""
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
        torch.set_num_threads(1)
        begun = self.trained(epochs=3)
        texts, labels = self.split("train")
        self.assertGreater(len({len(text) for text in texts}), 20)
        newest = (begun / "checkpoints/latest").resolve()
        before = tensors_of(newest / "model.safetensors")
        stepped = self.trained(2, **PLAIN | {"batch": len(texts), "start_from": str(newest)})
        after = tensors_of(stepped / "checkpoints/latest/model.safetensors")
        loss, gradients = twin(torch, before, texts, labels)
        for name, (_, values) in after.items():
            moved = (torch.tensor(before[name][1]) - torch.tensor(values)) / PLAIN["lr"]
            expected = gradients[name].flatten()
            error = (moved - expected).abs().max().item()
            self.assertLess(error, 1e-6 + 1e-5 * expected.abs().max().item(), name)
        expected, _ = twin(torch, before, *self.split("test"))
        self.assertLess(abs(self.run_with(begun, "evaluate")["loss"] - expected), 1e-5)
        return loss


def parameters(torch, tensors):
    """Those of a twin, by name, and its layer norm."""
    p = {name: torch.tensor(values).view(shape).requires_grad_() for name, (shape, values) in tensors.items()}
    return p, lambda x, name: torch.nn.functional.layer_norm(x, (FEATURES,), p[f"{name}.weight"], p[f"{name}.bias"])
