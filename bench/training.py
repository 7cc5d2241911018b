"""Images per second of dlflow-train and of PyTorch DDP, Horovod and TensorFlow on the same network, data, batch and ranks, taking turns."""

import argparse
import dataclasses
import gzip
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile

import numpy

import peers

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
import ports  # noqa: E402

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


@dataclasses.dataclass(frozen=True)
class Network:
    """A network of workflows/models, and how much of it is measured."""

    peer_steps: int
    steps: int  # of dlflow-train; they take a few seconds
    batch: int = 64  # per rank
    input: tuple = ()  # replaces the model's input
    unit: str = "images"


NETWORKS = {
    "mlp": Network(400, 2000), "lenet": Network(50, 150), "resnet20": Network(20, 60), "unet": Network(10, 20, batch=32),
    "resnet50": Network(8, 12, batch=16, input=(3, 64, 64)), "vgg11": Network(8, 12, batch=16, input=(3, 64, 64)),
    "mobilenet-v2": Network(10, 16, batch=32, input=(3, 64, 64)), "gpt-small": Network(10, 16, batch=8, unit="tokens"),
}
TOKENS = 256  # per text
LOW_RATE = 0.001  # keeps every network's loss on random pictures from becoming NaN, which would end the run
SMALL = ("mlp", "lenet", "resnet20")  # the default networks on other processors and in bf16


def launch(ranks, command, folder, environment=()):
    port = str(ports.free_port())  # for the rendezvous of a peer; the previous port may still be in TIME_WAIT
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MASTER_PORT": port, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} | dict(environment)
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] + [str(word) for word in command]
    return subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def theirs(peer, model, ranks, *flags):
    network = NETWORKS[model]
    program = "tensorflow_peer.py" if peer.framework == "TensorFlow" else "torch_peer.py"
    command = [peer.python, ROOT / "bench" / program, model, "--steps", network.peer_steps, "--batch", network.batch, *peer.flags, *flags]
    try:
        printed = launch(ranks, command, ROOT, peer.training_environment)
    except subprocess.CalledProcessError:  # PyTorch 2.15 sometimes aborts at exit
        printed = launch(ranks, command, ROOT, peer.training_environment)
    samples_per_s = json.loads(printed.splitlines()[-1])["images_per_s"]
    return samples_per_s * (TOKENS if network.unit == "tokens" else 1)


def take_samples(folder, count, split="train"):
    """Writes the first samples of the training set, so that an epoch has the wanted length; or those of the test set."""
    for name, header, size in (("images-idx3", ">4I", 784), ("labels-idx1", ">2I", 1)):
        content = gzip.open(DATA / f"{split}-{name}-ubyte.gz").read()
        fields = list(struct.unpack_from(header, content))
        start, fields[1] = struct.calcsize(header), count
        (folder / f"{split}-{name}-ubyte").write_bytes(struct.pack(header, *fields) + content[start:start + count * size])


