"""The tools of SLURM that are not there (tests/support/fake_slurm)."""

import os

os.environ["DLFLOW_BIN"] = os.environ["DLFLOW_BUILD"] + "/bin"

import cluster  # noqa: E402
from adapted import Adapted  # noqa: E402
from fake_slurm import FakeSlurm  # noqa: E402

WORLD = FakeSlurm(cluster.HOME / "slurm", nodes=4, cpus=8, requeue_delay=1)
WORLD.mode("background")


class Adapter(Adapted):
    profile = "fake"
    refusal = "Invalid account"
    clusters = (cluster.Cluster("fake", cluster.BUILD / "bin/dlflow", "scheduler: slurm\nslurm: {partition: batch}\n", **WORLD.env),)

    def refused_profile(self):
        WORLD.set(accounts="physics")
        return "scheduler: slurm\nslurm: {partition: batch, account: chemistry}\n"

    def submissions(self):
        return {(job["request"]["name"], id) for id, job in WORLD.jobs().items()}

    def forget_what_has_ended(self):
        WORLD.purge()

    def end_by_hand(self, id):
        WORLD.run("scancel", id)

    def cancel_all(self):
        WORLD.stop()
