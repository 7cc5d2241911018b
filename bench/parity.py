"""Trains each network from several seeds in each framework, one thread each, and compares the measures on the test data.

Network, distribution of the first weights, samples, batch, optimizer, learning rate and epochs are equal. Each framework draws its own
random numbers: order of samples, first weights, dropout. So the figures are means over seeds, and the means should agree within one
standard deviation of either framework.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from training import ROOT, take_samples

MEAN, DEVIATION = 0.2860, 0.3530  # of Fashion-MNIST
LENGTH, FEATURES, HEADS, BLOCKS = 32, 64, 4, 2  # of the language model
GPT = f"""
name: gpt
input: [{LENGTH}]
blocks:
  block:
    - layer_norm: {{name: ln_1}}
    - linear: {{name: qkv, features: {3 * FEATURES}}}
    - attention: {{heads: {HEADS}}}
    - linear: {{name: out, features: {FEATURES}}}
    - dropout: {{name: drop_1, rate: 0.1}}
    - add: {{name: middle, from: input}}
    - layer_norm: {{name: ln_2}}
    - linear: {{name: up, features: {4 * FEATURES}}}
    - gelu
    - linear: {{name: down, features: {FEATURES}}}
    - dropout: {{name: drop_2, rate: 0.1}}
    - add: {{from: middle}}
layers:
  - embedding: {{name: tokens, vocabulary: 256, features: {FEATURES}}}
  - positions: {{name: places}}
{"".join(f"  - block: {{name: h.{block}}}{chr(10)}" for block in range(BLOCKS))}  - layer_norm: {{name: last}}
  - linear: {{name: head, features: 256, tied: tokens, bias: false}}
loss: next_token
"""
# The measure of each network, and its training. One leaf: batch normalisation over the whole batch, as in PyTorch.
NETWORKS = {
    "lenet": {"metric": "accuracy", "samples": 8000, "test": 10000, "epochs": 3, "batch": 64, "lr": 0.02, "optimizer": "sgd"},
    "resnet20": {"metric": "accuracy", "samples": 10000, "test": 5000, "epochs": 5, "batch": 64, "lr": 0.05, "optimizer": "sgd"},
    "gpt": {"metric": "loss", "epochs": 1, "batch": 32, "lr": 0.002, "optimizer": "adamw"},
    "unet": {"metric": "rmse", "samples": 800, "test": 2000, "epochs": 2, "batch": 32, "lr": 0.002, "optimizer": "adam"},
}


def run(command, folder, environment=()):
    ended = subprocess.run([str(word) for word in command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env=os.environ | {"OMP_NUM_THREADS": "1"} | dict(environment))
    if ended.returncode != 0:
        raise SystemExit(f"error: {' '.join(map(str, command))}: {ended.stderr.strip() or ended.stdout.strip()}")
    return ended.stdout


def make_data(network, folder):
    """Writes the data for all frameworks: pictures as IDX files, text as the packed file that dlflow-train reads."""
    if network == "gpt":
        run([ROOT / "build/bin/dlflow", "data", "pack", ROOT / "docs/user", "--pattern", "*.md", "-o", folder / "data", "--tokens", "bytes",
             "--length", LENGTH, "--test-share", "0.1"], folder)
        return
    (folder / "data").mkdir()
    take_samples(folder / "data", NETWORKS[network]["samples"])
    take_samples(folder / "data", NETWORKS[network]["test"], "t10k")


def ours(network, folder, seed):
    given = NETWORKS[network]
    if network == "gpt":
        (folder / "model.yaml").write_text(GPT)
    model = folder / "model.yaml" if network == "gpt" else ROOT / f"workflows/models/{network}.yaml"
    settings = {"model": str(model), "data": "data", "epochs": given["epochs"], "batch": given["batch"], "lr": given["lr"], "seed": seed,
                "schedule": "constant", "validation": 0, "optimizer": {"kind": given["optimizer"]}, "precision": {"leaves": 1}}
    if given["optimizer"] == "adamw":
        settings["weight_decay"] = 0.01  # PyTorch's default
    if network != "gpt":
        settings["normalize"] = {"mean": MEAN, "std": DEVIATION}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = pathlib.Path(name)
        (work / "data").symlink_to(folder / "data")
        (work / "with.json").write_text(json.dumps(settings))
        run([ROOT / "build/bin/dlflow-train", "with.json"], work)
        (work / "with.json").write_text(json.dumps({"checkpoint": "checkpoints/latest", "data": "data", "batch": 100}))
        run([ROOT / "build/bin/dlflow-evaluate", "with.json"], work)
        return json.loads((work / "metrics.json").read_text())[given["metric"]]


def peer(python, program, network, folder, seed):
    given = NETWORKS[network] | {"network": network, "data": str(folder / "data"), "seed": seed, "mean": MEAN, "deviation": DEVIATION,
                                 "length": LENGTH, "features": FEATURES, "heads": HEADS, "blocks": BLOCKS}
    out = run([python, "-B", ROOT / "bench" / program, json.dumps(given)], ROOT, {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"})
    return json.loads(out.splitlines()[-1])[given["metric"]]


def has(python, module):
    return pathlib.Path(python).exists() and subprocess.run(
        [str(python), "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"]).returncode == 0


def frameworks():
    """name -> (network, folder, seed) -> figure, for each framework installed here."""
    found = {"dlflow": ours}
    torch = [python for python in (ROOT / "build/torch-venv/bin/python", "/usr/bin/python3") if has(python, "torch")]
    if torch:
        found["PyTorch"] = lambda *what: peer(torch[0], "parity_torch.py", *what)
    else:
        print("# left out: PyTorch: neither build/torch-venv nor python3-torch is here")
    keras = ROOT / "build/torch-venv/bin/python"
    if has(keras, "tensorflow"):
        found["TensorFlow"] = lambda *what: peer(keras, "parity_keras.py", *what)
    else:
        print("# left out: TensorFlow: build/torch-venv is not here")
    return found


def compare(figures):
    """A sentence on each peer: the difference of the means in standard deviations (the larger of the two frameworks')."""
    lines = []
    mean, deviation = statistics.mean(figures["dlflow"]), statistics.stdev(figures["dlflow"])
    for name, values in figures.items():
        if name != "dlflow":
            scale = max(deviation, statistics.stdev(values))
            distance = abs(mean - statistics.mean(values))
            lines.append(f"  dlflow and {name} differ by {distance:.4f}, {distance / scale:.2f} standard deviations: "
                         + ("agree" if distance <= scale else "DIFFER"))
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    found = frameworks()
    for network in args.networks:
        given = NETWORKS[network]
        names = [name for name in found if name != "TensorFlow" or network == "lenet"]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make_data(network, folder)
            figures = {name: [] for name in names}
            for seed in range(1, args.seeds + 1):
                for name in names:
                    figures[name].append(found[name](network, folder, seed))
        print(f"{network}: {given['metric']}, {args.seeds} seeds, {given['epochs']} epochs, batch {given['batch']}, {given['optimizer']}, lr {given['lr']}")
        for name, values in figures.items():
            print(f"  {name}: {statistics.mean(values):.4f} +- {statistics.stdev(values):.4f} ({', '.join(f'{value:.4f}' for value in values)})")
        print("\n".join(compare(figures)), flush=True)


if __name__ == "__main__":
    main()
