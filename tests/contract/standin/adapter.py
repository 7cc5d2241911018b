"""The stand-in (tools.cpp): a task is a folder of files."""

import os
import pathlib
import signal

import cluster
from adapted import Adapted

SPOOL = cluster.HOME / "spool"
SPOOL.mkdir()


class Adapter(Adapted):
    profile = "standin"
    clusters = (cluster.Cluster("standin", cluster.BUILD / "tests/contract/dlflow_standin", "scheduler: standin\nstandin: {queue: short}\n", STANDIN=SPOOL),)

    def until_the_blocked_have_ended(self):
        """A task waits for ends alone, so a blocked one begins, looks at its parents, and fails."""
        cluster.wait_until(lambda: all((file.parent / "status").exists() for file in SPOOL.glob("*/name")), 30, "each task has ended")

    def submissions(self):
        return {(file.read_text(), file.parent.name.split("_")[0]) for file in SPOOL.glob("*/name")}

    def end_by_hand(self, id):
        (SPOOL / id / "status").write_text("cancelled")
        os.killpg(int((SPOOL / id / "pid").read_text()), signal.SIGTERM)

    def cancel_all(self):
        for file in SPOOL.glob("*/pid"):
            if not pathlib.Path(file.parent, "status").exists():
                self.end_by_hand(file.parent.name)
