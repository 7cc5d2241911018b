"""A real SLURM, for tests/contract/batch_system_test.py."""

from adapted import Adapted


class Adapter(Adapted):
    refusal = "Invalid account|Invalid qos|Invalid reservation|invalid"

    def refused_profile(self):
        return "scheduler: slurm\nslurm: {reservation: nosuch}\n"

    def hold(self, id):
        self.alpha.run(["scontrol", "hold", id])

    def end_by_hand(self, id):
        self.alpha.run(["scancel", id])

    def check_submitted_once(self, run):
        names = [line for line in self.alpha.run(
            ["squeue", "--me", "--noheader", "--states=all", "--format=%j %F"]).stdout.splitlines()
            if line.startswith(run)]
        steps = [name.split(".")[2] for name in {line.split()[0] for line in names}]
        self.assertEqual(sorted(steps), ["a", "b", "c"], names)

    def check_ended_by_hand(self, run):
        self.assertRegex(self.dlflow("status", run).stdout, r"cancelled by [a-z]\w+")

    def check_new_jobs(self, jobs):
        self.assertEqual(jobs, {"train[n=1]"})
