"""Commands on ranks of two nodes, started by srun and by mpirun: the variables of each rank, and scripts that do not use dlflow."""

import json
import pathlib
import shutil
import sys
import unittest

import cluster
from chains import Chain
from cluster import wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
import images  # noqa: E402
from pypi import DEBIAN, HOROVOD, NEWEST, missing, need_torchrun, needs  # noqa: E402

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "support/scripts"

TELL = """
import json, os, socket
names = ("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK MASTER_ADDR MASTER_PORT DLFLOW_RANK DLFLOW_RANKS "
         "DLFLOW_LOCAL_RANK DLFLOW_LOCAL_RANKS DLFLOW_NODE_RANK DLFLOW_NODES PET_NNODES PET_NODE_RANK PET_NPROC_PER_NODE").split()
told = {name: os.environ[name] for name in names if name in os.environ}
told["host"] = socket.gethostname()
with open(f"told.{told.get('RANK', 'node' + told['NODE_RANK'])}", "w") as file:
    json.dump(told, file)
"""

SCRIPT, TORCHRUN = "{python} {folder}/sum_", "{python} -m torch.distributed.run {folder}/sum_"
NO_LIBUV, NODE, DEVICES = {"env": {"USE_LIBUV": "0"}}, {"launch": "node"}, {"env": {"DEVICES": "2"}}  # Debian 13's PyTorch is built without libuv
# Profiles, module, Python, command and further keys of a step. A framework that looks for variables of MPI or SLURM itself runs under both launchers.
# PyTorch alone and the programs that start ranks on each node read variables that the first two tests compare under both, and run under one.
WAYS = {
    "pytorch": ("alpha", "torch", DEBIAN, f"{SCRIPT}ranks.py", NO_LIBUV),
    "newest-pytorch": ("beta", "torch", NEWEST, f"{SCRIPT}ranks.py", {}),
    "torchrun": ("alpha", "torch", NEWEST, f"{TORCHRUN}ranks.py", NODE),
    "mpi4py": ("alpha beta", "mpi4py", DEBIAN, f"{SCRIPT}mpi4py.py", {}),
    "horovod": ("alpha beta", "horovod", HOROVOD, f"{SCRIPT}horovod.py", {}),
    "accelerate": ("alpha beta", "accelerate", NEWEST, f"{SCRIPT}accelerate.py", {}),
    "accelerate-launch": (
        "beta", "accelerate", NEWEST,
        "{python.parent}/accelerate launch --multi_gpu --num_machines $DLFLOW_NODES --machine_rank $NODE_RANK --num_processes $DLFLOW_RANKS "
        "--main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT {folder}/sum_accelerate.py", NODE),
    "lightning": ("alpha beta", "lightning", NEWEST, f"{SCRIPT}lightning.py", DEVICES),
    "lightning-torchrun": ("alpha", "lightning", NEWEST, f"{TORCHRUN}lightning.py", NODE | DEVICES),
    "deepspeed": ("alpha beta", "deepspeed", NEWEST, f"{SCRIPT}deepspeed.py", {}),
    "deepspeed-torchrun": ("alpha", "deepspeed", NEWEST, f"{TORCHRUN}deepspeed.py", NODE),
    # Without ssh. It requires the number of hosts and of ranks on each; any host names will do.
    "deepspeed-launcher": (
        "beta", "deepspeed", NEWEST,
        'seq -f "n%g slots=$PET_NPROC_PER_NODE" $DLFLOW_NODES >hosts.$NODE_RANK && {python.parent}/deepspeed --no_ssh --hostfile hosts.$NODE_RANK '
        "--node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT {folder}/sum_deepspeed.py", NODE),
}


