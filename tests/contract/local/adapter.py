"""The local back end: jobs are processes of one `dlflow run`, which goes on in the background."""

import json

import cluster
from adapted import Adapted


class Adapter(Adapted):
    profile = "local"
    never_begun = "planned"
    clusters = (cluster.Cluster("here", cluster.BUILD / "bin/dlflow", "scheduler: local\n"),)
    without_meaning = {
        "forgotten": "its dlflow records every end itself",
        "killed_anywhere": "nothing is submitted",
        "has_the_number_of_ours": "its jobs have no numbers before they run",
        "pointed_to_the_new_parent": "a failed run has ended, so nothing waits",
        "ended_by_hand": "a program that a signal ended has failed",
    }

    def dlflow(self, verb, *arguments, **options):
        detached = ["--detach", "--keep-going"] if verb == "run" else []
        return super().dlflow(verb, *detached, *arguments, **options)

    def check_arrays(self, ids, *steps):
        pass  # each job is a process

    def check_same_jobs(self, before, after):
        pass  # a pass is a process of its own

    def cancel_all(self):
        for run in json.loads(self.dlflow("status", "--quick", "--json").stdout):
            self.dlflow("cancel", run["run"], status=None)
