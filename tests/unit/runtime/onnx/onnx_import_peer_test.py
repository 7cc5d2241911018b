"""onnx_import_peer_test.py SCORES: networks that PyTorch exports as ONNX, as SCORES (onnx_scores.cpp) imports and computes them, give PyTorch's scores."""

import collections
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import torch
    import torchvision
    from torch import nn
except ImportError as error:
    print(f"skipped here: {error}")
    sys.exit(77)


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.inner = nn.Sequential(*layers)

    def forward(self, x):
        return self.inner(x) + x


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(11, 8), nn.Parameter(torch.randn(6, 8))
        self.norm, self.inner, self.last = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 5, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        return self.last(torch.nn.functional.gelu(self.inner(self.norm(x))))


class Rms(nn.Module):
    def __init__(self, features, epsilon=1e-5):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.rand(features)), epsilon

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.fc.weight = self.embedding.weight

    def forward(self, tokens):
        return self.fc(torch.relu(self.embedding(tokens)))


class MultiheadAttention(nn.Module):
    def __init__(self, causal=False, **options):
        super().__init__()
        self.attention, self.options = nn.MultiheadAttention(8, 2, batch_first=True), options
        nn.init.uniform_(self.attention.in_proj_bias)
        if causal:
            self.options["attn_mask"] = torch.full((6, 6), float("-inf")).triu(1)

    def forward(self, x):
        return self.attention(x, x, x, **self.options)[0] + x


def attended(q, k, v, causal, scale=None):
    """What F.scaled_dot_product_attention computes, which Debian's PyTorch has not."""
    scores = q @ k.transpose(-2, -1) * (scale or q.size(-1) ** -0.5)
    if causal:
        scores = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    """Of one linear layer: [q;k;v], or head by head."""

    def __init__(self, causal=True, by_head=False, scale=None, part=None):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.causal, self.by_head, self.scale, self.part = causal, by_head, scale, part

    def forward(self, x):
        rows, positions, features = x.shape
        if self.by_head:
            q, k, v = self.qkv(x).view(rows, positions, 2, 3, 4).permute(3, 0, 2, 1, 4).unbind(0)
        else:
            q, k, v = (z.view(rows, positions, 2, 4).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        if self.part:
            q = q[..., : self.part]
            k = k[..., : self.part]
        y = attended(q, k, v, self.causal, self.scale)
        return self.out(y.transpose(1, 2).reshape(rows, positions, features)) + x


class GroupedAttention(nn.Module):
    """Of three linear layers, as in LLaMA: four heads of queries, two of keys and values."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(8, 8, bias=False), nn.Linear(8, 4), nn.Linear(8, 4, bias=False)
        self.o_proj = nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        q = q.view(x.size(0), x.size(1), 4, 2).transpose(1, 2)
        k, v = (z.view(x.size(0), x.size(1), 2, 1, 2).expand(-1, -1, -1, 2, -1).reshape(x.size(0), x.size(1), 4, 2).transpose(1, 2) for z in (k, v))
        return self.o_proj(attended(q, k, v, True).transpose(1, 2).flatten(2)) + x


class RotaryAttention(nn.Module):
    """As in LLaMA: heads times cosines, plus heads whose halves are swapped times sines; keys and values repeated for queries."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(8, 8, bias=False), nn.Linear(8, 4, bias=False), nn.Linear(8, 4, bias=False)
        self.o_proj = nn.Linear(8, 8, bias=False)
        angles = torch.outer(torch.arange(6.0), 10000 ** (-torch.arange(0, 4, 2) / 4))
        angles = torch.cat((angles, angles), -1)[None, None]
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def rotated(self, heads):
        first, second = heads[..., : heads.shape[-1] // 2], heads[..., heads.shape[-1] // 2 :]
        return heads * self.cos + torch.cat((-second, first), -1) * self.sin

    def forward(self, x):
        q = self.rotated(self.q_proj(x).view(x.size(0), x.size(1), 2, 4).transpose(1, 2))
        k = self.rotated(self.k_proj(x).view(x.size(0), x.size(1), 1, 4).transpose(1, 2))
        v = self.v_proj(x).view(x.size(0), x.size(1), 1, 4).transpose(1, 2)
        k, v = (z[:, :, None].expand(-1, -1, 2, -1, -1).reshape(x.size(0), 2, x.size(1), 4) for z in (k, v))
        return self.o_proj(attended(q, k, v, True).transpose(1, 2).flatten(2)) + x


class MeanOfPositions(nn.Module):
    def forward(self, x):
        return x.mean(1)


class CrossAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return attended(self.query(x), self.key(torch.relu(self.first(x))), x, False)


class OneHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return attended(self.query(x), self.key(x), self.value(x), False) + x


def maps(*layers):
    """A network of maps (3,8,8) whose layer under test is followed by a classifier."""
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), *layers, nn.Flatten(), nn.LazyLinear(4))


