"""PyTorch on dlflow's collectives over two nodes: the workflows that divide weights, optimizer state or layers over ranks."""

import json
import pathlib

import cluster
from chains import Chain
from cluster import STAGED
from pypi import DEBIAN, NEWEST, needs

OLD = DEBIAN  # with Debian's PyTorch


class Parallel(Chain):
    profile = "alpha"  # one rank on each of two nodes
    clusters = (Chain.alpha,)

    def run_workflow(self, name, python, last="train", **ranks):
        """The output of the last step's ranks, once it has succeeded."""
        settings = {"python": python, "package": STAGED / "python", **ranks}
        options = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
        out = self.dlflow("run", STAGED / f"workflows/pytorch-{name}.yaml", "--profile", self.profile, "--json", *options).stdout
        run = json.loads(out.splitlines()[-1])["run"]
        self.wait_for(run, {last: "succeeded"}, timeout=240)
        return (pathlib.Path(self.status(run)["directory"]) / f"steps/{last}/attempt-1/stdout").read_text()

    def check_same(self, name, python, ranks=2):
        self.assertRegex(self.run_workflow(name, python, ranks=ranks), rf"^{ranks} ranks: at most \S+ from one process\n$")

    @needs("torch", OLD)
    def test_data_parallel_training_runs_on_two_nodes(self):
        self.check_same("ddp", OLD)

    @needs("torch", OLD)
    def test_zero_redundancy_optimizer_runs_on_two_nodes(self):
        self.check_same("zero", OLD)

    @needs("torch")
    def test_divided_weights_and_layers_run_on_two_nodes(self):
        for name in ("fsdp", "pipeline", "tensor-parallel"):
            with self.subTest(name):
                self.check_same(name, NEWEST)

    @needs("torch")
    def test_a_checkpoint_of_two_nodes_is_read_on_one(self):
        printed = self.run_workflow("checkpoint", NEWEST, last="load", ranks=2, later_ranks=1)
        self.assertRegex(printed, r"^1 ranks went on: at most \S+ from one process\n$")


if __name__ == "__main__":
    cluster.main()
