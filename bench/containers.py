"""What a container costs a training: images per second of PyTorch on two ranks, without one and in each runtime that is here, taking turns.

    bench/containers.py [--rounds 3] [--models lenet] [--runtimes udocker,charliecloud,podman,bubblewrap]

All run through `dlflow run`, the same script on the same PyTorch: Debian's packages, in the image and outside of it. The time is that of the
steps of training alone, behind a warm-up; `job` is the whole job with its container's start.
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

ROOT = pathlib.Path(__file__).resolve().parents[1]
UDOCKER = ROOT / "build/tests/udocker/bin/udocker"
PROFILES = {
    "none": "{runtime: none}",
    "udocker": f"{{runtime: udocker, mode: P1, command: [{UDOCKER}]}}",
    "charliecloud": "{runtime: charliecloud}",
    "podman": "{runtime: podman}",
    "bubblewrap": "{runtime: bubblewrap}",
}
PROGRAMS = {"udocker": str(UDOCKER), "charliecloud": "ch-run", "podman": "podman", "bubblewrap": "bwrap"}

WORKFLOW = """\
name: containers
params: {{model: lenet, round: 0, steps: 30}}
images: {{pytorch: {{from: "docker-archive:pytorch.tar"}}}}
steps:
  train:
    {image}
    run: [/usr/bin/python3, containers_rank.py, "${{{{ params.model }}}}", "${{{{ params.steps }}}}", "{runtime}-${{{{ params.round }}}}"]
    inputs: [containers_rank.py, torch_networks.py, torch_peer.py]
    resources: {{ranks: 2, memory: 2GiB}}
    env: {{OPENBLAS_CORETYPE: "{core_type}"{path}}}
"""


def prepare(folder):
    wheel, = (ROOT / "build").glob("dlflow-*.whl")
    subprocess.run([ROOT / "workflows/image.py", "--package", "python3-torch", "--wheel", wheel, "-o", folder / "pytorch.tar"], check=True)
    for name in ("containers_rank.py", "torch_networks.py", "torch_peer.py"):
        shutil.copy(ROOT / "bench" / name, folder)
    (folder / "cluster-profiles").mkdir()
    outside = f", PYTHONPATH: {ROOT / 'build/python'}"
    core_type = os.environ.get("OPENBLAS_CORETYPE", "")
    for runtime, settings in PROFILES.items():
        (folder / f"cluster-profiles/{runtime}.yaml").write_text(f"scheduler: local\ncontainer: {settings}\n")
        here = runtime == "none"
        (folder / f"{runtime}.yaml").write_text(WORKFLOW.format(runtime=runtime, image="" if here else "image: pytorch", core_type=core_type, path=outside if here else ""))


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default="lenet")
    parser.add_argument("--runtimes", default=",".join(PROGRAMS))
    args = parser.parse_args()
    runtimes = ["none"]
    for runtime in args.runtimes.split(","):
        if shutil.which(PROGRAMS[runtime]):
            runtimes.append(runtime)
        else:
            print(f"# {runtime} is left out: {PROGRAMS[runtime]} is not here")
    with tempfile.TemporaryDirectory(prefix="dlflow-containers.") as name:
        folder = pathlib.Path(name)
        prepare(folder)
        for model in args.models.split(","):
            found = {runtime: [] for runtime in runtimes}
            for number in range(args.rounds + 1):  # the first one unpacks the image
                for runtime, rounds in found.items():
                    measured = run(folder, runtime, model, number)
                    if number > 0:
                        rounds.append(measured)
            for runtime, rounds in found.items():
                speed = statistics.median(one[0] for one in rounds)
                ratios = [one[0] / native[0] for one, native in zip(rounds, found["none"])]
                print(f"{model}, {runtime}: {speed:.0f} images/s, {statistics.median(ratios):.3f} of none ({min(ratios):.3f}-{max(ratios):.3f}), "
                      f"job {statistics.median(one[1] for one in rounds):.1f} s", flush=True)


if __name__ == "__main__":
    main()
