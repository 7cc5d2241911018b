"""A chain of SLURM jobs: submitted as a whole, without a process of ours that stays."""

import json
import os
import textwrap

import cluster
from cluster import STAGED, wait_until


class Chain(cluster.Case):
    def setUp(self):
        super().setUp()
        self.env = {"DLFLOW_HOME": self.folder / "state", "XDG_CACHE_HOME": self.folder / "cache"}
        (self.folder / "cluster-profiles").symlink_to(STAGED / "cluster-profiles")

    def write(self, name, text):
        (self.folder / name).write_text(textwrap.dedent(text))

    def dlflow(self, *arguments, status=0, timeout=60, on=None, env=None):
        return (on or self.alpha).run([STAGED / "bin/dlflow", *arguments], cwd=self.folder, timeout=timeout,
                                      env={**self.env, **(env or {})}, status=status)

    def submit(self, *arguments, profile="alpha", **options):
        """The name of the run."""
        out = self.dlflow("run", "w.yaml", "--profile", profile, "--json", *arguments, **options).stdout
        return json.loads(out.splitlines()[-1])["run"]

    def status(self, run):
        return json.loads(self.dlflow("status", run, "--json").stdout)

    def states(self, run):
        return {step["name"] + (f"[{step['element']}]" if step["element"] else ""): step["state"]
                for step in self.status(run)["steps"]}

    def wait_for(self, run, states, timeout=60):
        """Until the jobs of `run` are in these states."""
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

    def test_a_diamond_runs_in_order_and_nothing_of_ours_stays(self):
        self.write("w.yaml", f"""
            name: diamond
            steps:
              a: {self.step("a")}
              b: {self.step("b", ", needs: [a]")}
              c: {self.step("c", ", needs: [a]")}
              d: {self.step("d", ", needs: [b, c]")}
        """)
        run = self.submit()
        self.wait_for(run, dict.fromkeys("abcd", "succeeded"))
        self.assertEqual((self.trace()[0], sorted(self.trace()), self.trace()[3]), ("a", list("abcd"), "d"))
        self.assertEqual(self.status(run)["state"], "succeeded")


if __name__ == "__main__":
    cluster.main()
