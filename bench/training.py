"""Images per second of dlflow-train and of PyTorch DDP on the same network, data, batch and ranks, taking turns."""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCH = 64  # per rank
STEPS = {"mlp": (400, 2000), "lenet": (50, 150), "resnet20": (20, 60)}  # peer, ours: some seconds each


def launch(ranks, command, folder):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] + [str(word) for word in command]
    return subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def peer(model, ranks, flags):
    line = launch(ranks, ["/usr/bin/python3", ROOT / "bench/torch_peer.py", model, "--steps", STEPS[model][0], *flags], ROOT)
    return json.loads(line)["images_per_s"]


def take_samples(folder, count):
    """The first samples of the training set, so that an epoch is as long as wanted."""
    for name, header, size in (("images-idx3", ">4I", 784), ("labels-idx1", ">2I", 1)):
        content = gzip.open(DATA / f"train-{name}-ubyte.gz").read()
        fields = list(struct.unpack_from(header, content))
        start, fields[1] = struct.calcsize(header), count
        (folder / f"train-{name}-ubyte").write_bytes(struct.pack(header, *fields) + content[start:start + count * size])


def ours(model, ranks, reduction):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        steps = STEPS[model][1]
        epochs = -(-steps * BATCH * ranks // 60000)
        take_samples(folder, steps // epochs * BATCH * ranks)
        settings = {"model": str(ROOT / f"workflows/models/{model}.yaml"), "data": ".", "epochs": epochs, "lr": 0.01,
                    "batch_per_rank": BATCH, "precision": {"reduction": reduction}, "validation": 0, "schedule": "constant"}
        (folder / "with.json").write_text(json.dumps(settings))
        launch(ranks, [ROOT / "build/bin/dlflow-train", "with.json"], folder)
        return json.loads((folder / "metrics.json").read_text())["images_per_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=list(STEPS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"{args.ranks} ranks, one thread and {BATCH} images each, fp32, median of {args.rounds} rounds, images/s; load {os.getloadavg()[0]:.1f}")
    print(f"{'':10}{'PyTorch DDP':>12}{'channels last':>15}{'exact':>8}{'fast':>8}{'exact:DDP':>11}{'(range)':>16}{'exact:best':>12}{'exact:fast':>12}")
    for model in args.models:
        rounds = [(peer(model, args.ranks, []), peer(model, args.ranks, ["--channels-last"]), ours(model, args.ranks, "exact"),
                   ours(model, args.ranks, "fast")) for _ in range(args.rounds)]
        medians = [statistics.median(column) for column in zip(*rounds)]
        to_ddp = [exact / ddp for ddp, _, exact, _ in rounds]
        to_best = statistics.median(exact / max(ddp, tuned) for ddp, tuned, exact, _ in rounds)
        to_fast = statistics.median(exact / fast for _, _, exact, fast in rounds)
        spread = f"({min(to_ddp):.2f}-{max(to_ddp):.2f})"
        print(f"{model:10}{medians[0]:>12.0f}{medians[1]:>15.0f}{medians[2]:>8.0f}{medians[3]:>8.0f}"
              f"{statistics.median(to_ddp):>11.2f}{spread:>16}{to_best:>12.2f}{to_fast:>12.2f}", flush=True)


if __name__ == "__main__":
    main()