def text(*layers):
    return nn.Sequential(nn.Embedding(11, 8), *layers, nn.Linear(8, 5))


PICTURE, TOKENS = (3, 8, 8), (6,)
NETWORKS = {
    "resnet18": (lambda: torchvision.models.resnet18(), (3, 64, 64)),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(num_classes=10), (3, 64, 64)),
    "squeezenet": (lambda: torchvision.models.squeezenet1_1(num_classes=10), (3, 64, 64)),
    "densenet": (lambda: torchvision.models.DenseNet(8, (2, 2), 16, num_classes=10), (3, 32, 32)),
    "mlp": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 7), nn.Sigmoid(), nn.Linear(7, 3), nn.Tanh(), nn.Linear(3, 3)), PICTURE),
    "groups": (lambda: maps(nn.GroupNorm(3, 6), nn.SiLU(), nn.Conv2d(6, 6, (3, 1), groups=3, dilation=2, stride=(2, 1)), nn.GELU()), PICTURE),
    "instances": (lambda: maps(nn.InstanceNorm2d(6, affine=True), nn.LeakyReLU(0.2), nn.MaxPool2d(2), nn.ReLU6()), PICTURE),
    "decoder": (lambda: maps(nn.ConvTranspose2d(6, 5, 2, stride=2), nn.Upsample(scale_factor=2), nn.AvgPool2d(3, 2, 1)), PICTURE),
    "residual": (lambda: maps(Residual(nn.Conv2d(6, 6, 1, bias=False), nn.BatchNorm2d(6, eps=1e-3)), nn.Dropout(0.3), nn.ReLU(inplace=True)), PICTURE),
    "viewed": (lambda: maps(nn.AdaptiveAvgPool2d(1), Lambda(lambda x: x.view(x.size(0), -1)), nn.Softmax(-1)), PICTURE),
    "means": (lambda: maps(nn.Hardtanh(0, 6), Lambda(lambda x: x.mean((2, 3)))), PICTURE),
    "normalized": (lambda: nn.Sequential(Lambda(lambda x: (x - torch.tensor([0.4, 0.5, 0.6]).reshape(3, 1, 1)) / torch.tensor([0.2, 0.3, 0.4]).reshape(3, 1, 1)), maps()), PICTURE),
    "tokens": (Tokens, TOKENS),
    "tied": (Tied, TOKENS),
    "multihead_attention": (lambda: text(MultiheadAttention()), TOKENS),
    "multihead_attention_alone": (lambda: text(MultiheadAttention(causal=True, need_weights=False)), TOKENS),
    "multihead_attention_of_two": (lambda: text(MultiheadAttention()), TOKENS),
    "attention_of_two": (lambda: text(Attention()), TOKENS),
    "transformer_encoder": (lambda: text(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=first) for first in (True, False))), TOKENS),
    "attention": (lambda: text(Attention()), TOKENS),
    "attention_of_all": (lambda: text(Attention(causal=False)), TOKENS),
    "attention_by_head": (lambda: text(Attention(by_head=True)), TOKENS),
    "grouped_attention": (lambda: text(GroupedAttention()), TOKENS),
    "rotary_attention": (lambda: text(RotaryAttention()), TOKENS),
    "mean_of_positions": (lambda: text(Attention(causal=False), MeanOfPositions()), TOKENS),
    "attention_of_one_head": (lambda: text(nn.Sequential(OneHead(), OneHead())), TOKENS),
    "rms_norm": (lambda: nn.Sequential(collections.OrderedDict(embedding=nn.Embedding(11, 8), norm=Rms(8), fc=nn.Linear(8, 5))), TOKENS),
}
# Names that PyTorch's users know, where the file has them.
LAYERS = {"rms_norm": {"embedding", "norm", "fc"}, "resnet18": {"conv1", "layer1.0.conv1", "layer4.1.conv2", "fc"}, "mobilenet_v2": {"features.18.0", "classifier.1"}}
REFUSED = {
    "attention": (lambda: nn.Sequential(nn.Linear(8, 8), Lambda(lambda x: x @ x.transpose(1, 2))), (4, 8), "dlflow has no layer that gives"),
    "scale": (lambda: text(Attention(scale=0.3)), TOKENS, "its scores are multiplied with 0.3, not 1/sqrt(4) = 0.5"),
    "other_mask": (lambda: text(MultiheadAttention(attn_mask=torch.full((6, 6), float("-inf")).triu(2))), TOKENS, "its mask is not the causal one"),
    "added_mask": (lambda: text(MultiheadAttention(attn_mask=torch.rand(6, 6))), TOKENS, "its mask adds numbers to scores"),
    "narrow_queries": (lambda: text(Attention(part=2)), TOKENS, "its values are not those of all positions, with 2 features"),
    "cross_attention": (lambda: text(CrossAttention()), TOKENS, "linear layers that read the same"),
    "squeeze_excitation": (lambda: maps(Lambda(lambda x: x * x.mean((2, 3), keepdim=True))), PICTURE, "dlflow multiplies results of layers in silu, gelu and rms_norm alone"),
    "epsilon": (lambda: nn.Sequential(nn.Linear(8, 8), Rms(8, 1e-6)), (8,), "its epsilon is 1e-06; that of dlflow's layers is 1e-5"),
    "uneven_padding": (lambda: maps(nn.ZeroPad2d((1, 0, 0, 0))), PICTURE, "(Reshape): it finds the shape of a constant"),
    "bilinear": (lambda: maps(nn.Upsample(scale_factor=2, mode="bilinear")), PICTURE, "upsample of dlflow takes the nearest pixel"),
}


