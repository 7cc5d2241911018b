"""Language models of texts of unequal length: loss and gradient equal those of PyTorch on padded batches with `ignore_index`, with the
same bits on any number of ranks."""

import math
import pathlib
import random
import struct

from texts_case import FEATURES, HEADS, LENGTH, TextsCase, model, parameters
from training_case import ROOT, main


class UnequalTexts(TextsCase):
    model = model(f"heads: {HEADS}", "  - linear: {name: head, features: 256, tied: tokens, bias: false}", "loss: next_token")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        lines = [line for page in sorted((ROOT / "docs/user").glob("tutorial-*.md")) for line in page.read_text().splitlines() if line]
        random.Random(1).shuffle(lines)
        source = pathlib.Path(cls.temporary.name) / "lines.txt"
        source.write_text("\n".join(line[:random.Random(i).randint(1, 60)] for i, line in enumerate(lines[:300])))
        cls.pack(source, "--per", "line")

    def test_any_number_of_ranks_trains_the_same_weights_even_after_a_kill(self):
        summary, _ = self.check_ranks_and_a_kill(epochs=3)
        self.assertAlmostEqual(summary["perplexity"], math.exp(summary["loss"]), places=4)

    def test_bits_per_byte_and_tokens_count_only_real_tokens(self):
        result = self.run_with(self.trained(), "evaluate")
        texts, _ = self.split("test")
        targets = sum(len(text) - 1 for text in texts)
        text_bytes = sum(len(text[1:].rstrip(b"\0")) for text in texts)
        self.assertAlmostEqual(result["bits_per_byte"], result["loss"] / math.log(2) * targets / text_bytes, places=5)
        self.assertEqual(result["samples"], len(texts))

    def test_predictions_have_rows_of_one_length_padded_with_zeros(self):
        folder = self.trained()
        self.run_with(folder, "predict", 2, format="npy")
        texts, _ = self.split("test")
        content = next(folder.rglob("predictions.npy")).read_bytes()
        begin = 10 + struct.unpack_from("<H", content, 8)[0]
        self.assertIn(f"({len(texts)}, {LENGTH}, 256", content[:begin].decode("latin1"))
        self.assertEqual(len(content), begin + 4 * len(texts) * LENGTH * 256)
        for i, text in enumerate(texts):
            row = struct.unpack_from(f"<{LENGTH * 256}f", content, begin + 4 * i * LENGTH * 256)
            self.assertTrue(any(row[(len(text) - 1) * 256:len(text) * 256]))
            self.assertFalse(any(row[len(text) * 256:]))

    def test_loss_and_gradient_are_those_of_pytorch_with_padding(self):
        loss = self.check_a_step(twin)
        self.assertGreater(abs(loss - math.log(256)), 0.5)  # the network has learnt


def twin(torch, tensors, texts, _):
    """Loss and gradients of all texts as one padded batch."""
    functional = torch.nn.functional
    p, norm = parameters(torch, tensors)
    tokens = torch.zeros(len(texts), LENGTH, dtype=torch.long)
    targets = torch.full((len(texts), LENGTH), -100)
    for row, text in enumerate(texts):
        tokens[row, :len(text)] = torch.tensor(list(text))
        targets[row, :len(text) - 1] = torch.tensor(list(text[1:]))

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
