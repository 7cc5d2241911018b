"""What a container costs a training: images per second of PyTorch on two ranks, without one and in each runtime that is here, taking turns.

    bench/containers.sh [--rounds 5] [--steps 150] [--models lenet,resnet20] [--runtimes udocker,charliecloud,podman,bubblewrap]

All run through `dlflow run`, the same script on the same PyTorch: Debian's packages, in the image and outside of it, with the settings that
peers.py finds. The time is that of the steps of training alone, behind a warm-up; `job` is the whole job with its container's start.
`none-again`, a second run without a container, shows what two measurements of the same thing differ by.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import peers

ROOT = pathlib.Path(__file__).resolve().parents[1]
UDOCKER = ROOT / "build/tests/udocker/bin/udocker"
PROGRAMS = {"udocker": str(UDOCKER), "charliecloud": "ch-run", "podman": "podman", "bubblewrap": "bwrap"}
NATIVE = ("none", "none-again")
SETTINGS = {"udocker": f"{{runtime: udocker, mode: P1, command: [{UDOCKER}]}}"}

WORKFLOW = """\
name: containers
params: {{model: lenet, round: 0}}
images: {{pytorch: {{from: "docker-archive:pytorch.tar"}}}}
steps:
  train:
    {image}
    run: [/usr/bin/python3, containers_rank.py, "${{{{ params.model }}}}", "{steps}", "{runtime}-${{{{ params.round }}}}"]
    inputs: [containers_rank.py, torch_networks.py, torch_peer.py]
    resources: {{ranks: 2, memory: 2GiB}}
    env: {environment}
"""


def prepare(folder, runtimes, steps, environment):
    """A workflow and a profile for each of `runtimes`, and the image."""
    wheel, = (ROOT / "build").glob("dlflow-*.whl")
    subprocess.run([ROOT / "workflows/image.py", "--package", "python3-torch", "--wheel", wheel, "-o", folder / "pytorch.tar"], check=True)
    for name in ("containers_rank.py", "torch_networks.py", "torch_peer.py"):
        shutil.copy(ROOT / "bench" / name, folder)
    (folder / "cluster-profiles").mkdir()
    outside = {"PYTHONPATH": str(ROOT / "build/python")}
    for runtime in runtimes:
        is_native = runtime in NATIVE
        settings = "{runtime: none}" if is_native else SETTINGS.get(runtime, f"{{runtime: {runtime}}}")
        (folder / f"cluster-profiles/{runtime}.yaml").write_text(f"scheduler: local\ncontainer: {settings}\n")
        (folder / f"{runtime}.yaml").write_text(WORKFLOW.format(
            runtime=runtime, steps=steps, image="" if is_native else "image: pytorch", environment=json.dumps(environment | (outside if is_native else {}))))


def run(folder, runtime, model, number):
    """Images per second, and seconds of the whole job."""
    dlflow = [ROOT / "build/bin/dlflow"]
    environment = os.environ | {"DLFLOW_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
    started = subprocess.run([*dlflow, "run", f"{runtime}.yaml", "--profile", runtime, "--set", f"model={model}", "--set", f"round={number}", "--json"],
                             cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    name = json.loads(started.stdout.splitlines()[-1])["run"]
    told = json.loads(subprocess.run([*dlflow, "status", name, "--json"], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE).stdout)
    step = told["steps"][0]
    if step["state"] != "succeeded":
        subprocess.run([*dlflow, "logs", name, "train"], cwd=folder, env=environment)
        raise SystemExit(f"error: {runtime}: {step['state']}: {step.get('reason')}")
    started, ended = (datetime.datetime.fromisoformat(step[name]) for name in ("started", "ended"))
    return step["metrics"]["images_per_s"], (ended - started).total_seconds()


def measure(folder, runtimes, model, rounds):
    """Of each runtime its pairs of images per second and seconds, one of each round."""
    found = {runtime: [] for runtime in runtimes}
    for number in range(rounds + 1):  # the first one unpacks the image
        for runtime in runtimes if number % 2 else reversed(runtimes):
            measured = run(folder, runtime, model, number)
            if number > 0:
                found[runtime].append(measured)
    return found


def show(model, found):
    for runtime, rounds in found.items():
        speed = statistics.median(one[0] for one in rounds)
        ratios = [one[0] / native[0] for one, native in zip(rounds, found["none"])]
        print(f"{model}, {runtime}: {speed:.0f} images/s, {statistics.median(ratios):.3f} of none ({min(ratios):.3f}-{max(ratios):.3f}), "
              f"job {statistics.median(one[1] for one in rounds):.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--models", default="lenet,resnet20")
    parser.add_argument("--runtimes", default=",".join(PROGRAMS))
    args = parser.parse_args()
    runtimes = list(NATIVE)
    for runtime in args.runtimes.split(","):
        if shutil.which(PROGRAMS[runtime]):
            runtimes.append(runtime)
        else:
            print(f"# {runtime} is left out: {PROGRAMS[runtime]} is not here")
    debian = peers.proven(installed=peers.INSTALLED[:1])
    if not debian:
        raise SystemExit("error: no ratio without a PyTorch at its best")
    with tempfile.TemporaryDirectory(prefix="dlflow-containers.") as name:
        folder = pathlib.Path(name)
        prepare(folder, runtimes, args.steps, debian[0].environment)
        for model in args.models.split(","):
            show(model, measure(folder, runtimes, model, args.rounds))


if __name__ == "__main__":
    main()
