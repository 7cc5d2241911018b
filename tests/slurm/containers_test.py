"""Ranks in containers on the nodes of two clusters, each with its own runtime, from the same workflow text."""

import pathlib

import contained
from cluster import wait_until


class Containers(contained.Case):
    def train(self, on, is_asked_to_save):
        """Trains on two nodes of the cluster `on`; returns the jobs by name."""
        self.needs(on)
        run = self.submit(on, self.flows / contained.WORKFLOW, "--set", "epochs=2", "--set", "model=mlp")
        directory = pathlib.Path(self.status(on, run)["directory"])
        training = directory / "steps/train/attempt-1"
        if is_asked_to_save:
            metrics = training / "metrics.jsonl"
            wait_until(lambda: metrics.exists() and metrics.stat().st_size > 0, 120, f"{run} on {on.name} to train")
            id = next(step["backend_id"] for step in self.status(on, run)["steps"] if step["name"] == "train")
            on.run(["scancel", "--batch", "--signal=USR1", id])  # as SLURM does before the time limit
        ended = self.wait_for_success(on, run)
        self.assertEqual((training / "claim-2").is_symlink(), is_asked_to_save, self.said(on, run, directory))
        return {step["name"]: step for step in ended["steps"]}

    def accuracy(self, on, is_asked_to_save=False):
        return self.train(on, is_asked_to_save)["evaluate"]["metrics"]["accuracy"]

    def test_profile_check_tries_a_container_on_a_node(self):
        self.needs(self.alpha)
        self.assertIn("containers run with udocker", self.dlflow(self.alpha, "profile", "check", "alpha"))

    def test_two_nodes_of_each_cluster_train_to_the_same_accuracy_also_if_asked_to_save(self):
        """By srun and udocker, saved and requeued in between; by mpirun and charliecloud, undisturbed."""
        accuracy = self.accuracy(self.alpha, is_asked_to_save=True)
        self.assertGreater(accuracy, 0.8)
        if self.beta.run(["unshare", "--user", "--map-root-user", "true"], status=None).returncode != 0:
            self.skipTest("trained on alpha; beta's runtime needs user namespaces, which users cannot make here")
        self.assertEqual(self.accuracy(self.beta), accuracy)


if __name__ == "__main__":
    contained.main()
