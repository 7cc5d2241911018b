"""Bare sbatch against `dlflow run`: usage: slurm.py [STEPS [ELEMENTS [HOPS]]]"""

import os
import pathlib
import sys
import tempfile
import time

import cluster

ALPHA = cluster.Cluster("alpha")


class Folder:
    """A folder of the cluster's user, with a dlflow that knows nothing yet."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="bench.", dir=ALPHA.home))
        owner = ALPHA.home.stat()
        os.chown(self.path, owner.st_uid, owner.st_gid)
        (self.path / "cluster-profiles").symlink_to(cluster.STAGED / "cluster-profiles")
        self.env = {"DLFLOW_HOME": self.path / "state", "XDG_CACHE_HOME": self.path / "cache"}

    def dlflow(self, *arguments):
        return ALPHA.run([cluster.STAGED / "bin/dlflow", *arguments], cwd=self.path, env=self.env, timeout=600).stdout

    def submit(self, text):
        """Seconds until `dlflow run` has returned."""
        (self.path / "w.yaml").write_text(text)
        began = time.monotonic()
        self.dlflow("run", "w.yaml", "--profile", "alpha", "--quiet")
        return time.monotonic() - began

    def sbatch(self, script):
        """Seconds of a shell script of sbatch calls."""
        began = time.monotonic()
        ALPHA.run(["sh", "-c", script], cwd=self.path, timeout=600)
        return time.monotonic() - began


def drain(nodes=2):
    """Nothing starts meanwhile, so that submission alone is measured."""
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
    bare = Folder().sbatch(f"for i in $(seq {steps}); do sbatch --parsable --wrap true >/dev/null; done")
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
        folder.sbatch(script + "while squeue -h --me | grep -q .; do sleep 0.1; done")
        return time.monotonic() - began

    def ours():
        text = "name: chain\nsteps:\n" + "".join(
            f"  s{i}: {{run: [sleep, '1']" + (f", needs: [s{i - 1}]}}\n" if i else "}\n") for i in range(hops))
        began = time.monotonic()
        Folder().submit(text)
        Folder().sbatch("while squeue -h --me | grep -q .; do sleep 0.1; done")
        return time.monotonic() - began
    peer, mine = bare(), ours()
    print(f"a chain of {hops} x 1 s         bare {peer:6.1f} s    ours {mine:6.1f} s    ratio {peer / mine:.2f}")


def main():
    steps, elements, hops = [int(value) for value in sys.argv[1:]] + [1000, 10000, 6][len(sys.argv) - 1:]
    drain()
    submission(steps)
    array(elements)
    resume()
    chain(hops)


main()
