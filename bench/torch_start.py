"""The cost of a rank of DistributedDataParallel with the backends gloo and dlflow: seconds from its launch to the end of its first step, processor seconds
until then, which depend less on other work on the machine, and memory.

    PYTHON bench/torch_start.py [--ranks 2] [--rounds 5] [--models mlp,lenet,resnet20]

The backends take turns, each time in new processes; each figure is the median of the rounds. Memory is that of the largest rank after 20
steps: its own pages, and its share of shared pages. The package dlflow is compiled to bytecode once, like an installed one.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
import ports  # noqa: E402

STEPS = 20


def rank(args):
    import torch
    import torch.distributed as dist
    from torch import nn

    import torch_peer
    if args.backend == "dlflow":
        import dlflow.torch  # noqa: F401
    torch.set_num_threads(1)
    dist.init_process_group(args.backend)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(torch_peer.MODELS[args.model](), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(64, 1, 28, 28), torch.zeros(64, dtype=torch.int64)
    for step in range(STEPS):
        model.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if step == 0:
            first, times = time.time() - args.launched, os.times()
    kib = dict(line.split(":") for line in pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    memory = sum(int(kib[name].split()[0]) for name in ("Private_Clean", "Private_Dirty", "Pss_Shmem"))
    print(json.dumps({"first step s": first, "processor s": times.user + times.system, "memory MiB": memory / 1024}), flush=True)
    dist.barrier()


def measure(args, backend, model):
    names = {"WORLD_SIZE": str(args.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports.free_port()), "OMP_NUM_THREADS": "1",
             "PYTHONPYCACHEPREFIX": args.compiled, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, __file__, "--backend", backend, "--model", model, "--launched", str(time.time())]
    ranks = [subprocess.Popen(command, env=os.environ | names | {"RANK": str(number)}, stdout=subprocess.PIPE, text=True) for number in range(args.ranks)]
    told = [json.loads(process.communicate()[0].splitlines()[-1]) for process in ranks]
    return {name: max(one[name] for one in told) for name in told[0]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="mlp,lenet,resnet20")
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--launched", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.backend:
        return rank(args)
    with tempfile.TemporaryDirectory() as args.compiled:
        compare(args)


def compare(args):
    measure(args, "dlflow", "mlp")  # compiles the package to bytecode
    for model in args.models.split(","):
        found = {"gloo": [], "dlflow": []}
        for _ in range(args.rounds):
            for backend, rounds in found.items():
                rounds.append(measure(args, backend, model))
        for name in found["gloo"][0]:
            gloo, ours = (statistics.median(one[name] for one in rounds) for rounds in found.values())
            print(f"{model}, {name}: gloo {gloo:.2f}, dlflow {ours:.2f}, {ours / gloo:.3f}", flush=True)


if __name__ == "__main__":
    main()
