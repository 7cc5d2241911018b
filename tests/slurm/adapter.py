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

    def submissions(self):
        jobs = self.alpha.run(["squeue", "--me", "--noheader", "--states=all", "--format=%j %F"]).stdout
        return {tuple(line.split()) for line in jobs.splitlines()}

    def check_ended_by_hand(self, run):
        self.assertRegex(self.dlflow("status", run).stdout, r"cancelled by [a-z]\w+")

    def check_new_jobs(self, jobs):
        self.assertEqual(jobs, {"train[n=1]"})
