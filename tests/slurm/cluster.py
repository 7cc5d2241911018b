"""Shared code of the tests on a real SLURM: the clusters alpha, beta and gamma, used by an ordinary user and broken by root.

A test program runs as root; the tested programs run as the clusters' user `dlflow`, through `run` and `start`. If the
clusters could not be started, importing this module ends the program as skipped, with the reason.
"""

import os
import pathlib
import subprocess
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402, F401: the tests import it from here
from real_cluster import ClusterCase, RealCluster, root_of, wait_until  # noqa: E402, F401: the same

SLURM_CLUSTER = pathlib.Path(__file__).resolve().parents[1] / "cluster/slurm-cluster"
BUILD = pathlib.Path(os.environ["DLFLOW_BUILD"])
ENDED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
ROOT = root_of("slurm")
STAGED = ROOT / "dlflow"  # bin/, workflows/, cluster-profiles/


class Cluster(RealCluster):
    """A cluster by its name, as its user `dlflow` or `guest`; `home` is that user's folder on the file system that all nodes share."""

    def __init__(self, name, user="dlflow"):
        self.name = name
        self.user = user
        self.conf = ROOT / name / "slurm.conf"
        self.home = ROOT / name / ("home" if user == "dlflow" else user)

    def node(self, number):
        return f"{self.name}-n{number}"

    # -- commands of its user

    def start(self, argv, cwd=None, env=None, **options):
        """Starts a process of the cluster's user, whose environment is only `env` and the variables of a login."""
        variables = [f"{key}={value}" for key, value in (env or {}).items()]
        verb = "as-user" if self.user == "dlflow" else f"as-{self.user}"
        return subprocess.Popen([SLURM_CLUSTER, verb, self.name, "--root", ROOT, "env", *variables, *map(str, argv)],
                                cwd=cwd or self.home, text=True, stdin=subprocess.DEVNULL, start_new_session=True,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})

    def sbatch(self, script, *options, cwd=None):
        """Submits the lines of `script`; returns the job's id."""
        return self.run(["sbatch", "--parsable", *options, "--wrap", textwrap.dedent(script)], cwd).stdout.strip()

    def jobs(self, *ids):
        """id -> (state, reason) of the user's jobs that the controller still has, with each array task separately."""
        out = self.run(["squeue", "--me", "--noheader", "--array", "--states=all", "--format=%i|%T|%r"]).stdout
        jobs = {id: (state, reason) for id, state, reason in (line.split("|") for line in out.splitlines())}
        return {id: jobs.get(id, ("GONE", "")) for id in ids} if ids else jobs

    def state(self, id):
        return self.jobs(id)[id][0]

    def wait_for_state(self, id, *states, timeout=30):
        """Waits for one of `states` and returns it; a job that ends otherwise fails at once."""
        def arrived():
            state = self.state(id)
            if state in ENDED - set(states):
                raise AssertionError(f"job {id} is {state}, not {' or '.join(states)}")
            return state in states and state
        return wait_until(arrived, timeout, f"job {id} on {self.name} to be {' or '.join(states)}")

    # -- faults

    def operate(self, verb, *arguments):
        subprocess.run([SLURM_CLUSTER, verb, self.name, "--root", ROOT, *map(str, arguments)], check=True, timeout=120)

    def kill_node(self, number, *how):
        """Cuts the node's power; SLURM notices some 3 s later, or 10 to 20 s later if it is "silent"."""
        self.operate("kill-node", number, *how)

    def start_node(self, number):
        """Returns once the node accepts jobs again."""
        self.operate("start-node", number)

    def stop_controller(self):
        self.operate("stop-controller")

    def start_controller(self):
        self.operate("start-controller")


class Case(ClusterCase):
    alpha = Cluster("alpha")
    beta = Cluster("beta")
    gamma = Cluster("gamma")
    clusters = (alpha, beta)  # reserved for the test

    def cancel_all(self):
        for cluster in self.clusters:
            cluster.run(["scancel", "--me"])
            wait_until(lambda: {state for state, _ in cluster.jobs().values()} <= ENDED, 30, f"{cluster.name} to be idle")