class Ranks:
    """The tests, for a cluster of two nodes with two cores each."""

    def setUp(self):
        super().setUp()
        self.write("tell.py", TELL)
        for script in SCRIPTS.glob("*.py"):
            shutil.copy(script, self.folder)
        # Both cores of a node run ranks.
        profile = (cluster.STAGED / f"cluster-profiles/{self.profile}.yaml").read_text()
        profile = profile.replace("ranks_per_node: 1", "ranks_per_node: 2")
        self.write("two.yaml", profile.replace("{runtime: udocker}", "{runtime: charliecloud}"))

    def run_step(self, command, ranks, extra=""):
        """Waits until the step has succeeded; returns the folder of its attempt."""
        self.write("w.yaml", f"""
            name: ranks
            images: {{box: {{from: "docker-archive:box.tar"}}}}
            steps:
              work:
                run: {command}
                resources: {{ranks: {ranks}}}
                {extra}
        """)
        run = self.submit(profile="two.yaml")
        self.wait_for(run, {"work": "succeeded"}, timeout=300)
        return pathlib.Path(self.status(run)["directory"]) / "steps/work/attempt-1"

    def tell(self, ranks, extra=""):
        folder = self.run_step(f"[{DEBIAN}, {self.folder}/tell.py]", ranks, extra) / "pass-1/work"
        return {file.name.removeprefix("told."): json.loads(file.read_text()) for file in folder.glob("told.*")}

    def printed(self, attempt):
        """The output of ranks and nodes, without dlflow's message about unpacking an image."""
        lines = (attempt / "stdout").read_text().splitlines()
        return sorted(line for line in lines if line.startswith(("rank ", "node ", "[default")))

    def check_sums(self, printed):
        self.assertEqual(sorted(line[line.index("rank"):] for line in printed), [f"rank {rank} of 4: 10" for rank in range(4)])

    def test_each_rank_gets_its_place(self):
        told = self.tell(4)
        first = self.clusters[0].node(1)
        port = told["0"]["MASTER_PORT"]
        for rank in range(4):
            node, local = str(rank // 2), str(rank % 2)
            self.assertEqual(told[str(rank)], {
                "RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": node,
                "NODE_RANK": node, "MASTER_ADDR": first, "MASTER_PORT": port, "DLFLOW_RANK": str(rank), "DLFLOW_RANKS": "4",
                "DLFLOW_LOCAL_RANK": local, "DLFLOW_LOCAL_RANKS": "2", "DLFLOW_NODE_RANK": node, "DLFLOW_NODES": "2",
                "host": self.clusters[0].node(rank // 2 + 1)})

    def test_a_program_per_node_gets_the_number_of_ranks_to_start(self):
        told = self.tell(3, "launch: node")
        port = told["node0"]["MASTER_PORT"]
        for node, ranks in enumerate("21"):
            self.assertEqual(told[f"node{node}"], {
                "NODE_RANK": str(node), "MASTER_ADDR": self.clusters[0].node(1), "MASTER_PORT": port, "DLFLOW_RANKS": "3",
                "DLFLOW_LOCAL_RANKS": ranks, "DLFLOW_NODE_RANK": str(node), "DLFLOW_NODES": "2", "PET_NNODES": "2",
                "PET_NODE_RANK": str(node), "PET_NPROC_PER_NODE": ranks, "host": self.clusters[0].node(node + 1)})

    @unittest.skipUnless(shutil.which("ch-run") and images.BUSYBOX.exists(), "charliecloud or busybox-static is not installed")
    def test_ranks_in_containers_get_the_same_variables(self):
        if self.clusters[0].run(["unshare", "--user", "--map-root-user", "true"], status=None).returncode != 0:
            self.skipTest("users cannot make user namespaces here")
        images.docker_archive(self.folder / "box.tar", [images.busybox_layer()])
        tell = "echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on $NODE_RANK of $DLFLOW_NODES, $MASTER_ADDR"
        self.assertEqual(self.printed(self.run_step(f"'{tell}'", 4, "image: box")), [
            f"rank {rank} of 4, {rank % 2} of 2 on {rank // 2} of 2, {self.clusters[0].node(1)}" for rank in range(4)])
        tell = "echo node $NODE_RANK of $DLFLOW_NODES: $DLFLOW_LOCAL_RANKS ranks"
        self.assertEqual(self.printed(self.run_step(f"'{tell}'", 3, "image: box\n                launch: node")),
                         ["node 0 of 2: 2 ranks", "node 1 of 2: 1 ranks"])

    def test_frameworks_find_their_ranks_on_two_nodes(self):
        """One step after the other, since each needs all cores."""
        steps = {}
        for name, (profiles, module, python, command, more) in WAYS.items():
            if self.profile not in profiles:
                continue
            if reason := missing(module, python):
                print(f"skipped case: {name} of {self.id()}: {reason}", flush=True)
            else:
                steps[name] = {"run": command.format(python=python, folder=self.folder), "resources": {"ranks": 4}} | more
        self.write("w.yaml", json.dumps({"name": "ranks", "steps": steps}))
        run = self.submit(profile="two.yaml")
        wait_until(lambda: self.status(run)["ended"], 1200, f"{run} to end")
        ended = self.status(run)
        for step in ended["steps"]:
            with self.subTest(step["name"]):
                attempt = pathlib.Path(ended["directory"]) / f"steps/{step['name']}/attempt-1"
                self.assertEqual(step["state"], "succeeded", (attempt / "stderr").read_text())
                self.check_sums(self.printed(attempt))


class BySrun(Ranks, Chain):
    profile = "alpha"
    clusters = (Chain.alpha,)


class ByMpirun(Ranks, Chain):
    profile = "beta"
    clusters = (Chain.beta,)

    @needs("torch", DEBIAN)
    def test_torchrun_runs_on_two_nodes_without_an_option_for_them(self):
        need_torchrun(self)
        # Debian 12's does not start with Python 3.11 unless some output is redirected.
        self.check_sums(self.printed(self.run_step(f"[{DEBIAN}, -m, torch.distributed.run, -r, '1', -t, '1', {self.folder}/sum_ranks.py]", 4,
                                                   'launch: node\n                env: {USE_LIBUV: "0"}')))


if __name__ == "__main__":
    cluster.main()
