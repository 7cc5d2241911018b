"""The first run of `device: cuda` on a machine with a GPU: reports what works, in less than 10 minutes.

    python3 bench/gpu_first_run.py [--build build] [--report build/gpu_first_run.md]

Runs the tests that need a GPU, a small training under compute-sanitizer, trainings compared with the CPU and with a repetition,
bench/gpu_training.py and, from the folder that HOROVOD_EXAMPLES names, Horovod's pytorch_synthetic_benchmark.py. The exit status
is 1 if one of them failed. Each part is ended at its time limit; the limits sum to less than 10 minutes.
"""

import argparse
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import platform
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
import pictures  # noqa: E402

# Seconds that each part may take.
MACHINE, TESTS, SANITIZER, AGREEMENT, LOOK_FOR_TORCH, BENCH, HOROVOD = 30, 120, 50, 100, 30, 110, 40
MODELS = ["mlp", "lenet", "resnet20"]
# Options, and the line that each tool ends with. API errors are ignored because cuDNN looks up kernels that do not exist; racecheck skips cuDNN's kernels.
SANITIZERS = {"memcheck": (["--report-api-errors", "no"], "ERROR SUMMARY: 0 errors"),
              "racecheck": (["--kernel-regex", "kns=dlflow"], "RACECHECK SUMMARY: 0 hazards displayed")}
# Its training uses each kernel of dlflow, on pictures of 10 x 10.
SANITIZED = """\
name: every-kernel
input: [1, 10, 10]
layers:
  - conv2d: {channels: 70, kernel: 3, padding: 1}
  - relu: {name: a}
  - conv2d: {name: b, channels: 150, kernel: 1, stride: 2}
  - max_pool: {from: a, kernel: 3, stride: 2, padding: 1}
  - conv2d: {channels: 150, kernel: 1, bias: false}
  - batch_norm
  - add: {from: b}
  - relu: {name: c}
  - avg_pool: {name: d, kernel: 3, stride: 2, padding: 1}
  - conv2d: {from: c, channels: 150, kernel: 1, stride: 2, bias: false}
  - add: {from: d}
  - conv2d: {channels: 40, kernel: 3, padding: 1}
  - batch_norm
  - relu
  - conv2d: {channels: 20, kernel: 3, padding: 1}
  - global_avg_pool
  - linear: {features: 4}
"""
# Largest |difference| / loss between the GPU and the CPU after 8 steps. Between AVX2 and AVX-512 it is 7e-8 for lenet, 1e-5 for resnet20.
TOLERANCE = 1e-3


@dataclasses.dataclass
class Part:
    """One part of the report."""

    name: str
    result: str  # passed, failed, skipped
    text: str
    seconds: float = 0


