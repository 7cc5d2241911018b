"""Images per second of PyTorch on the networks of workflows/models, the peer of dlflow-train.

    mpirun -np 2 PYTHON bench/torch_peer.py MODEL [--data FOLDER] [--steps 50] [--channels-last] [--compile] [--horovod] [--fp16 | --powersgd RANK] [--bf16]

DistributedDataParallel over gloo, or Horovod over MPI, with one thread per rank, SGD with momentum 0.9, fp32 or bf16 by autocast. Prints one JSON
line. PYTHON has PyTorch, for --horovod also Horovod: bench/peers.py finds the installations and the settings with which they are peers.
"""

import argparse
import copy
import faulthandler
import gzip
import json
import os
import pathlib
import time

import numpy
import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn import functional

import torch_networks


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a projection if the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Identity()
        if stride != 1:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.skip(x))


def resnet20():
    blocks = [Block(16, 16, 1) for _ in range(3)]
    for outputs in (32, 64):
        blocks += [Block(outputs // 2, outputs, 2), Block(outputs, outputs, 1), Block(outputs, outputs, 1)]
    return nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


FASHION_MNIST, PICTURES, TOKENS = "Fashion-MNIST", "random pictures of 3 x 64 x 64", "texts of 256 bytes"
MODELS = {"mlp": mlp, "lenet": lenet, "resnet20": resnet20, "unet": torch_networks.UNet, "resnet50": torch_networks.resnet50,
          "vgg11": torch_networks.vgg11, "mobilenet-v2": torch_networks.mobilenet_v2, "gpt-small": torch_networks.GPT}
SAMPLES = {"resnet50": PICTURES, "vgg11": PICTURES, "mobilenet-v2": PICTURES, "gpt-small": TOKENS}  # FASHION_MNIST for the others


def load(folder):
    """(N, 1, 28, 28) float32, normalised; (N,) int64."""
    read = lambda name: gzip.open(pathlib.Path(folder) / f"train-{name}-ubyte.gz").read()
    images = numpy.frombuffer(read("images-idx3")[16:], numpy.uint8).reshape(-1, 1, 28, 28)
    labels = numpy.frombuffer(read("labels-idx1")[8:], numpy.uint8)
    return torch.tensor((images.astype("f4") / 255 - 0.2860) / 0.3530), torch.tensor(labels.astype("i8"))


def samples_of(model, folder, text=None):
    """The input of the network, its targets, and the loss function. `text`: a file of texts, used instead of random ones."""
    kind = SAMPLES.get(model, FASHION_MNIST)
    if kind == PICTURES:
        return torch.randn(1024, 3, 64, 64), torch.randint(1000, (1024,)), functional.cross_entropy
    if kind == TOKENS:
        tokens = torch.randint(256, (1024, 256))
        if text:
            content = numpy.fromfile(text, numpy.uint8)
            tokens = torch.tensor(content[:len(content) // 256 * 256].reshape(-1, 256).astype("i8"))
        return tokens, tokens, torch_networks.next_token
    images, labels = load(folder)
    return (images, images, functional.mse_loss) if model == "unet" else (images, labels, functional.cross_entropy)


def with_ddp(model, parameters, fp16, powersgd):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    rank, ranks = (int(os.environ.get(f"OMPI_COMM_WORLD_{mpi}") or os.environ[f"SLURM_{slurm}"])  # set by mpirun or srun
                   for mpi, slurm in (("RANK", "PROCID"), ("SIZE", "NTASKS")))
    distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    # With several buckets, PowerSGD's hook starts sums on gloo's threads, in another order on each rank; gloo then fails.
    buckets = {"bucket_cap_mb": 1024} if powersgd else {}
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, **buckets)  # saves one copy of all gradients
    if fp16:
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if powersgd:
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=powersgd, start_powerSGD_iter=2)  # the earliest that it accepts
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return model, torch.optim.SGD(model.parameters(), **parameters), rank, ranks


def with_horovod(model, parameters, fp16, _):
    import horovod.torch as horovod
    horovod.init()
    optimizer = torch.optim.SGD(model.parameters(), **parameters)
    horovod.broadcast_parameters(model.state_dict(), root_rank=0)
    compression = horovod.Compression.fp16 if fp16 else horovod.Compression.none
    optimizer = horovod.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression)
    return model, optimizer, horovod.rank(), horovod.size()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--batch", type=int, default=64, help="per rank")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--channels-last", action="store_true", help="faster on the convolutional networks")
    parser.add_argument("--compile", action="store_true", help="torch.compile, which PyTorch 2 has")
    parser.add_argument("--horovod", action="store_true", help="instead of DistributedDataParallel")
    parser.add_argument("--fp16", action="store_true", help="gradients travel in half precision")
    parser.add_argument("--powersgd", type=int, metavar="RANK", help="gradients travel as two thin matrices, by PyTorch's hook")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--text", help="file that gpt-small reads")
    parser.add_argument("--bf16", action="store_true", help="autocast: products are computed in bf16")
    args = parser.parse_args()

    faulthandler.dump_traceback_later(100 + 2 * args.steps, exit=True)  # a rank that waits for a dead one
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    distribute = with_horovod if args.horovod else with_ddp
    model = MODELS[args.model]().to(memory_format=layout)
    if args.compile:
        model = torch.compile(model)  # before it is wrapped, so that there is one graph
    model, optimizer, rank, ranks = distribute(model, {"lr": args.lr, "momentum": 0.9}, args.fp16, args.powersgd)
    samples, targets, loss_of = samples_of(args.model, args.data, args.text)
    if samples.dim() == 4:
        samples = samples.contiguous(memory_format=layout)
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(1 + rank))
    first = copy.deepcopy(model.state_dict())

    for step in range(args.warmup + args.steps):
        if step == args.warmup:  # it starts over, so that the curve has every step
            model.load_state_dict(first)
            optimizer.state.clear()
            start = last = time.perf_counter()
            curve, losses = [], []  # seconds and the mean loss since the last point, twice a second, as dlflow-train writes them
        batch = order[step * args.batch % (len(samples) - args.batch):][:args.batch]
        model.zero_grad(set_to_none=True)  # as optimizers do since PyTorch 2.0
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            scores = model(samples[batch])
        loss = loss_of(scores.float(), targets[batch])
        loss.backward()
        optimizer.step()
        if step >= args.warmup:
            losses.append(loss.item())
            if time.perf_counter() - last >= 0.5 or step == args.warmup + args.steps - 1:
                last = time.perf_counter()
                curve.append((last - start, sum(losses) / len(losses)))
                losses = []
    seconds = time.perf_counter() - start
    if rank == 0:
        print(json.dumps({"images_per_s": round(args.steps * args.batch * ranks / seconds, 1), "loss": loss.item(), "curve": curve}), flush=True)
    faulthandler.dump_traceback_later(10, exit=True)  # the end sometimes hangs
    if distributed.is_initialized():
        distributed.destroy_process_group()  # without this, gloo's threads sometimes abort PyTorch 2.15 with "terminate called"


if __name__ == "__main__":
    main()
