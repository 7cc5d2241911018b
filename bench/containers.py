"""The cost of a container for a training: images per second of PyTorch on two ranks, without one and in each installed runtime.

    bench/containers.sh [--starts 6] [--turns 10] [--steps 10] [--models lenet,resnet20] [--runtimes udocker,charliecloud,podman,bubblewrap]

All trainings run through `dlflow run`, with the same script on the same PyTorch: Debian's packages, inside and outside of the image, with the
settings that peers.py finds. They run at the same time and take turns of a few steps each, so that a slower machine slows all of them.
The speed of each process depends on where its memory lies, so all are started several times in rotating order, and the median of the
starts counts.
`none-again`, a second run without a container, shows how far two measurements of the same thing differ.
"""

import argparse
import json
import os
import pathlib
import select
import shutil
import statistics
import subprocess
import tempfile
import time

import peers

ROOT = pathlib.Path(__file__).resolve().parents[1]
UDOCKER = ROOT / "build/tests/udocker/bin/udocker"
PROGRAMS = {"udocker": str(UDOCKER), "charliecloud": "ch-run", "podman": "podman", "bubblewrap": "bwrap"}
RANKS = 2
NATIVE = ("none", "none-again")
SETTINGS = {
    "udocker": f"{{runtime: udocker, mode: P1, command: [{UDOCKER}]}}",
    # As root, podman requests more than a machine may allow.
    "podman": "{runtime: podman, arguments: ['--ulimit=nofile=4096:4096', '--ulimit=nproc=4096:4096']}",
}

WORKFLOW = """\
name: containers
images: {{pytorch: {{from: "docker-archive:pytorch.tar"}}}}
steps:
  train:
    {image}
    run: [/usr/bin/python3, containers_rank.py, {model}, "{steps}", "{turns}"]
    inputs: [containers_rank.py, torch_networks.py, torch_peer.py]
    resources: {{ranks: {ranks}, memory: 2GiB}}
    env: {environment}
"""


class Contender:
    """A training that waits for its turns. It communicates through pipes, since polling would take time from the others."""

    def __init__(self, folder, cache, runtime):
        self.runtime = runtime
        self.speeds = []  # images per second of each turn
        turns = folder / f"turns-{runtime}"
        turns.mkdir()
        self.begins = [self.pipe(turns / f"begin-{rank}") for rank in range(RANKS)]
        self.says = self.pipe(turns / "says")
        started = time.monotonic()
        environment = os.environ | {"DLFLOW_HOME": str(folder / f"state-{runtime}"), "XDG_CACHE_HOME": str(cache)}
        self.run = subprocess.Popen([ROOT / "build/bin/dlflow", "run", f"{runtime}.yaml", "--profile", runtime], cwd=folder, env=environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.works = self.hear() is not None
        self.seconds_to_start = time.monotonic() - started

    @staticmethod
    def pipe(path):
        os.mkfifo(path)
        return open(os.open(path, os.O_RDWR), "r+b", buffering=0)  # so that opening does not wait for the other end

    def hear(self):
        """The next line that the training writes; None if it has ended."""
        while not select.select([self.says], [], [], 1)[0]:
            if self.run.poll() is not None:
                print(f"# {self.runtime} is left out:\n{self.run.stdout.read()}", flush=True)
                return None
        return self.says.readline()

    def take_turn(self):
        self.tell(b"begin\n")
        speed = self.hear()
        if speed is None:
            raise SystemExit(f"error: {self.runtime} did not end its turn")
        self.speeds.append(float(speed))

    def tell(self, line):
        for begin in self.begins:
            begin.write(line)

    def stop(self):
        self.tell(b"stop\n")
        self.run.communicate()


def prepare(folder, runtimes, model, steps, environment):
    """A workflow and a profile for each of `runtimes`."""
    for name in ("containers_rank.py", "torch_networks.py", "torch_peer.py"):
        shutil.copy(ROOT / "bench" / name, folder)
    (folder / "cluster-profiles").mkdir()
    outside = {"PYTHONPATH": str(ROOT / "build/python")}
    for runtime in runtimes:
        is_native = runtime in NATIVE
        settings = "{runtime: none}" if is_native else SETTINGS.get(runtime, f"{{runtime: {runtime}}}")
        (folder / f"cluster-profiles/{runtime}.yaml").write_text(f"scheduler: local\ncontainer: {settings}\n")
        (folder / f"{runtime}.yaml").write_text(WORKFLOW.format(
            model=model, ranks=RANKS, steps=steps, turns=folder / f"turns-{runtime}", image="" if is_native else "image: pytorch",
            environment=json.dumps(environment | (outside if is_native else {}))))


def measure(folder, runtimes, model, args, environment):
    prepare(folder, runtimes, model, args.steps, environment)
    # One after the other: the first one unpacks the image.
    contenders = [one for one in [Contender(folder, folder.parent / "cache", runtime) for runtime in runtimes] if one.works]
    for number in range(args.turns):
        for contender in contenders if number % 2 else reversed(contenders):
            contender.take_turn()
    for contender in contenders:
        contender.stop()
    return contenders


def ratio_to_native(contender, contenders):
    native, = (one for one in contenders if one.runtime == NATIVE[0])
    return statistics.median(one / other for one, other in zip(contender.speeds, native.speeds))


def show(model, runtimes, starts):
    for runtime in runtimes:
        found = [(one, ratio_to_native(one, contenders)) for contenders in starts for one in contenders if one.runtime == runtime]
        if not found:
            continue
        ratios = sorted(ratio for _, ratio in found)
        speed = statistics.median(speed for one, _ in found for speed in one.speeds)
        seconds = statistics.median(one.seconds_to_start for one, _ in found)
        print(f"{model}, {runtime}: {speed:.0f} images/s, {statistics.median(ratios):.3f} of none "
              f"({ratios[0]:.3f}-{ratios[-1]:.3f} in {len(ratios)} starts), {seconds:.1f} s to the first step", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10)
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
    wheel, = (ROOT / "build").glob("dlflow-*.whl")
    with tempfile.TemporaryDirectory(prefix="dlflow-containers.") as name:
        image = pathlib.Path(name) / "pytorch.tar"
        subprocess.run([ROOT / "workflows/image.py", "--package", "python3-torch", "--wheel", wheel, "-o", image], check=True)
        for model in args.models.split(","):
            starts = []
            for number in range(args.starts):
                folder = pathlib.Path(name) / f"{model}-{number}"
                folder.mkdir()
                os.link(image, folder / "pytorch.tar")
                first = number % len(runtimes)
                starts.append(measure(folder, runtimes[first:] + runtimes[:first], model, args, debian[0].training_environment))
            show(model, runtimes, starts)


if __name__ == "__main__":
    main()