def run(command, seconds, **options):
    """The exit status of `command` (None if it was ended after `seconds` or does not exist) and its output."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", start_new_session=True, **options)
    except OSError as error:
        return None, f"{error}\n"
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, f"{output}\nended after {seconds:.3g} s\n"


def machine():
    status, gpus = run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], MACHINE / 3)
    _, topology = run(["nvidia-smi", "topo", "-m"], MACHINE / 3)
    _, commit = run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], MACHINE / 3)
    text = f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores\ncommit {commit.strip()}\n{gpus}{topology}"
    return Part("machine", "passed" if status == 0 else "failed", text)


def tests(build):
    status, output = run(["ctest", "--test-dir", str(build), "-L", "gpu", "--output-on-failure"], TESTS)
    if status != 0:
        return Part("tests", "failed", output)
    some_ran = re.search(r"gpu_test:.* Passed", output)  # the other cases need several GPUs
    return Part("tests", "passed" if some_ran else "skipped", output)


def write_sanitized(folder, **more):
    """Writes the network, its pictures and the settings of a training, to which `more` is added."""
    (folder / "model.yaml").write_text(SANITIZED)
    write_small_pictures(folder)
    settings = {"model": "model.yaml", "data": ".", "epochs": 1, "lr": 0.01, "batch": 32, "validation": 0}
    (folder / "with.json").write_text(json.dumps(settings | more))


def write_small_pictures(folder, count=64, side=10, classes=4):
    dice = random.Random(1)
    header = struct.Struct(">4i").pack(2051, count, side, side)
    (folder / "train-images-idx3-ubyte").write_bytes(header + dice.randbytes(count * side * side))
    header = struct.Struct(">2i").pack(2049, count)
    (folder / "train-labels-idx1-ubyte").write_bytes(header + bytes(dice.randrange(classes) for _ in range(count)))


def sanitizer(build, tool):
    if not shutil.which("compute-sanitizer"):
        return Part(tool, "skipped", "compute-sanitizer is not in PATH; it comes with CUDA's toolkit")
    options, last_line = SANITIZERS[tool]
    with tempfile.TemporaryDirectory(prefix="dlflow-first-run.") as name:
        folder = pathlib.Path(name)
        write_sanitized(folder, device="cuda", precision={"reduction": "fast"})
        command = ["compute-sanitizer", "--tool", tool, *options, "--error-exitcode", "9", str(build / "bin/dlflow-train"), "with.json"]
        # Otherwise it would inspect all kernels of cuDNN when they are loaded, which takes minutes.
        status, output = run(command, SANITIZER, cwd=folder, env=os.environ | {"CUDA_MODULE_LOADING": "LAZY"})
    return Part(tool, "passed" if status == 0 and last_line in output else "failed", output)


def train(build, folder, model, device, seconds):
    """A training in a folder of its own: its summary, the hash of its weights, images/s; or its output if it fails."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{model}-{device}.", dir=folder))
    settings = {"model": str(ROOT / f"workflows/models/{model}.yaml"), "data": "../data", "device": device, "epochs": 1, "lr": 0.005,
                "batch": 128, "precision": {"reduction": "fast"}, "validation": 200, "schedule": "constant"}
    (folder / "with.json").write_text(json.dumps(settings))
    summary = folder / "summary.json"
    status, output = run([str(build / "bin/dlflow-train"), "with.json"], seconds, cwd=folder,
                         env=os.environ | {"DLFLOW_SUMMARY": str(summary)})
    if status != 0:
        return None, output
    weights = sorted(folder.glob("checkpoints/*/model.safetensors"))[-1]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    speed = [line["images_per_s"] for line in lines if "images_per_s" in line][-1]
    return json.loads(summary.read_text()) | {"weights": hashlib.sha256(weights.read_bytes()).hexdigest(), "speed": speed}, output


def agreement(build):
    """Trains each network on the CPU and twice on the GPU: the CPU's loss must be close, and both GPU runs give the same bits."""
    failed, lines, end = False, [], time.monotonic() + AGREEMENT
    with tempfile.TemporaryDirectory(prefix="dlflow-first-run.") as name:
        folder = pathlib.Path(name)
        (folder / "data").mkdir()
        pictures.write(folder / "data", 1200, 200, suffix="")
        for model in MODELS:
            trained = []
            for device in ("cpu", "cuda", "cuda"):
                result, output = train(build, folder, model, device, max(0, end - time.monotonic()))
                if result is None:
                    return Part("agreement with the CPU", "failed", "\n".join([*lines, f"{model} on {device}:", output]))
                trained.append(result)
            cpu, gpu, again = trained
            difference = abs(gpu["loss"] - cpu["loss"]) / cpu["loss"]
            repeats = gpu["weights"] == again["weights"]
            failed = failed or not difference < TOLERANCE or not repeats
            lines.append(f"{model}: loss {cpu['loss']:.6f} on the CPU, {gpu['loss']:.6f} on the GPU (difference {difference:.1e}, at most "
                         f"{TOLERANCE:g}); accuracy {cpu['accuracy']:.4f}, {gpu['accuracy']:.4f}; a second run "
                         f"{'has the same bits' if repeats else 'has OTHER BITS'}; {gpu['speed']:.0f} images/s on a small set")
    return Part("agreement with the CPU", "failed" if failed else "passed", "\n".join(lines))


# DDP over NCCL with the network, optimizer, batch and numbers of batches of Horovod's script.
DDP = """\
import os, time, torch, torch.distributed as dist, torchvision
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank % torch.cuda.device_count())
torch.backends.cudnn.benchmark = True
dist.init_process_group("nccl")
model = torchvision.models.resnet50().cuda()
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, target = torch.randn(32, 3, 224, 224).cuda(), torch.randint(1000, (32,)).cuda()
def train(batches):
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(batches):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return batches * 32 * dist.get_world_size() / (time.monotonic() - begin)
train(10)
print(f"Total img/sec on {dist.get_world_size()} GPU(s): {train(30):.1f}" if rank == 0 else "")
"""