def random_pictures(folder, count, shape):
    """Packs pictures of 1,000 classes."""
    numbers = numpy.random.default_rng(1)
    numpy.save(folder / "images.npy", numbers.integers(256, size=(count, *shape), dtype=numpy.uint8))
    numpy.save(folder / "labels.npy", numpy.append(numbers.integers(1000, size=count - 1), 999))
    subprocess.run([ROOT / "build/bin/dlflow", "data", "pack", "images.npy", "labels.npy", "-o", "packed"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)


def random_text(folder, count):
    """Packs `count` texts of TOKENS bytes."""
    text = numpy.random.default_rng(1).choice(numpy.frombuffer(b"abcdefghijklmnopqrstuvwxyz \n", numpy.uint8), (count + 1) * TOKENS)
    (folder / "text").mkdir()
    (folder / "text/all.txt").write_bytes(text.tobytes())
    subprocess.run([ROOT / "build/bin/dlflow", "data", "pack", "text", "-o", "packed", "--tokens", "bytes", "--length", str(TOKENS)],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL)


def prepare(model, folder, samples):
    """The network's file and the folder of data for it."""
    network, file = NETWORKS[model], ROOT / f"workflows/models/{model}.yaml"
    if network.unit == "tokens":
        random_text(folder, samples)
    elif not network.input:
        take_samples(folder, samples)
        return file, "."
    else:
        random_pictures(folder, samples, network.input)
        (folder / "model.yaml").write_text(re.sub("^input: .*", f"input: {list(network.input)}", file.read_text(), flags=re.MULTILINE))
        file = "model.yaml"
    return file, "packed"


def trainer():
    """The program to measure; if the libraries are limited to AVX2, the build whose own loops are, too (made by bench/training.sh)."""
    return ROOT / ("build/avx2/bin" if os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX2" else "build/bin") / "dlflow-train"


def train(model, ranks, samples, environment=(), **settings):
    """The metrics.json of a training on `samples` samples, and the output of dlflow-train and its libraries."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        file, data = prepare(model, folder, samples)
        settings = {"model": str(file), "data": data, "lr": 0.01, "batch_per_rank": NETWORKS[model].batch, "schedule": "constant"} | settings
        (folder / "with.json").write_text(json.dumps(settings))
        printed = launch(ranks, [trainer(), "with.json"], folder, environment)
        return json.loads((folder / "metrics.json").read_text()), printed


def ours(model, ranks, reduction, compute):
    network = NETWORKS[model]
    steps = network.steps * (4 if compute == "bf16" else 1)  # so that it takes as long as in fp32
    epochs = -(-steps * network.batch * ranks // 60000)
    metrics, _ = train(model, ranks, steps // epochs * network.batch * ranks, epochs=epochs, validation=0, lr=LOW_RATE,
                       precision={"reduction": reduction, "compute": compute})
    return metrics[f"{network.unit}_per_s"]


def accuracy(model, ranks, compute, seed):
    """Accuracy on 10,000 held-out pictures after five epochs."""
    return train(model, ranks, 60000, epochs=5, validation=10000, seed=seed, precision={"compute": compute})[0]["accuracy"]


def spread(figures, digits=0):
    """The median and range of `figures`."""
    return f"{statistics.median(figures):.{digits}f} ({min(figures):.{digits}f}-{max(figures):.{digits}f})"


def ratio(rounds, ours, others):
    """Median and range, over the rounds, of the ratio of our column to the best of the other columns."""
    return spread([line[ours] / max(line[name] for name in others) for line in rounds], 2)


def report(model, rounds, theirs, ranks):
    """The lines on a network: all columns, and our ratio to the best of the columns `theirs`, if there are any."""
    lines = [f"{model} (batch {NETWORKS[model].batch} per rank): " + ", ".join(f"{name} {spread([line[name] for line in rounds])}" for name in rounds[0])]
    if theirs:
        lines.append(f"  exact to the best peer {ratio(rounds, 'exact', theirs)}, fast {ratio(rounds, 'fast', theirs)}")
    else:
        lines.append("  no ratio to a peer: none is proven here")
    lines.append(f"  exact to fast {ratio(rounds, 'exact', ['fast'])}")
    lines.append(f"  scaling efficiency, 1 to {ranks} ranks: {spread([line['fast'] / (ranks * line['fast, 1 rank']) for line in rounds], 2)}")
    if "fast, 1 rank, fp32" in rounds[0]:
        lines.append(f"  bf16 to fp32, 1 rank: {ratio(rounds, 'fast, 1 rank', ['fast, 1 rank, fp32'])}")
    return lines


def measures_of(model, ranks, proven, bf16):
    """The measurements of a network by name, and the names of the peers' columns."""
    compute = "bf16" if bf16 else "fp32"
    peers_too = {name: lambda peer=peer, flags=flags: theirs(peer, model, ranks, *flags, *(["--bf16"] if bf16 else []))
                 for name, peer, flags in peers.ways(proven, model)
                 if peer.framework == "PyTorch" or (model in SMALL and not bf16)}
    ours_too = {
        "exact": lambda: ours(model, ranks, "exact", compute),
        "fast": lambda: ours(model, ranks, "fast", compute),
        "fast, 1 rank": lambda: ours(model, 1, "fast", compute),
    }
    if bf16:
        ours_too["fast, 1 rank, fp32"] = lambda: ours(model, 1, "fast", "fp32")
    return peers_too | ours_too, list(peers_too)


def bench(model, proven, args):
    """Measures a network and prints the lines on it."""
    measures, names = measures_of(model, args.ranks, proven, args.bf16)
    there_and_back = [list(measures), list(reversed(measures))]  # so that no way always follows the same other one
    rounds = [{name: measures[name]() for name in there_and_back[i % 2]} for i in range(args.rounds)]
    rounds = [{name: line[name] for name in measures} for line in rounds]
    print("\n".join(report(model, rounds, names, args.ranks)), flush=True)
    if args.bf16 and model in SMALL:
        bf16, fp32 = (statistics.mean(accuracy(model, args.ranks, compute, seed) for seed in (1, 2, 3)) for compute in ("bf16", "fp32"))
        print(f"  accuracy after 5 epochs, mean of three seeds: bf16 {bf16:.4f}, fp32 {fp32:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", help="all of them, unless named; with --avx2 and --bf16 the small ones")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--avx2", action="store_true", help="as on a processor without AVX-512, all sides")
    parser.add_argument("--bf16", action="store_true", help="all sides multiply in bf16; then the accuracy beside that of fp32")
    args = parser.parse_args()
    if args.bf16 and (args.avx2 or "amx_bf16" not in pathlib.Path("/proc/cpuinfo").read_text()):
        print("skipped here: bf16 needs AMX")
        return
    if args.avx2:
        os.environ.update(ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2")
    proven = peers.proven(peers.AVX2_CORE_TYPES if args.avx2 else peers.CORE_TYPES, (*peers.INSTALLED, *([] if args.avx2 else [peers.TENSORFLOW])))
    print(f"{args.ranks} ranks, one thread each, {'bf16' if args.bf16 else 'fp32'}{', AVX2' if args.avx2 else ''}, "
          f"medians (ranges) of {args.rounds} rounds, images or tokens/s; load {os.getloadavg()[0]:.1f}", flush=True)
    # code that torch.compile had cached in an earlier bench, perhaps with other settings, failed to link
    with tempfile.TemporaryDirectory() as compiled:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = compiled
        for model in args.models or (SMALL if args.avx2 or args.bf16 else NETWORKS):
            bench(model, proven, args)


if __name__ == "__main__":
    main()
