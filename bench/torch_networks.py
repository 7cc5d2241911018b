"""The larger networks of workflows/models in PyTorch, written as in torchvision and its tutorials: peers of dlflow-train."""

import math

import torch
from torch import nn
from torch.nn import functional


def conv_norm(inputs, outputs, kernel=1, stride=1, groups=1):
    """A convolution without a bias, then batch normalisation."""
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    """Three convolutions with the stride in the middle one, and a shortcut, which is a projection if the shape changes."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.residual = nn.Sequential(*conv_norm(inputs, width), nn.ReLU(inplace=True), *conv_norm(width, width, 3, stride),
                                      nn.ReLU(inplace=True), *conv_norm(width, outputs))
        self.skip = nn.Sequential(*conv_norm(inputs, outputs, 1, stride)) if inputs != outputs else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.residual(x) + self.skip(x))


def resnet50():
    layers = [*conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(count):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def vgg11():
    layers, inputs = [], 3
    for outputs in (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"):
        if outputs == "pool":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(),
                         nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
                         nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4096, 1000))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        hidden = inputs * expansion
        layers = [*conv_norm(inputs, hidden), nn.ReLU6(inplace=True)] if expansion != 1 else []
        layers += [*conv_norm(hidden, hidden, 3, stride, hidden), nn.ReLU6(inplace=True), *conv_norm(hidden, outputs)]
        self.layers, self.keeps_shape = nn.Sequential(*layers), stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.layers(x) if self.keeps_shape else self.layers(x)


def mobilenet_v2():
    layers, inputs = [*conv_norm(3, 32, 3, 2), nn.ReLU6(inplace=True)], 32
    for expansion, outputs, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                              (6, 320, 1, 1)):
        for block in range(count):
            layers.append(InvertedResidual(inputs, outputs, stride if block == 0 else 1, expansion))
            inputs = outputs
    return nn.Sequential(*layers, *conv_norm(inputs, 1280), nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Dropout(0.2), nn.Linear(1280, 1000))


class TwoConvolutions(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(*conv_norm(inputs, outputs, 3), nn.ReLU(inplace=True), *conv_norm(outputs, outputs, 3), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """The network of workflows/models/unet.yaml."""

    def __init__(self):
        super().__init__()
        self.noise = nn.Dropout(0.3)
        self.down1, self.down2, self.bottom = TwoConvolutions(1, 32), TwoConvolutions(32, 64), TwoConvolutions(64, 128)
        self.up2, self.right2 = nn.ConvTranspose2d(128, 64, 2, 2), TwoConvolutions(128, 64)
        self.up1, self.right1 = nn.ConvTranspose2d(64, 32, 2, 2), TwoConvolutions(64, 32)
        self.out = nn.Conv2d(32, 1, 1)

    def forward(self, x):
        one = self.down1(self.noise(x))
        two = self.down2(functional.max_pool2d(one, 2))
        x = self.bottom(functional.max_pool2d(two, 2))
        x = self.right2(torch.cat([two, self.up2(x)], 1))
        return self.out(self.right1(torch.cat([one, self.up1(x)], 1)))


def causal_attention(q, k, v):
    """Attention; each argument is (batch, heads, length, features). Uses the fused kernel if PyTorch has it (2.0 and later)."""
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    length = q.shape[-2]
    return scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf).softmax(-1) @ v


class GPTBlock(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.qkv, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, features = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, features // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.drop(self.out(causal_attention(q, k, v).transpose(1, 2).reshape(batch, length, features)))
        return x + self.drop(self.down(functional.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """A decoder of bytes whose first and last layer share a matrix. `drops_first`: dropout also after the embedding."""

    def __init__(self, length=256, features=256, heads=4, blocks=6, drops_first=True):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, features), nn.Parameter(0.02 * torch.randn(length, features))
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.drop = nn.Dropout(0.1 if drops_first else 0.0)
        self.blocks, self.last = nn.Sequential(*(GPTBlock(features, heads) for _ in range(blocks))), nn.LayerNorm(features)

    def forward(self, x):
        return self.last(self.blocks(self.drop(self.tokens(x) + self.places))) @ self.tokens.weight.T


def next_token(scores, tokens):
    """The mean cross-entropy of each token, predicted from those before it."""
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
