"""Tests the fake SLURM that other tests use."""

import sys
import time

import support

sys.path.insert(0, str(support.ROOT / "tests/support"))
import fake_slurm  # noqa: E402


class FakeSlurmTest(support.Case):
    def setUp(self):
        super().setUp()
        self.slurm = fake_slurm.FakeSlurm(self.folder / "slurm", nodes=4, cpus=8)
        self.addCleanup(self.slurm.stop)

    def submit(self, *options, script="#!/bin/sh\n"):
        return int(self.slurm.run("sbatch", "--parsable", *options, input=script, cwd=self.folder).stdout)

    def test_scripts_run_in_the_background(self):
        self.slurm.mode("background")
        self.slurm.set(requeue_delay=1)
        again = '#!/bin/sh\necho ${SLURM_RESTART_COUNT:-0} >> trace\n[ -n "$SLURM_RESTART_COUNT" ] || scontrol requeue $SLURM_JOB_ID\n'
        first = self.submit(script=again)
        self.submit(f"--dependency=afterok:{first}", script="#!/bin/sh\necho child >> trace\n")
        self.slurm.wait_until_idle()
        self.assertEqual((self.folder / "trace").read_text().split(), ["0", "1", "child"])

    def test_a_requeue_ends_the_script_that_runs(self):
        self.slurm.mode("background")
        self.slurm.set(requeue_delay=1)
        job = self.submit(script="#!/bin/sh\necho begin >> trace\n[ -z \"$SLURM_RESTART_COUNT\" ] || exit 0\n"
                                 "sleep 3\necho end >> trace\n")
        self.slurm.wait(lambda: (self.folder / "trace").exists())
        self.slurm.run("scontrol", "requeue", job)
        self.slurm.wait_until_idle()
        time.sleep(3)
        self.assertEqual((self.folder / "trace").read_text().split(), ["begin", "begin"])


if __name__ == "__main__":
    support.main()
