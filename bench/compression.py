"""Time per step, bytes sent and final loss of each way to send gradients, on links of a given rate, compared with DDP and Horovod.

A node is a network name space of this machine, with one rank, so that all nodes share its cores. For each link and
number of nodes the batch is chosen so that a step computes about as long as the link takes for the dense sum of its gradients.
Losses are those of longer runs on unshaped links, since no bit depends on the link. The time to equal loss is the time until the loss reaches the final
loss of the worst dense way, on the shaped link, with the same batch and learning rate.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

import peers
from nodes import Nodes
from training import ROOT, TOKENS, prepare

# The largest gradient of lenet is ready first and needed last, so computing hides its dense sum. The largest one of mlp is
# ready last and needed first, so nothing hides its sum.
BYTES = {"lenet": 4 * 1_199_882, "mlp": 4 * 669_706, "resnet20": 4 * 272_186, "gpt-small": 4 * 4_870_144, "vgg11": 4 * 132_863_336}
EQUAL_BATCH = {"gpt-small": 4, "vgg11": 8}  # per rank; LOSS_BATCH for other models
RATE = {"gpt-small": 0.01, "vgg11": 0.005}
RATES = {"10gbit": 1e10, "4gbit": 4e9, "2gbit": 2e9, "1gbit": 1e9, "100mbit": 1e8}
DENSITY = 0.01
LOSS_BATCH = 64
SPARSE = {"density": DENSITY, "warmup_epochs": 0}
OURS = {
    "dense": {},
    "dense, no priority": {"priority": False},
    "wire: fp16": {"wire": "fp16"},
    "fp16": {"compression": "fp16"},
    "bf16": {"compression": "bf16"},
    "int8": {"compression": "int8"},
    "topk": {"compression": "topk"} | SPARSE,
    "mstopk": {"compression": "mstopk"} | SPARSE,
    "mstopk, gtopk": {"compression": "mstopk", "aggregation": "gtopk"} | SPARSE,
    "randomk": {"compression": "randomk"} | SPARSE,
    "dgc": {"compression": "dgc"} | SPARSE,
    "powersgd, rank 2": {"compression": "powersgd", "rank": 2},
}
TWO_LEVELS = {"dense": {}, "mstopk": OURS["mstopk"]}  # two ranks per node: hierarchical top-k
HOOKS = {"": [], ", fp16": ["--fp16"], ", powersgd, rank 2": ["--powersgd", 2]}  # of the peers


TEXT = tempfile.NamedTemporaryFile(prefix="dlflow-text.")  # dlflow's documentation, for gpt-small


def pack_text(folder, count):
    """Packs `count` texts of TEXT, repeating it as often as needed."""
    content = b"".join(page.read_bytes() for page in sorted((ROOT / "docs/user").glob("*.md")))
    pathlib.Path(TEXT.name).write_bytes(content)
    (folder / "text").mkdir()
    (folder / "text/all.txt").write_bytes((content * (count * TOKENS // len(content) + 2))[:(count + 1) * TOKENS])
    subprocess.run([ROOT / "build/bin/dlflow", "data", "pack", "text", "-o", "packed", "--tokens", "bytes", "--length", str(TOKENS)], cwd=folder,
                   check=True, stdout=subprocess.DEVNULL)


def ours(nodes, model, gradients, batch, steps, ranks_per_node=1, epochs=1, validation=0):
    """Seconds and bytes per step, and the loss at the end."""
    ranks = nodes.count * ranks_per_node
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        file, data = (ROOT / f"workflows/models/{model}.yaml", "packed") if model == "gpt-small" else prepare(model, folder, steps * batch * ranks + validation)
        if model == "gpt-small":
            pack_text(folder, steps * batch * ranks)
        settings = {"model": str(file), "data": data, "epochs": epochs,
                    "batch_per_rank": batch, "precision": {"reduction": "fast"}, "validation": validation,
                    "gradients": gradients}
        settings |= {"lr": RATE.get(model, 0.02), "schedule": "constant"} if epochs == 1 else {"lr": 0.05, "warmup_epochs": 0.5}
        (folder / "with.json").write_text(json.dumps(settings))
        _, sent = nodes.launch([ROOT / "build/bin/dlflow-train", "with.json"], folder, ranks_per_node)
        metrics = json.loads((folder / "metrics.json").read_text())
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        curve = [(line["at"] - lines[0]["at"], line["loss"]) for line in lines if "loss" in line]
        speed = metrics["tokens_per_s"] / TOKENS if "tokens_per_s" in metrics else metrics["images_per_s"]
        return {"s": batch * ranks / speed, "curve": curve, "bytes": sent[0] / (steps * epochs), "loss": metrics["loss"],
                "accuracy": metrics.get("accuracy")}


def theirs(nodes, peer, model, flags, batch, steps):
    """The same for a peer. Its processes sometimes abort or hang (gloo): such a run is repeated. None after four failures."""
    warmup = 3
    command = [peer.python, ROOT / "bench/torch_peer.py", model, "--batch", batch, "--steps", steps, "--lr", RATE.get(model, 0.02), "--text", TEXT.name,
               "--warmup", warmup, *peer.flags, *flags]
    for attempt in range(4):
        try:
            output, sent = nodes.launch(command, ROOT, environment=peer.training_environment)
            break
        except RuntimeError as error:
            print(f"# {'given up' if attempt == 3 else 'repeated'}: {peer.name} {flags}: {str(error).strip()[-600:]}", flush=True)
            if attempt == 3:
                return None
    line = json.loads(output.splitlines()[-1])
    return {"s": batch * nodes.count / line["images_per_s"], "bytes": sent[0] / (steps + warmup), "loss": line["loss"], "curve": line["curve"]}


def dense_seconds(model, ranks, rate):
    """Seconds that the link takes for the sum of all gradients (facts C2, without latency)."""
    return 2 * (ranks - 1) / ranks * BYTES[model] * 8 / rate


def matching_batch(nodes, model, rate):
    """The batch at which a step computes for as long as its gradients travel, and the seconds of that step."""
    nodes.rate("off")
    batch = 64
    for _ in range(2):
        seconds = ours(nodes, model, {}, batch, 12)["s"]
        batch = max(4, min(3000 // nodes.count, round(batch * dense_seconds(model, nodes.count, rate) / seconds)))
    return batch, ours(nodes, model, {}, batch, 8)["s"]


def peer_ways(nodes, proven, model, batch, steps):
    return {name + hook: lambda p=peer, f=[*layout, *flags]: theirs(nodes, p, model, f, batch, steps)
            for name, peer, layout in peers.ways(proven, model) for hook, flags in HOOKS.items()
            if "powersgd" not in hook or peer.compiles}  # PyTorch 1.13's hook needs CUDA


def measure(nodes, proven, model, link, rounds, steps):
    rate = RATES[link]
    batch, computing = matching_batch(nodes, model, rate)
    ratio = dense_seconds(model, nodes.count, rate) / computing
    print(f"\n{nodes.count} nodes of one rank, {link}, {model}, {batch} images per rank: communication {ratio:.2f} times computation"
          f" (dense sum {1e3 * dense_seconds(model, nodes.count, rate):.0f} ms by C2, step without shaping {1e3 * computing:.0f} ms);"
          f" load {os.getloadavg()[0]:.1f}", flush=True)
    nodes.rate(link)
    ways = {name: lambda g=gradients: ours(nodes, model, g, batch, steps) for name, gradients in OURS.items()}
    ways |= peer_ways(nodes, proven, model, batch, steps)
    results = [{name: run() for name, run in ways.items()} for _ in range(rounds)]
    ways = {name: run for name, run in ways.items() if all(r[name] for r in results)}
    dense = statistics.median(r["dense"]["s"] for r in results)
    print(f"{'':30}{'ms/step':>9}{'MB/step':>9}{'x dense':>9}  (range over {rounds} rounds)")
    for name in ways:
        seconds = statistics.median(r[name]["s"] for r in results)
        ratios = [r["dense"]["s"] / r[name]["s"] for r in results]
        megabytes = statistics.median(r[name]["bytes"] for r in results) / 1e6
        print(f"{name:30}{1e3 * seconds:9.0f}{megabytes:9.2f}{statistics.median(ratios):9.2f}  ({min(ratios):.2f}-{max(ratios):.2f})",
              flush=True)
    priority = [r["dense, no priority"]["s"] / r["dense"]["s"] for r in results]
    print(f"priority on against off: {statistics.median(priority):.2f} ({min(priority):.2f}-{max(priority):.2f}); dense {1e3 * dense:.0f} ms")


def reached(curve, target):
    """Seconds until the mean of four points is at most `target`; None if that never happens."""
    means = [(seconds, statistics.mean(loss for _, loss in curve[max(0, i - 3):i + 1])) for i, (seconds, _) in enumerate(curve)]
    return next((seconds for seconds, mean in means if mean <= target), None)


def equal_loss(nodes, proven, model, link, steps):
    batch = EQUAL_BATCH.get(model, LOSS_BATCH)
    nodes.rate(link)
    ways = {name: lambda g=gradients: ours(nodes, model, g, batch, steps) for name, gradients in OURS.items() if name != "dense, no priority"}
    ways |= peer_ways(nodes, proven, model, batch, steps)
    results = {name: result for name, run in ways.items() if (result := run())}
    dense = [name for name in results if name not in OURS or name == "dense"]
    dense = [name for name in dense if not any(name.endswith(hook) for hook in HOOKS if hook)]
    target = max(statistics.mean(loss for _, loss in results[name]["curve"][-4:]) for name in dense)
    times = {name: reached(result["curve"], target) for name, result in results.items()}
    print(f"\n{nodes.count} nodes, {link}, {model}, {batch} samples per rank: seconds to the loss {target:.3f}, which all dense ways reach in {steps} steps;"
          f" load {os.getloadavg()[0]:.1f}")
    for name, seconds in times.items():
        print(f"{name:34}" + (f"{seconds:9.1f}" if seconds is not None else f"  not reached: {results[name]['curve'][-1][1]:.3f}"))
    best = {side: min((times[name] for name in times if (name in OURS) == side and times[name]), default=None) for side in (True, False)}
    if all(best.values()):
        print(f"the best of the peers : the best of ours {best[False] / best[True]:.2f}", flush=True)


def two_levels(nodes, model, link, rounds, steps):
    batch, _ = matching_batch(nodes, model, RATES[link])
    nodes.rate(link)
    results = [{name: ours(nodes, model, g, max(4, batch // 2), steps, 2) for name, g in TWO_LEVELS.items()} for _ in range(rounds)]
    ratios = [r["dense"]["s"] / r["mstopk"]["s"] for r in results]
    print(f"{nodes.count} nodes of two ranks, {link}, {model}: hierarchical mstopk {statistics.median(ratios):.2f} times dense"
          f" ({min(ratios):.2f}-{max(ratios):.2f}), {results[0]['mstopk']['bytes'] / 1e6:.2f} MB a step", flush=True)


def crossover(nodes, model, steps):
    """The bandwidth at which mstopk and dense take equally long: predicted from the cost of selection, and measured."""
    batch, _ = matching_batch(nodes, model, RATES["1gbit"])
    ranks = nodes.count
    times = {}
    for link in ("off", *RATES):
        nodes.rate(link)
        times[link] = [statistics.median(ours(nodes, model, OURS[name], batch, steps)["s"] for _ in range(3)) for name in ("dense", "mstopk")]
    selecting = max(times["off"][1] - times["off"][0], 1e-4)
    saved = (2 * (ranks - 1) / ranks - 2 * (ranks - 1) * DENSITY) * BYTES[model]
    print(f"\ncrossover of {model} on {ranks} nodes: selection takes {1e3 * selecting:.1f} ms, {saved / 1e6:.1f} MB are saved, so by C3 mstopk wins below"
          f" {saved * 8 / selecting / 1e9:.1f} Gbit/s")
    print("measured, dense to mstopk: " + ", ".join(f"{link} {dense / sparse:.2f}" for link, (dense, sparse) in times.items()), flush=True)


def learned(nodes, gradients, steps, epochs, held_out, ranks_per_node=1):
    """The result of ours(), or None if the loss became NaN or infinite."""
    try:
        return ours(nodes, "mlp", gradients, LOSS_BATCH, steps, ranks_per_node, epochs, held_out)
    except RuntimeError as error:
        if "NaN or infinite" not in str(error) and "loss is" not in str(error):
            raise
        return None


def losses(nodes, epochs):
    """Losses of mlp, trained until they stop falling: a few epochs only show that sparse gradients start more slowly."""
    nodes.rate("off")
    held_out = 5000
    steps = (60000 - held_out) // (LOSS_BATCH * nodes.count)
    warmup = max(1, epochs // 8)
    print(f"\nmlp, {nodes.count} ranks of {LOSS_BATCH} images, {epochs} epochs of {steps} steps, {warmup} of them to warm compression up:"
          f" loss and accuracy on {held_out} pictures held out")
    runs = {name: (gradients, 1) for name, gradients in OURS.items() if name != "dense, no priority"}  # the same bits
    runs["randomk, 25 %"] = (OURS["randomk"] | {"density": 0.25}, 1)
    runs |= {f"{name}, two ranks a node": (gradients, 2) for name, gradients in TWO_LEVELS.items()}
    dense = {}  # by the number of ranks per node, since that sets the batch
    for name, (gradients, ranks_per_node) in runs.items():
        warm = gradients | ({"warmup_epochs": warmup} if "density" in gradients else {})
        end = learned(nodes, warm, steps // ranks_per_node, epochs, held_out, ranks_per_node)
        loss = dense.setdefault(ranks_per_node, end)["loss"]
        print(f"{name:26}" + (f"{end['loss']:9.4f}{100 * (end['loss'] / loss - 1):+8.1f} %{end['accuracy']:9.4f}{end['bytes'] / 1e6:8.2f} MB"
                              if end else "  diverged"), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["lenet", "mlp"], help=", ".join(BYTES))
    parser.add_argument("--nodes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--links", nargs="*", default=["1gbit", "100mbit"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="of each measurement")
    parser.add_argument("--loss-epochs", type=int, nargs="*", default=[2, 16])
    parser.add_argument("--equal-steps", type=int, default=300, help="of each training to equal loss")
    parser.add_argument("--only", choices=["time", "equal", "loss", "crossover"], nargs="*", default=["time", "loss", "crossover"])
    args = parser.parse_args()
    proven = peers.proven() if {"time", "equal"} & set(args.only) else []
    for count in args.nodes:
        with Nodes(count) as nodes:
            for model in args.models:
                if "time" in args.only:
                    for link in args.links:
                        measure(nodes, proven, model, link, args.rounds, args.steps)
                        two_levels(nodes, model, link, args.rounds, args.steps)
                if "equal" in args.only:
                    for link in args.links:
                        equal_loss(nodes, proven, model, link, args.equal_steps)
                if "crossover" in args.only:
                    crossover(nodes, model, args.steps)
            if "loss" in args.only:
                for epochs in args.loss_epochs:
                    losses(nodes, epochs)


if __name__ == "__main__":
    main()
