"""Output of `status` about jobs on a cluster that misbehaves on request: squeue, sacct, and jobs missing in either."""

import json

import support
from slurm_support import ChainCase


class StatusTest(ChainCase):
    def test_a_result_is_not_reused_if_a_run_of_unknown_state_may_have_undone_it(self):
        there = self.folder / "there"
        for value in ("one", "two", "one"):
            self.workflow(put=f"run: 'echo {value} > {there}'")
            self.submit()
            self.slurm.wait_until_idle()
            if not there.with_suffix(".seen").exists():
                self.dlflow("status")
                there.with_suffix(".seen").touch()
        self.assertEqual(there.read_text(), "one\n")

    def test_missing_accounting_loses_nothing(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        run = self.submit()
        self.assertIn("a has no output: it is queued", self.dlflow("logs", run, "a", status=2)[1])
        self.slurm.end(self.ids(run)["a"], "CANCELLED")
        self.slurm.purge()
        self.slurm.fault("sacct", "before", "connect")
        self.assertEqual(self.states(run)["a"], "queued")
        self.assertEqual(self.states(run), {"a": "cancelled", "b": "blocked"})

    def test_a_status_asks_squeue_once_and_sacct_at_most_once(self):
        self.nothing_runs()
        self.workflow(train=f"run: 'true', matrix: {{n: {list(range(100))}}}",
                      eval=f"run: 'true', matrix: {{n: {list(range(100))}}}, needs: [train]",
                      best="run: 'true', needs: [eval]")
        run = self.submit()
        array = self.ids(run)["train"].split("_")[0]
        for task in (3, 50, 99):
            self.slurm.end(f"{array}_{task}", "CANCELLED")
        for _ in range(2):
            before = len(self.slurm.calls())
            states = self.states(run)
            asked = [call["command"] for call in self.slurm.calls()[before:]]
            self.assertEqual(asked.count("squeue"), 1)
            self.assertLessEqual(asked.count("sacct"), 1)
            self.assertLessEqual(asked.count("scontrol"), 1)  # for the name of the cluster
            self.assertLessEqual(len(asked), 3)
            self.assertEqual(states["train[n=50]"], "cancelled")
            self.assertEqual(states["eval[n=50]"], "blocked")
            self.assertEqual(states["eval[n=51]"], "queued")

    def asked_by(self, *arguments):
        """What `dlflow` prints, and the tools that it runs meanwhile, once it knows which cluster this is."""
        before = len(self.slurm.calls())
        out, _ = self.dlflow(*arguments)
        calls = self.slurm.calls()[before:]
        self.assertLessEqual(sum(call["argv"] == ["show", "config"] for call in calls), 1)
        return out, sorted(call["command"] for call in calls if call["argv"] != ["show", "config"])

    def test_a_status_of_all_runs_asks_the_cluster_once(self):
        self.nothing_runs()
        self.chain_of("a", "b")
        runs = [self.submit() for _ in range(3)]
        self.assertEqual(self.asked_by("status")[1], ["squeue"])
        self.slurm.end(self.ids(runs[0])["a"], "CANCELLED")
        self.slurm.end(self.ids(runs[2])["a"], "TIMEOUT")
        self.slurm.purge()
        out, asked = self.asked_by("status")
        self.assertEqual(asked, ["sacct", "squeue"])
        self.assertIn("a cancelled", out)
        self.assertIn("a timed-out", out)
        self.assertEqual([self.states(run)["a"] for run in runs], ["cancelled", "queued", "timed-out"])
        self.assertEqual(self.asked_by("status", "--json")[1], ["squeue"])

    def test_usage_comes_from_accounting_or_else_from_the_job_itself(self):
        self.workflow(a="run: 'true', resources: {memory: 4MiB}", b="run: 'true', needs: [a]")
        run = self.submit()
        self.slurm.wait_until_idle()
        out, asked = self.asked_by("status", run, "--long")
        self.assertEqual(asked, ["sacct"])
        self.assertRegex(out, r"a +succeeded +\S+ +\S+ +\S+ +2.0 MiB +4.0 MiB +50%")
        self.assertLessEqual(max(map(len, out.splitlines())), 80)
        used = json.loads(self.dlflow("status", run, "--long", "--json")[0])["steps"][0]["used"]
        self.assertEqual((used["memory_bytes"], used["memory_efficiency"]), (2 << 20, 0.5))
        self.assertEqual(used["energy_j"], 1800)
        self.slurm.set(accounting="off")
        out, _ = self.dlflow("status", run, "--long")
        self.assertEqual(out.count("No accounting ("), 1)
        status = json.loads(self.dlflow("status", run, "--long", "--json")[0])
        self.assertIn("disabled", status["unaccounted"])
        self.assertGreater(status["steps"][0]["used"]["memory_bytes"], 0)

    def test_a_large_run_shows_the_requested_time_limit(self):
        self.workflow(first="run: sleep 60, resources: {walltime: 2m}", many='run: "true", needs: [first], matrix: {n: "${{ range(1, 2100, 1) }}"}')
        self.slurm.set(max_array_size=5000)
        run = self.submit()
        self.wait_for(lambda: self.states(run)["first"] == "running", what="the first job at work")
        row = next(line for line in self.dlflow("status", run)[0].splitlines() if line.startswith("first "))
        self.assertRegex(row, r" 0:\d\d/2:00 ")  # SLURM's limit is 3:00, which leaves time to record the end


if __name__ == "__main__":
    support.main()
