"""workflows/pytorch/dlrm.py with divided and with replicated tables, in one run: time per step, memory per rank, AUC of the test.

    PYTHON bench/recommendation.py [--ranks 2] [--seeds 5] [--rows 100000] [--samples 100000] [--ways replicated,sharded,files]

Starts the ranks itself, one thread each. The ways take turns, step by step, in the same processes; exact is also a way. The seed determines the first weights.
files: divided tables in memory-mapped files. Memory is the growth of rank 0 from before it makes its model to the end of the first step, including mapped files.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import torch_ranks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "workflows/pytorch"))
import clicks  # noqa: E402
import dlrm  # noqa: E402

WARM_UP = 5  # steps


def memory():
    """The memory of this process in MiB."""
    lines = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024


def make(way, given, folder, data):
    given.update(folder=folder if way == "files" else "")
    return dlrm.Replicated(given, data) if way == "replicated" else dlrm.Sharded(given, data, exact=way == "exact")


def train(args, seed, data, found):
    """Adds the figures of this seed. Returns the trained models."""
    given = dlrm.settings()
    given.update(rows=args.rows, seed=seed)
    last, trained, steps = len(data) // given.batch, {}, {}
    for way in found:
        before = memory()
        trained[way] = make(way, given, args.folder, data)
        steps[way] = trained[way].steps(0, last)
        next(steps[way])
        found[way]["MiB"].append(memory() - before)
    for step in range(1, last):
        for way, each in steps.items():
            torch.use_deterministic_algorithms(way == "exact")
            dist.barrier()
            start, cpu = time.perf_counter(), time.process_time()
            next(each)
            if step >= WARM_UP:
                found[way]["ms"].append(1000 * (time.perf_counter() - start))
                found[way]["processor ms"].append(1000 * (time.process_time() - cpu))
    torch.use_deterministic_algorithms(False)
    return trained


def rank(args):
    torch.set_num_threads(1)
    dist.init_process_group("dlflow")
    data, test = dlrm.Clicks(f"{args.folder}/train"), dlrm.Clicks(f"{args.folder}/test")
    found = {way: {"ms": [], "processor ms": [], "MiB": [], "AUC": []} for way in args.ways.split(",")}
    for seed in range(args.seeds):
        for way, trained in train(args, seed, data, found).items():
            found[way]["AUC"].append(dlrm.auc(trained.model, trained.embed, test))
        if dist.get_rank() == 0:
            print_figures(found, seed + 1)
    dist.barrier()


def print_figures(found, seeds):
    base, *_ = found.values()
    print(f"# PyTorch {torch.__version__}, {dist.get_world_size()} ranks, {seeds} seeds, load {os.getloadavg()[0]:.1f}; medians, and to {next(iter(found))}")
    for way, figures in found.items():
        medians = [(name, statistics.median(figures[name]), statistics.median(base[name])) for name in ("ms", "processor ms", "MiB")]
        print(f"{way}: " + ", ".join(f"{value:.1f} {name} ({value / other:.2f})" for name, value, other in medians), flush=True)
        values, others = figures["AUC"], base["AUC"]
        text = f"{way}: AUC {statistics.mean(values):.4f} ({', '.join(f'{value:.4f}' for value in values)})"
        if seeds > 1 and figures is not base:
            error = ((statistics.variance(values) + statistics.variance(others)) / seeds) ** 0.5
            text += f", {(statistics.mean(values) - statistics.mean(others)) / error:+.2f} standard errors"
        print(text, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--ways", default="replicated,sharded,files")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if torch_ranks.is_rank():
        return rank(args)
    with tempfile.TemporaryDirectory() as folder:
        for name, samples, seed in (("train", args.samples, 1), ("test", 10_000, 2)):
            clicks.write(samples, seed, f"{folder}/{name}.tsv")
            clicks.prepare(f"{folder}/{name}.tsv", args.rows, f"{folder}/{name}")
        status = torch_ranks.start(args.ranks, [*sys.argv[1:], "--folder", folder]).returncode
    sys.exit(status)


if __name__ == "__main__":
    main()
