"""Shared code of the tests of chains on a real SLURM."""

import json
import textwrap

import cluster
from cluster import STAGED, wait_until


class Chain(cluster.Case):
    """Runs dlflow in a folder on the first of the test's clusters; `profile` is that cluster's."""

    profile = "alpha"

    def setUp(self):
        super().setUp()
        self.env = {"DLFLOW_HOME": self.folder / "state", "XDG_CACHE_HOME": self.folder / "cache"}
        (self.folder / "cluster-profiles").symlink_to(STAGED / "cluster-profiles")

    def write(self, name, text):
        (self.folder / name).write_text(textwrap.dedent(text))

    def write_steps(self, name, steps):
        """Writes the workflow `name` with these steps to w.yaml."""
        self.write("w.yaml", f"name: {name}\nsteps:" + textwrap.indent(textwrap.dedent(steps), "  "))

    def dlflow(self, *arguments, status=0, timeout=60, on=None, env=None):
        return (on or self.clusters[0]).run([STAGED / "bin/dlflow", *arguments], cwd=self.folder, timeout=timeout,
                                             env={**self.env, **(env or {})}, status=status)

    def submit(self, *arguments, profile=None, **options):
        """Submits w.yaml; returns the name of the run."""
        out = self.dlflow("run", "w.yaml", "--profile", profile or self.profile, "--json", *arguments, **options).stdout
        return json.loads(out.splitlines()[-1])["run"]

    def status(self, run):
        return json.loads(self.dlflow("status", run, "--json").stdout)

    def states(self, run):
        return {step["name"] + (f"[{step['element']}]" if step["element"] else ""): step["state"]
                for step in self.status(run)["steps"]}

    def wait_for(self, run, states, timeout=60):
        """Waits until the jobs of `run` are in these states."""
        seen = {}

        def arrived():
            nonlocal seen
            seen = self.states(run)
            return all(seen[job] == state for job, state in states.items())
        try:
            wait_until(arrived, timeout, f"{run} to be {states}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.dlflow('status', run).stdout}") from None

    def trace(self):
        file = self.folder / "trace"
        return file.read_text().split() if file.exists() else []

    def step(self, name, extra=""):
        return f"{{run: 'echo {name} >> {self.folder}/trace'{extra}}}"

    def ids(self, run):
        return {step["name"] + (f"[{step['element']}]" if step["element"] else ""): step["backend_id"]
                for step in self.status(run)["steps"]}

    def counting(self, to, extra):
        """A step that counts every tenth of a second, and resumes from its checkpoint."""
        self.write_steps("count", f"""
            count:
              {extra}
              run: |
                state=$DLFLOW_CHECKPOINTS/n
                n=$(cat $state 2>/dev/null || echo 0)
                trap 'wc -l < {self.folder}/trace > $state; exit 75' TERM USR1
                while [ $n -lt {to} ]; do n=$((n + 1)); echo $n >> {self.folder}/trace; sleep 0.1; done
            after: {self.step("after", ", needs: [count]")}
        """)
