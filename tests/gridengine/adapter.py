"""A real Grid Engine, for tests/contract/batch_system_test.py."""

from adapted import Adapted
from cluster import wait_until


class Adapter(Adapted):
    profile = "ge"
    most_counted = 150
    refusal = "nosuch"

    def refused_profile(self):
        return "scheduler: gridengine\ngridengine: {project: nosuch}\n"

    def hold(self, id):
        self.ge.run(["qhold", id])

    def end_by_hand(self, id):
        self.ge.run(["qdel", id])

    def until_nothing_is_left(self):
        wait_until(lambda: not self.ge.jobs(), 30, "the queue to be empty")

    until_the_blocked_have_ended = until_nothing_is_left

    def check_requeued(self, job):
        self.assertIn("exit_status  99", self.ge.run(["qacct", "-j", job]).stdout)

    def check_submitted_once(self, run):
        self.wait_for(run, {"c": "succeeded"}, timeout=240)  # accounting, which is a second behind, has what has ended
        wait_until(lambda: len(self.accounted(run, "jobname")) == 3, 30, f"three jobs of {run} in accounting")
        self.assertEqual(len(self.accounted(run, "jobnumber")), 3)

    def accounted(self, run, key):
        """The values of `key` in what qacct has of the run's jobs."""
        entries = self.ge.run(["qacct", "-j", f"{run}.*"], status=None).stdout.splitlines()
        return {line.split()[1] for line in entries if line.startswith(f"{key} ")}
