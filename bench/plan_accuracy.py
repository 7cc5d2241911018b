"""Predicted and measured step times of trainings and of PyTorch scripts, on nodes with slow links and half a core each.

    bench/plan_accuracy.py [--links 1gbit,200mbit,50mbit] [--jobs mlp,lenet,...] [--ranks 1,2,4] [--keep FOLDER]

A node is a network name space of this machine with one rank, whose processes have half a core (a quota of their cgroup), so that two cores really
run four ranks. For each job 20 steps are measured with 1 and 2 ranks (`--profile-steps`, DLFLOW_PROFILE_STEPS); `dlflow plan` predicts the others;
then the job runs. Each line is one number of ranks; the last ones are the median and the worst error.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile

from nodes import Nodes
from training import ROOT, take_samples

BIN = ROOT / "build/bin"
MEASURED = 1, 2
TOKENS = 128  # per text
# Samples per step of all ranks together, and leaves for four ranks.
TRAININGS = {name: {"batch": batch, "precision": {"leaves": 4}} for name, batch in (("mlp", 128), ("lenet", 64), ("resnet20", 32), ("gpt-bytes", 8))}
STEPS = {"mlp": 400, "lenet": 120, "resnet20": 60, "gpt-bytes": 120}
WARM_UP = 10  # steps that do not count, since they do not matter in a long training
SCRIPTS = {"torch-mlp": "mlp", "torch-lenet": "lenet"}  # bench/torch_nodes.py, whose ranks have 64 samples each
QUOTA_US, PERIOD_US = 1000, 2000  # shorter than a step, so that each step contains its share of pauses
IN_GROUP = 'echo $$ > "$GROUPS_OF_RANKS$OMPI_COMM_WORLD_RANK/cgroup.procs"; exec "$@"'


@contextlib.contextmanager
def half_cores(count):
    """Makes a cgroup with half a core for each rank; yields the common prefix of their paths."""
    first = pathlib.Path("/sys/fs/cgroup/cpu")
    is_new = not first.is_dir()
    begin = (pathlib.Path("/sys/fs/cgroup") if is_new else first) / f"dlflow-plan-{os.getpid()}-"
    groups = [pathlib.Path(f"{begin}{rank}") for rank in range(count)]
    try:
        for group in groups:
            group.mkdir()
            if is_new:
                (group / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        yield begin
    except OSError as error:
        raise SystemExit(f"error: no quota of half a core: {error}; this needs root and the controller cpu of cgroups")
    finally:
        for group in groups:
            if group.is_dir():
                group.rmdir()


def packed_text(folder, count):
    """Packs `count` texts of TOKENS bytes, the input of gpt-bytes."""
    (folder / "text").mkdir()
    words = "the quick brown fox jumps over a lazy dog and runs on ".split()
    dice = random.Random(1)
    (folder / "text/all.txt").write_text(" ".join(dice.choice(words) for _ in range(count * TOKENS))[:(count + 1) * TOKENS])
    subprocess.run([BIN / "dlflow", "data", "pack", folder / "text", "-o", folder / "packed", "--tokens", "bytes", "--length", str(TOKENS)],
                   check=True, stdout=subprocess.DEVNULL)
    return folder / "packed"


class Training:
    """A network of ours."""

    def __init__(self, name, folder):
        steps = STEPS[name]
        self.name, self.folder, self.batch = name, folder, TRAININGS[name]["batch"]
        data = folder
        if name.startswith("gpt"):
            data = packed_text(folder, steps * self.batch)
        else:
            take_samples(folder, steps * self.batch)
        self.settings = {"model": str(ROOT / f"workflows/models/{name}.yaml"), "data": str(data), "epochs": 1, "lr": 0.01, "schedule": "constant",
                         "validation": 0} | TRAININGS[name]
        (folder / "with.json").write_text(json.dumps(self.settings))

    def measure(self, launch, file):
        launch([BIN / "dlflow-train", "--profile-steps", "20", "--measurement", file, "with.json"], self.folder)

    def run(self, launch):
        """Seconds per step."""
        for old in ("checkpoints", "outputs"):
            shutil.rmtree(self.folder / old, ignore_errors=True)
        (self.folder / "metrics.jsonl").unlink(missing_ok=True)
        launch([BIN / "dlflow-train", "with.json"], self.folder)
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        first, last = next(line for line in lines if line["step"] >= WARM_UP), lines[-1]
        return (last["at"] - first["at"]) / (last["step"] - first["step"])

    def step(self):
        return {"uses": "train", "resources": {"ranks": 2}, "with": self.settings}


class Script:
    """A training with PyTorch's DistributedDataParallel."""

    batch = None

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        # Ranks in one PID name space would exchange through shared memory.
        self.command = ["unshare", "--pid", "--fork", "--mount-proc", os.environ.get("PYTHON", "/usr/bin/python3"), "-B", ROOT / "bench/torch_nodes.py",
                        "--models", SCRIPTS[name], "--way", "dlflow"]

    def launch(self, launch, **environment):
        return launch(self.command, ROOT, environment | {"PYTHONPATH": str(ROOT / "build/python")})

    def measure(self, launch, file):
        self.launch(launch, DLFLOW_PROFILE_STEPS="20", DLFLOW_CACHE=str(self.folder / "cache"), DLFLOW_STEP=file.stem)
        [found] = (self.folder / "cache/measurements").glob(f"{file.stem}-*.json")
        shutil.copy(found, file)

    def run(self, launch):
        return json.loads(self.launch(launch).splitlines()[-1])["s"]

    def step(self):
        return {"run": ["python3", str(ROOT / "bench/torch_nodes.py")], "resources": {"ranks": 2}}


