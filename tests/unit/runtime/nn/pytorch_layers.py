"""Writes what PyTorch computes for small networks of every layer that it has: loss, scores and gradients, for
pytorch_layers_test.cpp: `pytorch_layers.py FILE`. Exit status 77 where there is no PyTorch."""

import json
import math
import sys
from collections import OrderedDict

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print("skipped here: no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
    sys.exit(77)

torch.manual_seed(4)


def sequential(**layers: nn.Module) -> nn.Module:
    return nn.Sequential(OrderedDict(layers))


class Concat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 5, 3, padding=1)
        self.second = nn.Conv2d(5, 20, 1)
        self.last = nn.Linear(28 * 36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = F.relu(self.first(x))
        return self.last(torch.cat([x, self.second(first), first], 1).flatten(1))


class RmsNorm(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class Decoder(nn.Module):
    """A decoder-only language model of one block, whose attention is nn.MultiheadAttention."""

    def __init__(self, tokens: int, length: int, features: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, features)
        self.places = nn.Parameter(torch.randn(length, features))
        self.norm1 = nn.LayerNorm(features)
        self.attention = nn.MultiheadAttention(features, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(features)
        self.up = nn.Linear(features, 4 * features)
        self.down = nn.Linear(4 * features, features)
        self.causal = causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x.long()) + self.places
        n, length = self.norm1(h), x.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1) if self.causal else None
        h = h + self.attention(n, n, n, attn_mask=mask, need_weights=False)[0]
        h = h + self.down(F.gelu(self.up(self.norm2(h))))
        return h @ self.tokens.weight.T

    names = {"places": "places.weight", "attention.in_proj_weight": "qkv.weight", "attention.in_proj_bias": "qkv.bias",
             "attention.out_proj.weight": "out.weight", "attention.out_proj.bias": "out.bias"}


def decoder_layers(tokens: int, features: int, heads: int, causal: bool) -> str:
    return f"""- embedding: {{name: tokens, vocabulary: {tokens}, features: {features}}}
- positions: {{name: places}}
- layer_norm: {{name: norm1}}
- linear: {{name: qkv, features: {3 * features}}}
- attention: {{heads: {heads}, causal: {str(causal).lower()}}}
- linear: {{name: out, features: {features}}}
- add: {{name: middle, from: places}}
- layer_norm: {{name: norm2}}
- linear: {{name: up, features: {4 * features}}}
- gelu
- linear: {{name: down, features: {features}}}
- add: {{from: middle}}
- linear: {{name: head, features: {tokens}, tied: tokens, bias: false}}
"""


class Encoder(nn.Module):
    """A classifier of texts that are filled up: one block that looks at all of a text, and the mean over it."""

    lengths = (12, 1, 7)  # of each sample

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        beyond = torch.arange(x.shape[1]) >= torch.tensor(self.lengths)[:, None]
        h = self.tokens(x.long())
        n = self.norm(h)
        h = h + self.attention(n, n, n, key_padding_mask=beyond, need_weights=False)[0]
        return self.last(h.masked_fill(beyond[:, :, None], 0).sum(1) / torch.tensor(self.lengths)[:, None])

    names = {"attention.in_proj_weight": "qkv.weight", "attention.in_proj_bias": "qkv.bias",
             "attention.out_proj.weight": "out.weight", "attention.out_proj.bias": "out.bias"}


class GroupedQueries(nn.Module):
    """Attention of 4 heads over 2 keys and values, with rotary positions as in LLaMA."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(7, 12)
        self.qkv = nn.Linear(12, (4 + 2 + 2) * 6, bias=False)
        self.norm = RmsNorm(24)
        self.head = nn.Linear(24, 7)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        angles = torch.outer(torch.arange(x.shape[-2]), 10000.0 ** (-torch.arange(half) / half)).to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length = x.shape
        parts = self.qkv(self.tokens(x.long())).view(batch, length, 8, 6).transpose(1, 2)
        q, k, v = self.rotate(parts[:, :4]), self.rotate(parts[:, 4:6]), parts[:, 6:]
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(6)
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
        return self.head(self.norm((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))


END = "- flatten\n- linear: {name: last, features: 3}\n"

CASES = [
    ("groups, dilation and rectangles", [4, 9, 8], "softmax_cross_entropy",
     sequential(a=nn.Conv2d(4, 6, (3, 1), stride=(2, 1), padding=(1, 0), groups=2), b=nn.Conv2d(6, 12, 3, dilation=2, padding=2, groups=6),
                c=nn.Conv2d(12, 12, (1, 3), padding=(0, 1), groups=12, bias=False), f=nn.Flatten(), last=nn.Linear(12 * 40, 3)),
     "- conv2d: {name: a, channels: 6, kernel: [3, 1], stride: [2, 1], padding: [1, 0], groups: 2}\n"
     "- conv2d: {name: b, channels: 12, kernel: 3, dilation: 2, padding: 2, groups: 6}\n"
     "- conv2d: {name: c, channels: 12, kernel: [1, 3], padding: [0, 1], groups: 12, bias: false}\n" + END),
    ("depthwise convolution of whole groups of channels", [16, 7, 7], "softmax_cross_entropy",
     sequential(a=nn.Conv2d(16, 32, 3, padding=1, bias=False), b=nn.Conv2d(32, 32, 3, stride=2, padding=1, groups=32, bias=False),
                r=nn.ReLU6(), f=nn.Flatten(), last=nn.Linear(32 * 16, 3)),
     "- conv2d: {name: a, channels: 32, kernel: 3, padding: 1, bias: false}\n"
     "- conv2d: {name: b, channels: 32, kernel: 3, stride: 2, padding: 1, groups: 32, bias: false}\n- relu6\n" + END),
    ("transposed convolution", [3, 4, 5], "softmax_cross_entropy",
     sequential(a=nn.Conv2d(3, 6, 1), b=nn.ConvTranspose2d(6, 20, 3, stride=2, padding=1),
                c=nn.ConvTranspose2d(20, 4, 2, stride=2, bias=False), f=nn.Flatten(), last=nn.Linear(4 * 14 * 18, 3)),
     "- conv2d: {name: a, channels: 6, kernel: 1}\n- conv_transpose2d: {name: b, channels: 20, kernel: 3, stride: 2, padding: 1}\n"
     "- conv_transpose2d: {name: c, channels: 4, kernel: 2, stride: 2, bias: false}\n" + END),
    ("group and instance normalisation", [3, 6, 5], "softmax_cross_entropy",
     sequential(a=nn.Conv2d(3, 20, 3), g=nn.GroupNorm(4, 20), r=nn.LeakyReLU(0.2), i=nn.GroupNorm(20, 20), f=nn.Flatten(),
                last=nn.Linear(20 * 12, 3)),
     "- conv2d: {name: a, channels: 20, kernel: 3}\n- group_norm: {name: g, groups: 4}\n- leaky_relu: {slope: 0.2}\n"
     "- group_norm: {name: i, groups: 20}\n" + END),
    ("normalisation of rows", [9], "softmax_cross_entropy",
     sequential(a=nn.Linear(9, 37), n=nn.LayerNorm(37), b=nn.Linear(37, 18), r=RmsNorm(18), s=nn.Softmax(-1), last=nn.Linear(18, 3)),
     "- linear: {name: a, features: 37}\n- layer_norm: {name: n}\n- linear: {name: b, features: 18}\n- rms_norm: {name: r}\n- softmax\n"
     "- linear: {name: last, features: 3}\n"),
    ("adaptive pooling and upsampling", [2, 7, 5], "softmax_cross_entropy",
     sequential(a=nn.Conv2d(2, 18, 1), p=nn.AdaptiveAvgPool2d((4, 3)), u=nn.Upsample(scale_factor=2), f=nn.Flatten(),
                last=nn.Linear(18 * 48, 3)),
     "- conv2d: {name: a, channels: 18, kernel: 1}\n- adaptive_avg_pool: {size: [4, 3]}\n- upsample: {scale: 2}\n" + END),
    ("concat of maps of odd numbers of channels", [3, 6, 6], "softmax_cross_entropy", Concat(),
     "- conv2d: {name: first, channels: 5, kernel: 3, padding: 1}\n- relu: {name: r}\n- conv2d: {name: second, channels: 20, kernel: 1}\n"
     "- concat: {from: [input, second, r]}\n" + END),
    ("a decoder with a tied weight", [10], "next_token", Decoder(11, 10, 16, 2, True), decoder_layers(11, 16, 2, True)),
    ("a decoder of more positions than a block of attention", [150], "next_token", Decoder(6, 150, 8, 2, True),
     decoder_layers(6, 8, 2, True)),
    ("attention to all positions", [140], "next_token", Decoder(6, 140, 8, 1, False), decoder_layers(6, 8, 1, False)),
    ("grouped queries and rotary positions", [9], "next_token", GroupedQueries(),
     "- embedding: {name: tokens, vocabulary: 7, features: 12}\n- linear: {name: qkv, features: 48, bias: false}\n"
     "- attention: {heads: 4, kv_heads: 2, rotary: true}\n- rms_norm: {name: norm}\n- linear: {name: head, features: 7}\n"),
    ("an encoder of padded texts with a class each", [12], "softmax_cross_entropy", Encoder(),
     "- embedding: {name: tokens, vocabulary: 9, features: 8}\n- layer_norm: {name: norm}\n- linear: {name: qkv, features: 24}\n"
     "- attention: {heads: 2, causal: false}\n- linear: {name: out, features: 8}\n- add: {from: tokens}\n- mean_pool\n"
     "- linear: {name: last, features: 3}\n"),
]


def flat(tensor: torch.Tensor) -> list[float]:
    return tensor.detach().double().flatten().tolist()


def next_token_loss(scores: torch.Tensor, tokens: torch.Tensor, ignored: int) -> torch.Tensor:
    """Of each sample the mean over its targets."""
    losses = F.cross_entropy(scores[:, :-1].transpose(1, 2), tokens[:, 1:].long(), ignore_index=ignored, reduction="none")
    return (losses.sum(1) / (tokens[:, 1:] != ignored).sum(1)).sum()


def run(name: str, shape: list[int], loss: str, model: nn.Module, layers: str) -> dict:
    for parameter in model.parameters():  # what single precision holds, of a size that lets every layer count
        spread = 0.5 if parameter.dim() == 1 else 1.2 / math.sqrt(parameter[0].numel())
        parameter.data = torch.empty_like(parameter).uniform_(-spread, spread).add_(1 if parameter.dim() == 1 else 0)
    ignored, batch = 2, 3
    if hasattr(model, "tokens"):
        x = torch.randint(model.tokens.num_embeddings, (batch, *shape)).float()
    else:
        x = torch.empty(batch, *shape).uniform_(-1, 1)
    labels = torch.randint(3, (batch,))
    model, x = model.double(), x.double()
    scores = model(x)
    total = next_token_loss(scores, x, ignored) if loss == "next_token" else F.cross_entropy(scores, labels, reduction="sum")
    total.backward()
    names = getattr(model, "names", {})
    tensors = {names.get(key, key): parameter for key, parameter in model.named_parameters()}
    return {"name": name, "input": shape, "loss": loss, "ignored": ignored, "layers": layers, "images": flat(x), "labels": labels.tolist(),
            "lengths": getattr(model, "lengths", ()), "loss_sum": total.item(), "scores": flat(scores),
            "tensors": {key: {"weight": flat(p), "gradient": flat(p.grad)} for key, p in tensors.items()}}


with open(sys.argv[1], "w") as file:
    json.dump([run(*case) for case in CASES], file)
