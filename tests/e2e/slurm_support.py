"""Shared code of the tests of chains on the fake tools."""

import json
import sys

import support

sys.path.insert(0, str(support.ROOT / "tests/support"))
import fake_slurm  # noqa: E402

UNAVAILABLE = 3
INVALID = 2


class ChainCase(support.Case):
    def setUp(self):
        super().setUp()
        self.slurm = fake_slurm.FakeSlurm(self.folder / "slurm", nodes=4, cpus=8)
        self.addCleanup(self.slurm.stop)
        self.slurm.mode("background")  # in real time, and scripts really run
        self.env.update(self.slurm.env)
        self.profile()

    def profile(self, extra=""):
        self.write("cluster-profiles/alpha.yaml",
                   "scheduler: slurm\nslurm: {partition: batch}\npaths: {runs: runs}\n" + extra)

    def nothing_runs(self):
        """Jobs stay as they are until the test ends them."""
        self.slurm.mode("outcomes")

    def workflow(self, **steps):
        """Steps as YAML in braces, without the braces."""
        lines = "".join(f"  {name}: {{{step}}}\n" for name, step in steps.items())
        self.write("w.yaml", f"name: w\nsteps:\n{lines}")

    def chain_of(self, *names):
        """Each waits for the one before, and leaves its name in `trace`."""
        self.workflow(**{name: f"run: 'echo {name} >> {self.folder}/trace'" +
                         (f", needs: [{names[i - 1]}]" if i > 0 else "") for i, name in enumerate(names)})

    def controller_denies_jobs(self):
        """`scontrol show job` says of every job that there is none; the rest of scontrol works."""
        tool = self.write("denies/scontrol", f"""\
            #!/bin/sh
            case "$*" in *"show job"*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;; esac
            exec {fake_slurm.TOOLS}/scontrol "$@"
            """)
        tool.chmod(0o755)
        self.env["PATH"] = f"{tool.parent}:{self.slurm.env['PATH']}"

    def queue_and_accounting_say_nothing(self):
        for tool in ("squeue", "sacct"):
            self.slurm.fault(tool, "output", "empty", "always")

    def trace(self):
        file = self.folder / "trace"
        return file.read_text().split() if file.exists() else []

    def submit(self, **options):
        """The name of the run."""
        out, _ = self.dlflow("run", "w.yaml", "--profile", "alpha", "--json", **options)
        return json.loads(out.splitlines()[-1])["run"]

    def refused(self, status):
        """`dlflow run` that does not succeed: (run, what it says)."""
        _, err = self.dlflow("run", "w.yaml", "--profile", "alpha", status=status)
        runs = json.loads(self.dlflow("status", "--quick", "--json")[0])
        return (runs[0]["run"] if runs else None), err

    def steps_in_slurm(self):
        """The step of each job that SLURM was given, sorted; a name twice is a job twice."""
        return sorted(job["request"]["name"].split(".")[2] for job in self.slurm.jobs().values())

    def ids(self, run):
        return {step["name"]: step["backend_id"] for step in self.status(run)["steps"]}

    def job_ids(self, run):
        """By job: "many[n=3]"."""
        return {step["name"] + (f"[{step['element']}]" if step["element"] else ""): step["backend_id"]
                for step in self.status(run)["steps"]}

    def check_all_ran_once(self, run, *names):
        self.slurm.wait_until_idle()
        self.assertEqual(self.steps_in_slurm(), sorted(names))
        self.assertEqual(self.trace(), list(names))
        self.assertEqual(self.states(run), dict.fromkeys(names, "succeeded"))
        self.assertEqual(self.status(run)["state"], "succeeded")

    def give_up_on_a_late_job(self):
        self.slurm.fault("sbatch", "late:30", "timeout")
        run, err = self.refused(UNAVAILABLE)
        self.assertIn("Socket timed out", err)
        self.assertIn(f"run --resume {run}", err)
        self.assertEqual(self.steps_in_slurm(), [])
        return run

    def wait_for_the_late_job(self, steps):
        def arrived():
            self.slurm.run("squeue")  # each call advances the time
            return self.steps_in_slurm() == steps
        self.wait_for(arrived, what="the late job")

    def failed_chain(self):
        """a fails, b and c wait in SLURM for what never comes; now a would succeed."""
        self.chain_of("a", "b", "c")
        text = (self.folder / "w.yaml").read_text()
        self.write("w.yaml", text.replace("'echo a", f"'[ -e {self.folder}/mended ] && echo a"))
        run = self.submit()
        self.slurm.wait_until_idle()
        self.assertEqual(self.states(run), {"a": "failed", "b": "blocked", "c": "blocked"})
        (self.folder / "mended").touch()
        return run
