"""HyperQueue, and perhaps an earlier dlflow, against `dlflow run`"""

import argparse
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

CORES = 2


def exec_rate(programs=2000):
    """Starts of /bin/true per second by CORES processes that do nothing else."""
    loop = ("import os\n"
            f"for _ in range({programs // CORES}):\n"
            "    os.waitpid(os.posix_spawn('/bin/true', ['/bin/true'], {}), 0)\n")
    began = time.monotonic()
    workers = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(CORES)]
    for worker in workers:
        worker.wait()
    return programs / (time.monotonic() - began)


class HyperQueue:
    """The faster of its two usual settings: an output file for each task, which is its default, or none."""

    OUTPUTS = ({}, {"stdout": None, "stderr": None})

    def __init__(self, client):
        self.client = client

    def wide(self, steps):
        return min(self.seconds(steps, False, outputs) for outputs in self.OUTPUTS)

    def chain(self, hops):
        return min(self.seconds(hops, True, outputs) for outputs in self.OUTPUTS)

    def seconds(self, steps, chained, outputs):
        job = Job(default_workdir=tempfile.mkdtemp())
        task = None
        for _ in range(steps):
            task = job.program(["/bin/true"], deps=[task] if chained and task else [], **outputs)
        began = time.monotonic()
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            self.client.wait_for_jobs([self.client.submit(job)])
        return time.monotonic() - began


class Dlflow:
    """Each call has new steps, since equal ones would be reused instead of run."""

    def __init__(self, program, place=None):
        self.program = pathlib.Path(program).resolve()
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=place))
        self.env = {**os.environ, "DLFLOW_HOME": str(self.folder / "state"), "XDG_CACHE_HOME": str(self.folder / "cache")}
        self.calls = 0

    def wide(self, steps):
        elements = ", ".join(map(str, range(steps)))
        return self.seconds(f"  step:\n    run: [/bin/true, {self.calls}]\n    matrix:\n      n: [{elements}]\n")

    def chain(self, hops):
        lines = [f"  s{hop}: {{run: [/bin/true, {self.calls}, '{hop}']" +
                 (f", needs: [s{hop - 1}]}}\n" if hop else "}\n") for hop in range(hops)]
        return self.seconds("".join(lines))

    def seconds(self, steps):
        self.calls += 1
        (self.folder / "w.yaml").write_text(f"name: bench{self.calls}\nsteps:\n{steps}")
        began = time.monotonic()
        subprocess.run([self.program, "run", "w.yaml", "--quiet"], cwd=self.folder, env=self.env, check=True,
                       stdout=subprocess.DEVNULL)
        return time.monotonic() - began


@contextlib.contextmanager
def journalled_disk():
    """A folder on an ext4 with a journal in a file, the file system of most users; None if it cannot be mounted."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4", path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
        print("ext4 with a journal: left out, it takes root and mkfs.ext4")
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        image, place = pathlib.Path(folder, "image"), pathlib.Path(folder, "disk")
        place.mkdir()
        with open(image, "wb") as file:
            file.truncate(8 << 30)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        if subprocess.run(["mount", "-o", "loop", image, place], check=False).returncode != 0:
            print("ext4 with a journal: left out, this machine mounts no files")
            yield None
            return
        try:
            yield place
        finally:
            subprocess.run(["umount", place], check=True)


def compare_disks(program, steps, rounds):
    """Our steps per second with the state on a disk and with it in memory (tmpfs), turn by turn."""
    with journalled_disk() as journalled:
        places = {"the disk of TMPDIR": None} | ({"ext4 with a journal": journalled} if journalled else {})
        in_memory = Dlflow(program, "/dev/shm")
        disks = {name: Dlflow(program, place) for name, place in places.items()}
        try:
            figures = {name: [] for name in disks}
            for _ in range(rounds):
                for name, disk in disks.items():
                    figures[name].append((steps / in_memory.wide(steps), steps / disk.wide(steps)))
            for name, pairs in figures.items():
                memory, disk = (statistics.median(column) for column in zip(*pairs))
                ratios = sorted(ours / peer for peer, ours in pairs)
                print(f"{name:24} tmpfs {memory:6.1f} /s      disk {disk:7.1f} /s      "
                      f"ratio {statistics.median(ratios):5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
        finally:
            shutil.rmtree(in_memory.folder)


def report(what, unit, peer, ours, higher_is_better):
    ratio = ours / peer if higher_is_better else peer / ours
    print(f"{what:30} peer {peer:7.1f} {unit:7} ours {ours:7.1f} {unit:7} ratio {ratio:5.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--earlier", metavar="DLFLOW", help="a second peer")
    parser.add_argument("program", metavar="DLFLOW")
    parser.add_argument("steps", type=int, nargs="?", default=3000)
    parser.add_argument("hops", type=int, nargs="?", default=300)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    options = parser.parse_intermixed_args()
    steps, hops = options.steps, options.hops
    print(f"the bare loop starts /bin/true {exec_rate():.0f} times a second")
    with LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=CORES))
        peers = {"": HyperQueue(cluster.client())} | ({" (earlier)": Dlflow(options.earlier)} if options.earlier else {})
        ours = Dlflow(options.program)
        figures = {}
        for _ in range(options.rounds):
            wide, chain = steps / ours.wide(steps), ours.chain(hops) / hops * 1e3
            for name, peer in peers.items():
                for what, unit, theirs, own in ((f"{steps} steps", "/s", steps / peer.wide(steps), wide),
                                                (f"chain of {hops}", "ms/hop", peer.chain(hops) / hops * 1e3, chain)):
                    report(what + name, unit, theirs, own, unit == "/s")
                    figures.setdefault((what + name, unit), []).append((theirs, own))
    for (what, unit), pairs in figures.items():
        report("median: " + what, unit, *(statistics.median(column) for column in zip(*pairs)), unit == "/s")
    compare_disks(options.program, steps, options.rounds)


main()