def launcher(nodes, groups):
    def launch(command, folder, environment=()):
        output, _ = nodes.launch(["sh", "-c", IN_GROUP, "sh", *command], folder, environment=dict(environment) | {"GROUPS_OF_RANKS": str(groups)})
        return output

    return launch


def predictions(job, file):
    """Seconds per step by the number of ranks."""
    workflow = job.folder / "plan.yaml"
    workflow.write_text(json.dumps({"name": "plan-accuracy", "steps": {"train": job.step()}}))
    ended = subprocess.run([BIN / "dlflow", "plan", workflow, "train", "--measurement", file, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    if ended.returncode != 0:
        raise SystemExit(f"error: dlflow plan: {ended.stderr}")
    fitting = [p for p in json.loads(ended.stdout)["predictions"]
               if p["nodes"] == p["ranks"] and p.get("compression", "none") == "none" and job.batch in (None, p["batch"])]
    return {p["ranks"]: p["step_s"] for p in fitting}


def compare(job, link, args, groups):
    """Prints and returns the errors of one job on one link."""
    file = job.folder / f"{link}.json"
    measured = {}
    for ranks in sorted({*MEASURED, *args.ranks}):
        with Nodes(ranks) as nodes:
            nodes.rate(link)
            launch = launcher(nodes, groups)
            if ranks in MEASURED:
                job.measure(launch, file)
            if ranks in args.ranks:
                measured[ranks] = job.run(launch)
    predicted = {} if args.only_measure else predictions(job, file)
    errors = []
    for ranks, seconds in measured.items():
        line = f"{job.name:12}{link:>9}{ranks:6}{1e3 * seconds:11.2f}"
        if ranks in predicted:
            errors.append(abs(predicted[ranks] / seconds - 1))
            line += f"{1e3 * predicted[ranks]:11.2f}{100 * (predicted[ranks] / seconds - 1):+8.1f} %"
        print(line, flush=True)
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", default="1gbit,200mbit,50mbit")
    parser.add_argument("--jobs", default=",".join([*TRAININGS, *SCRIPTS]))
    parser.add_argument("--ranks", default="1,2,4", type=lambda text: [int(ranks) for ranks in text.split(",")])
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the measurements")
    parser.add_argument("--only-measure", action="store_true", help="predict nothing")
    args = parser.parse_args()
    print(f"{'job':12}{'link':>9}{'ranks':>6}{'measured':>11}{'predicted':>11}{'error':>8}    (ms per step; load {os.getloadavg()[0]:.1f})")
    errors = []
    with tempfile.TemporaryDirectory(prefix="dlflow-plan.") as folder, half_cores(max(args.ranks)) as groups:
        for name in args.jobs.split(","):
            own = pathlib.Path(folder) / name
            own.mkdir()
            job = (Training if name in TRAININGS else Script)(name, own)
            for link in args.links.split(","):
                errors += compare(job, link, args, groups)
            if args.keep:
                for file in own.glob("*bit.json"):
                    args.keep.mkdir(exist_ok=True)
                    shutil.copy(file, args.keep / f"{name}-{file.name}")
    if errors:
        print(f"errors: median {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} % of {len(errors)}")


main()
