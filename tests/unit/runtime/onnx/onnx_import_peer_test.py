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
        return self.last(torch.nn.functional.silu(self.inner(self.norm(x))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.fc.weight = self.embedding.weight

    def forward(self, tokens):
        return self.fc(torch.relu(self.embedding(tokens)))


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
    "groups": (lambda: maps(nn.SiLU(), nn.Conv2d(6, 6, (3, 1), groups=3, dilation=2, stride=(2, 1))), PICTURE),
    "instances": (lambda: maps(nn.InstanceNorm2d(6, affine=True), nn.LeakyReLU(0.2), nn.MaxPool2d(2), nn.ReLU6()), PICTURE),
    "decoder": (lambda: maps(nn.ConvTranspose2d(6, 5, 2, stride=2), nn.Upsample(scale_factor=2), nn.AvgPool2d(3, 2, 1)), PICTURE),
    "residual": (lambda: maps(Residual(nn.Conv2d(6, 6, 1, bias=False), nn.BatchNorm2d(6, eps=1e-3)), nn.Dropout(0.3), nn.ReLU(inplace=True)), PICTURE),
    "viewed": (lambda: maps(nn.AdaptiveAvgPool2d(1), Lambda(lambda x: x.view(x.size(0), -1)), nn.Softmax(-1)), PICTURE),
    "sizes": (lambda: maps(Lambda(lambda x: x.reshape(x.size(0), x.size(1) * x.size(2) * x.size(3)))), PICTURE),
    "means": (lambda: maps(nn.Hardtanh(0, 6), Lambda(lambda x: x.mean((2, 3)))), PICTURE),
    "normalized": (lambda: nn.Sequential(Lambda(lambda x: (x - torch.tensor([0.4, 0.5, 0.6]).reshape(3, 1, 1)) / torch.tensor([0.2, 0.3, 0.4]).reshape(3, 1, 1)), maps()), PICTURE),
    "tokens": (Tokens, TOKENS),
    "tied": (Tied, TOKENS),
    "mean_of_positions": (lambda: text(Lambda(lambda x: x.mean(1))), TOKENS),
}
# Names that PyTorch's users know, where the file has them.
LAYERS = {"resnet18": {"conv1", "layer1.0.conv1", "layer4.1.conv2", "fc"}, "mobilenet_v2": {"features.18.0", "classifier.1"}}
REFUSED = {
    "attention": (lambda: text(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)), TOKENS, "(Transpose): dlflow has no layer that swaps dimensions"),
    "products": (lambda: nn.Sequential(nn.Linear(8, 8), Lambda(lambda x: x @ x)), (8, 8), "(MatMul): its second input is a result of the network"),
    "gelu": (lambda: text(nn.GELU()), TOKENS, "(Div): dlflow has no layer that computes with such a constant"),
    "group_norm": (lambda: maps(nn.GroupNorm(3, 6)), PICTURE, "(Reshape): dlflow reshapes only to (B,F)"),
    "layer_norm": (lambda: text(nn.LayerNorm(8)), TOKENS, "(ReduceMean): dlflow has only means of whole maps and of positions"),
    "rms_norm": (lambda: text(Lambda(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))), TOKENS, "(Pow): dlflow has no layer for it"),
    "squeeze_excitation": (lambda: maps(Lambda(lambda x: x * x.mean((2, 3), keepdim=True))), PICTURE, "dlflow multiplies results of layers only in silu"),
    "uneven_padding": (lambda: maps(nn.ZeroPad2d((1, 0, 0, 0))), PICTURE, "(ConstantOfShape): dlflow has no layer for it"),
    "bilinear": (lambda: maps(nn.Upsample(scale_factor=2, mode="bilinear")), PICTURE, "dlflow's upsample takes the nearest pixel only"),
}


def inputs_of(shape):
    return torch.randint(0, 11, (2, *shape)) if shape == TOKENS else torch.randn(2, *shape)


def exported(path, network, shape):
    """Writes the file, of a batch of any size, and its input; the scores of PyTorch."""
    inputs = inputs_of(shape)
    network(inputs)  # makes lazy layers
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2)
    network.eval()
    torch.onnx.export(network, inputs, str(path), opset_version=17 if shape == TOKENS else 14, input_names=["pixels"], dynamic_axes={"pixels": {0: "batch"}})
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