def inputs_of(shape):
    return torch.randint(0, 11, (2, *shape)) if shape == TOKENS else torch.randn(2, *shape)


def exported(path, network, shape):
    """Writes the file, of a batch of any size or "of_two", and its input; the scores of PyTorch."""
    inputs = inputs_of(shape)
    network(inputs)  # makes lazy layers
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2)
    network.eval()
    torch.onnx.export(network, inputs, str(path), opset_version=17 if shape == TOKENS else 14, input_names=["pixels"], dynamic_axes=None if path.stem.endswith("of_two") else {"pixels": {0: "batch"}})
    path.with_suffix(".input").write_bytes(inputs.double().numpy().tobytes())
    return network(inputs).detach().double().numpy().ravel()


def imported(path, scores):
    return subprocess.run([scores, path], capture_output=True, text=True)


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        found = collections.OrderedDict()
        for name, (make, shape) in NETWORKS.items():
            path = pathlib.Path(folder) / f"{name}.onnx"
            expected = exported(path, make(), shape)
            done = imported(path, sys.argv[1])
            assert done.returncode == 0, (name, done.stderr)
            assert LAYERS.get(name, set()) <= set(done.stdout.split()), (name, done.stdout)
            ours = numpy.fromfile(path.with_suffix(".scores"))
            found[name] = numpy.linalg.norm(ours - expected) / numpy.linalg.norm(expected)
            print(f"{name}: {found[name]:.1e}")
        assert max(found.values()) < 2e-5, found
        for name, (make, shape, reason) in REFUSED.items():
            path = pathlib.Path(folder) / f"{name}.onnx"
            network = make()
            network(inputs_of(shape))
            torch.onnx.export(network.eval(), inputs_of(shape), str(path), opset_version=14)
            done = imported(path, sys.argv[1])
            assert done.returncode == 1 and reason in done.stderr, (name, done.stderr)


main()
