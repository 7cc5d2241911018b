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


class SharedChains:
    """Tests of chains on any batch system; `most_counted` is the largest number that a step may reach before its cancellation arrives."""

    most_counted = 100
    by_hand = None  # the command that ends a job without dlflow

    # Hooks for details of a single batch system.

    def check_requeued(self, job):
        pass

    def check_ended_by_hand(self, run):
        pass

    def until_nothing_is_left(self):
        pass

    def broken_chain(self):
        """The second element of `train` fails until the file `mended` exists."""
        self.write_steps("repair", f"""
            data: {self.step("data")}
            train:
              run: '[ $DLFLOW_MATRIX_N != 1 ] || [ -e {self.folder}/mended ]; echo $DLFLOW_MATRIX_N >> {self.folder}/trace'
              needs: [data]
              matrix: {{n: [0, 1]}}
            eval: {self.step("eval$DLFLOW_MATRIX_N", ", matrix: {n: [0, 1]}, needs: [train]")}
            best: {self.step("best", ", needs: [eval]")}
        """)
        run = self.submit()
        self.wait_for(run, {"train[n=1]": "failed", "eval[n=0]": "succeeded", "eval[n=1]": "blocked", "best": "blocked"})
        self.assertEqual(self.status(run)["state"], "failed")
        return run

    def test_a_limit_on_simultaneous_jobs_holds_over_all_arrays_of_a_step(self):
        self.write_steps("places", f"""
            many:
              matrix: {{n: [1, 2], m: [0, 1], max_parallel: 1}}
              resources: {{cpus_per_rank: '${{{{ matrix.n }}}}'}}
              run: 'mkdir {self.folder}/alone && sleep 0.5 && rmdir {self.folder}/alone'
        """)
        run = self.submit()
        jobs = list(self.ids(run))
        self.assertEqual(len({id.split("_")[0] for id in self.ids(run).values()}), 2)
        self.wait_for(run, {job: "succeeded" for job in jobs}, timeout=90)

    def test_the_walltime_requeues_the_same_job_and_dependents_keep_waiting(self):
        self.counting(50, "checkpoint: {}\n              resources: {walltime: 4s}")
        run = self.submit()
        before = self.ids(run)
        self.wait_for(run, {"after": "succeeded"}, timeout=120)
        self.assertEqual(self.trace(), [str(n) for n in range(1, 51)] + ["after"])
        self.assertEqual(self.ids(run), before)
        self.check_requeued(before["count"])

    def test_retries_happen_in_the_job_and_are_bounded(self):
        self.write_steps("retry", f"""
            flaky:
              run: 'echo try >> {self.folder}/trace; [ $(wc -l < {self.folder}/trace) -ge 2 ]'
              retry: {{attempts: 3, on: [failure]}}
            hopeless: {{run: 'echo x >> {self.folder}/hopeless; exit 4', retry: {{attempts: 2, on: [failure]}}}}
            after: {{run: 'true', needs: [flaky]}}
        """)
        run = self.submit()
        self.wait_for(run, {"after": "succeeded", "hopeless": "failed"}, timeout=60)
        self.assertEqual(self.trace(), ["try", "try"])
        self.assertEqual((self.folder / "hopeless").read_text().split(), ["x", "x"])

    def test_cancel_removes_waiting_jobs_and_lets_running_jobs_save(self):
        self.counting(400, "checkpoint: {}")
        run = self.submit()
        wait_until(lambda: len(self.trace()) > 3, 20, "the step to count")
        self.assertIn("running", self.dlflow("status", run).stdout)
        self.dlflow("cancel", run)
        self.wait_for(run, {"count": "cancelled", "after": "cancelled"})
        self.until_nothing_is_left()
        counted = len(self.trace())
        self.assertLess(counted, self.most_counted)
        self.dlflow("run", "--resume", run)
        wait_until(lambda: len(self.trace()) > counted + 3, 30, "the step to go on")
        self.assertEqual(self.trace(), [str(n + 1) for n in range(len(self.trace()))])
        self.dlflow("cancel", run)

    def test_each_step_runs_once_after_a_kill_anywhere_in_a_submission(self):
        """The runs of all points at once: what they wait for most is SLURM."""
        runs = {}
        for point in ["intents:1"] + [f"{point}:{n}" for point in ("submit", "accepted", "recorded") for n in (1, 2, 3)]:
            trace = f">> {self.folder}/trace-{point}"
            self.write_steps("crash", f"""
                a: {{run: 'echo a {trace}'}}
                b: {{run: 'echo b-$DLFLOW_MATRIX_N {trace}', needs: [a], matrix: {{n: [0, 1]}}}}
                c: {{run: 'echo c {trace}', needs: [b]}}
            """)
            self.dlflow("run", "w.yaml", "--profile", self.profile, env={"DLFLOW_CRASH_AT": point}, status=-9)
            run = json.loads(self.dlflow("status", "--quick", "--json").stdout)[0]["run"]
            self.dlflow("run", "--resume", run)
            runs[point] = run
        for point, run in runs.items():
            with self.subTest(point=point):
                self.check_submitted_once(run)
                self.wait_for(run, {"c": "succeeded"}, timeout=240)
                self.assertEqual(sorted(self.read(f"trace-{point}").split()), ["a", "b-0", "b-1", "c"])

    def test_a_job_that_was_ended_by_hand_is_recognised(self):
        self.write("w.yaml", "name: hand\nsteps:\n  a: {run: sleep 60}\n  b: {run: 'true', needs: [a]}\n")
        run = self.submit()
        self.wait_for(run, {"a": "running"})
        self.clusters[0].run([self.by_hand, self.ids(run)["a"]])
        self.wait_for(run, {"a": "cancelled", "b": "blocked"})
        self.check_ended_by_hand(run)
