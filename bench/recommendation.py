"""workflows/pytorch/dlrm.py with divided and with replicated tables, in one run: time of a step, memory of a rank, AUC of the test.

    PYTHON bench/recommendation.py [--ranks 2] [--seeds 5] [--rows 100000] [--samples 120000] [--ways gloo,replicated,sharded,exact,files]

Starts the ranks itself, one thread each; the ways take turns, each with processes of its own. A seed decides about the first weights. gloo: replicated tables over gloo; replicated: over
dlflow; files: divided tables in memory-mapped files. Memory is the peak of rank 0 beyond what it had before it made its model, with mapped files. Of time and memory the median of
the seeds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import torch_ranks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "workflows/pytorch"))
import clicks  # noqa: E402
import dlrm  # noqa: E402

WARM_UP = 10  # steps
WAYS = ("gloo", "replicated", "sharded", "exact", "files")


def memory(field):
    """MiB."""
    lines = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) / 1024


def rank(way, folder, rows, seed):
    """A line of JSON."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo" if way == "gloo" else "dlflow")
    given = dlrm.settings()
    given.update(rows=rows, seed=seed, folder=folder if way == "files" else "")
    train, test = dlrm.Clicks(f"{folder}/train"), dlrm.Clicks(f"{folder}/test")
    before = memory("VmRSS")
    training = dlrm.Replicated(given, train) if way in ("gloo", "replicated") else dlrm.Sharded(given, train, exact=way == "exact")
    times, cpu = [time.perf_counter()], 0.0
    for done, _ in training.steps(0, len(train) // given.batch):
        times.append(time.perf_counter())
        cpu = time.process_time() if done == WARM_UP else cpu
    cpu = time.process_time() - cpu
    steps = [end - begin for begin, end in zip(times[WARM_UP:], times[WARM_UP + 1:])]
    peak = memory("VmHWM") - before
    quality = dlrm.auc(training.model, training.embed, test)
    if dist.get_rank() == 0:
        print(json.dumps({"ms": 1000 * statistics.median(steps), "cpu_ms": 1000 * cpu / len(steps), "mib": peak, "auc": quality}), flush=True)
    dist.barrier()


def measured(args, way, folder, seed):
    ended = torch_ranks.start(args.ranks, ["--way", way, "--folder", folder, "--rows", str(args.rows), "--seed", str(seed)], stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"error: the ranks of {way} failed")
    return json.loads(ended.stdout.splitlines()[-1])


def print_figures(found, base):
    for way, figures in found.items():
        ms, cpu, mib = ([each[name] for each in figures] for name in ("ms", "cpu_ms", "mib"))
        ratios = [statistics.median(each[name] for each in figures) / statistics.median(each[name] for each in found[base]) for name in ("ms", "cpu_ms", "mib")]
        print(f"{way}: {statistics.median(ms):.1f} ms ({min(ms):.1f} to {max(ms):.1f}), {ratios[0]:.2f}; {statistics.median(cpu):.1f} ms of its processor, {ratios[1]:.2f}; "
              f"{statistics.median(mib):.0f} MiB, {ratios[2]:.2f}")


def print_quality(found, base):
    for way, figures in found.items():
        values, others = ([each["auc"] for each in found[name]] for name in (way, base))
        difference = statistics.mean(values) - statistics.mean(others)
        error = ((statistics.variance(values) + statistics.variance(others)) / len(values)) ** 0.5
        print(f"{way}: AUC {statistics.mean(values):.4f} ({', '.join(f'{value:.4f}' for value in values)}), {difference / error if error else 0:+.2f} standard errors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--samples", type=int, default=120_000)
    parser.add_argument("--ways", default=",".join(WAYS))
    for hidden in ("--way", "--folder", "--seed"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if torch_ranks.is_rank():
        return rank(args.way, args.folder, args.rows, int(args.seed))
    found = {way: [] for way in args.ways.split(",")}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for name, samples, seed in (("train", args.samples, 1), ("test", 20_000, 2)):
            clicks.write(samples, seed, f"{folder}/{name}.tsv")
            clicks.prepare(f"{folder}/{name}.tsv", args.rows, f"{folder}/{name}")
        for seed in range(args.seeds):
            for way, figures in found.items():
                figures.append(measured(args, way, folder, seed))
                print(f"# seed {seed}, {way}: {figures[-1]}, load {os.getloadavg()[0]:.1f}", flush=True)
    base = "replicated" if "replicated" in found else next(iter(found))
    print(f"# PyTorch {torch.__version__}, {args.ranks} ranks\n# way: time of a step (of the seeds), to {base}; processor time of rank 0 in it; memory of a rank")
    print_figures(found, base)
    if args.seeds > 1:
        print_quality(found, base)


if __name__ == "__main__":
    main()