def torch_lacks():
    """The reason why no Python has PyTorch with CUDA; empty if one has."""
    python = os.environ.get("PYTHON", "python3")
    status, _ = run([python, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"], LOOK_FOR_TORCH)
    return "" if status == 0 else f"{python} has no PyTorch with CUDA; PYTHON names another"


def images_per_second(command, ranks, build, seconds):
    """Images per second of `command` as `ranks` processes on this machine (None if it fails), and its output."""
    environment = os.environ | {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randrange(20000, 30000)),
                                "PYTHONPATH": f"{build}/python:{ROOT}/python/dlflow/horovod/path"}
    shell = "; ".join(f"RANK={rank} LOCAL_RANK={rank} {shlex.join(command)} &" for rank in range(ranks)).replace("&;", "&") + " wait"
    _, output = run(["sh", "-c", shell], seconds, env=environment)
    found = re.search(r"Total img/sec on \d+ \w+\(s\): ([\d.]+)", output)
    return (float(found[1]), output) if found else (None, output)


def horovod(build):
    """Runs Horovod's published benchmark over dlflow's interface and compares it with DDP over NCCL."""
    script = pathlib.Path(os.environ.get("HOROVOD_EXAMPLES", ""), "pytorch_synthetic_benchmark.py")
    if not script.is_file() or torch_lacks():
        return Part("horovod", "skipped", torch_lacks() or "HOROVOD_EXAMPLES must name the folder of Horovod's pytorch_synthetic_benchmark.py")
    python, lines, passed = os.environ.get("PYTHON", "python3"), [], True
    for ranks in (1, 2):
        ours, output = images_per_second([python, str(script), "--num-iters", "3"], ranks, build, HOROVOD / 4)
        peer, _ = images_per_second([python, "-c", DDP], ranks, build, HOROVOD / 4)
        passed = passed and ours is not None
        ratio = f"{ours / peer:.2f}" if ours and peer else "none"
        lines.append(f"{ranks} processes: dlflow {ours or output} images/s, DDP over NCCL {peer or 'failed: NCCL wants a GPU for each rank'}, ratio {ratio}")
    return Part("horovod", "passed" if passed else "failed", "\n".join(lines))


def bench():
    if torch_lacks():
        return Part("bench", "skipped", torch_lacks())
    python = os.environ.get("PYTHON", "python3")
    status, output = run([python, "-B", str(ROOT / "bench/gpu_training.py"), "--rounds", "1"], BENCH, cwd=ROOT)
    return Part("bench", "passed" if status == 0 else "failed", output)


def report(parts, now):
    """The report as Markdown. Long output is cut to its end."""
    lines = [f"# First run on a GPU, {now:%Y-%m-%d %H:%M} UTC", "", "| part | result | seconds |", "|---|---|---|"]
    lines += [f"| {part.name} | {part.result} | {part.seconds:.0f} |" for part in parts]
    for part in parts:
        lines += ["", f"## {part.name[0].upper()}{part.name[1:]}: {part.result}", "```", *part.text.strip().splitlines()[-60:], "```"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--report", type=pathlib.Path, default=ROOT / "build/gpu_first_run.md")
    args = parser.parse_args()
    build = args.build.resolve()
    parts = []
    for part_of in (machine, lambda: tests(build), lambda: sanitizer(build, "memcheck"), lambda: sanitizer(build, "racecheck"),
                    lambda: agreement(build), bench, lambda: horovod(build)):
        begin = time.monotonic()
        part = part_of()
        part.seconds = time.monotonic() - begin
        parts.append(part)
        print(f"{part.name}: {part.result}, {part.seconds:.0f} s", flush=True)
        # Written after each part, so that the results so far survive if this program is ended.
        args.report.write_text(report(parts, datetime.datetime.now(datetime.timezone.utc)))
    print(f"the report is {args.report}")
    sys.exit(any(part.result == "failed" for part in parts))


if __name__ == "__main__":
    main()
