"""Bare sbatch against `dlflow run`: usage: slurm.py [STEPS [ELEMENTS [HOPS]]] | slurm.py pack"""

import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import cluster

ALPHA = cluster.Cluster("alpha")
STAGED_DLFLOW = cluster.STAGED / "bin/dlflow"


class Folder:
    """A folder of the cluster's user, with an empty state of dlflow."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="bench.", dir=ALPHA.home))
        owner = ALPHA.home.stat()
        os.chown(self.path, owner.st_uid, owner.st_gid)
        (self.path / "cluster-profiles").symlink_to(cluster.STAGED / "cluster-profiles")
        self.env = {"DLFLOW_HOME": self.path / "state", "XDG_CACHE_HOME": self.path / "cache"}

    def dlflow(self, *arguments):
        return ALPHA.run([STAGED_DLFLOW, *arguments], cwd=self.path, env=self.env, timeout=600).stdout

    def submit(self, text):
        """Seconds until `dlflow run` has returned."""
        (self.path / "w.yaml").write_text(text)
        began = time.monotonic()
        self.dlflow("run", "w.yaml", "--profile", "alpha", "--quiet")
        return time.monotonic() - began

    def shell(self, script, **variables):
        """Seconds that a shell script takes, such as one of sbatch calls."""
        began = time.monotonic()
        ALPHA.run(["sh", "-c", script], cwd=self.path, env=variables, timeout=600)
        return time.monotonic() - began


def drain(nodes=2):
    """Drains the nodes, so that no job starts and only submission is measured."""
    names = ",".join(ALPHA.node(number + 1) for number in range(nodes))
    conf = {**os.environ, "SLURM_CONF": str(ALPHA.conf)}
    cluster.subprocess.run(["scontrol", "update", f"nodename={names}", "state=drain", "reason=bench"], env=conf, check=True)


def resume(nodes=2):
    names = ",".join(ALPHA.node(number + 1) for number in range(nodes))
    conf = {**os.environ, "SLURM_CONF": str(ALPHA.conf)}
    cluster.subprocess.run(["scontrol", "update", f"nodename={names}", "state=resume"], env=conf, check=True)


def clean():
    ALPHA.run(["scancel", "--me"])
    cluster.wait_until(lambda: {state for state, _ in ALPHA.jobs().values()} <= cluster.ENDED, 120, "an idle cluster")


def submission(steps):
    bare = Folder().shell(f"for i in $(seq {steps}); do sbatch --parsable --wrap true >/dev/null; done")
    clean()
    ours = Folder().submit("name: many\nsteps:\n" + "".join(f"  s{i}: {{run: ['true', '{i}']}}\n" for i in range(steps)))
    clean()
    print(f"{steps} steps               bare {steps / bare:6.0f} /s   ours {steps / ours:6.0f} /s   ratio {bare / ours:.2f}")


def array(elements):
    values = ", ".join(map(str, range(elements)))
    folder = Folder()
    seconds = folder.submit(f"name: sweep\nsteps:\n  s:\n    run: ['true']\n    matrix:\n      n: [{values}]\n")
    began = time.monotonic()
    folder.dlflow("status", "sweep", "--json")
    print(f"a matrix of {elements}    submitted in {seconds:.2f} s; status in {time.monotonic() - began:.2f} s")
    clean()


def chain(hops):
    def bare():
        folder = Folder()
        script = "id=; " + f"for i in $(seq {hops}); do id=$(sbatch --parsable ${{id:+-d afterok:$id}} --wrap 'sleep 1'); done; "
        began = time.monotonic()
        folder.shell(script + "while squeue -h --me | grep -q .; do sleep 0.1; done")
        return time.monotonic() - began

    def ours():
        text = "name: chain\nsteps:\n" + "".join(
            f"  s{i}: {{run: [sleep, '1']" + (f", needs: [s{i - 1}]}}\n" if i else "}\n") for i in range(hops))
        began = time.monotonic()
        Folder().submit(text)
        Folder().shell("while squeue -h --me | grep -q .; do sleep 0.1; done")
        return time.monotonic() - began
    peer, mine = bare(), ours()
    print(f"a chain of {hops} x 1 s         bare {peer:6.1f} s    ours {mine:6.1f} s    ratio {peer / mine:.2f}", flush=True)
    other = snakemake(hops)
    print(f"  the same by Snakemake {other:6.1f} s    ratio {other / mine:.1f}", flush=True)


def packed(elements=200, rounds=3):
    """Seconds of short elements from end to end, by the number of elements that share a job."""
    def run(pack):
        folder = Folder()
        began = time.monotonic()
        folder.submit("name: short\nsteps:\n  s:\n    run: ['true']\n    resources: {walltime: 1m, memory: 50MiB}\n"
                      f"    matrix: {{n: {list(range(elements))}, pack: {pack}}}\n")
        folder.shell("while squeue -h --me | grep -q .; do sleep 0.1; done")
        seconds = time.monotonic() - began
        assert json.loads(folder.dlflow("status", "short", "--json"))["state"] == "succeeded"
        return seconds
    turns = [(run(1), run(20)) for _ in range(rounds)]  # turn by turn
    for pack, seconds in ((1, [turn[0] for turn in turns]), (20, [turn[1] for turn in turns])):
        middle = statistics.median(seconds)
        print(f"{elements} elements, pack {pack:2}  {middle:6.1f} s ({min(seconds):.1f} to {max(seconds):.1f})   {elements / middle:5.1f} /s",
              flush=True)


def snakemake(hops):
    """Seconds of the same chain by Snakemake and its executor for SLURM, which looks for ended jobs after 5 s instead of 40 s, as its
    documentation advises for short jobs."""
    folder = Folder()
    rules = "".join(f"rule s{i}:\n" + (f"    input: 's{i - 1}.done'\n" if i else "") +
                    f"    output: 's{i}.done'\n    shell: 'sleep 1; touch {{output}}'\n" for i in range(hops))
    (folder.path / "Snakefile").write_text(f"rule all:\n    input: 's{hops - 1}.done'\n{rules}")
    # Its jobs lose SLURM_CONF, without which only a cluster configured in /etc/slurm is found.
    srun = folder.path / "bin/srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={ALPHA.conf} exec /usr/bin/srun "$@"\n')
    srun.chmod(0o755)
    program = pathlib.Path(os.environ["DLFLOW_SNAKEMAKE"], "bin/python3")
    return folder.shell(f"{program} -m snakemake --executor slurm --jobs {hops} --default-resources "
                        "slurm_partition=batch slurm_account=root runtime=5 mem_mb=100 --slurm-init-seconds-before-status-checks 5",
                        XDG_CACHE_HOME=folder.path / "cache", PATH=f"{srun.parent}:{os.environ['PATH']}")


def supervisor(jobs=20):
    """Measures `dlflow job-exec`, run by hand: time until its program starts, memory, and wake-ups while the program runs."""
    folder = Folder()
    folder.submit("name: start\nsteps:\n" +
                  "".join(f"  s{i}: {{run: 'date +%s%N > {folder.path}/s{i}'}}\n" for i in range(jobs)) +
                  f"  last: {{run: 'echo $PPID > {folder.path}/pid; sleep 3'}}\n")
    batches = next(folder.path.rglob("batches/*.jsonl"))

    def start(number):
        return ALPHA.start([STAGED_DLFLOW, "job-exec", batches, number, 0], cwd=folder.path,
                           env={**folder.env, "SLURM_JOB_ID": f"by-hand-{number}"})

    def milliseconds(number):
        began = time.time_ns()
        start(number + 1).communicate()
        return (int((folder.path / f"s{number}").read_text()) - began) / 1e6

    def bare():
        began = time.time_ns()
        return (int(ALPHA.run(["sh", "-c", "date +%s%N"]).stdout) - began) / 1e6
    start_up = statistics.median(milliseconds(number) - bare() for number in range(jobs))
    last = start(jobs + 1)
    pid = cluster.wait_until(lambda: (folder.path / "pid").exists() and (folder.path / "pid").read_text().strip(), 10, "pid")

    def fields(name):
        return dict(line.split(":", 1) for line in pathlib.Path("/proc", pid, name).read_text().splitlines()[1:])
    before = int(fields("status")["voluntary_ctxt_switches"])
    time.sleep(2)
    wakes = int(fields("status")["voluntary_ctxt_switches"]) - before
    peak, pss = (int(fields(file)[key].split()[0]) / 1e3 for file, key in (("status", "VmHWM"), ("smaps_rollup", "Pss")))
    last.communicate()
    clean()
    print(f"the supervisor          starts a program in {start_up:.1f} ms; peak {peak:.1f} MB, PSS {pss:.1f} MB; "
          f"wakes in 2 s: {wakes}", flush=True)


def main():
    if sys.argv[1:] == ["pack"]:
        return packed()
    steps, elements, hops = [int(value) for value in sys.argv[1:]] + [1000, 10000, 6][len(sys.argv) - 1:]
    drain()
    submission(steps)
    array(elements)
    supervisor()
    resume()
    chain(hops)


main()
