"""Runtimes that cannot be installed here, through a stand-in that takes the same options and runs bubblewrap."""

import os
import pathlib
import shutil
import unittest

import containers

NEEDS_SQUASHFS = unittest.skipUnless(shutil.which("mksquashfs"), "squashfs-tools is not installed")
STANDIN = pathlib.Path(__file__).resolve().parent / "standin.py"


class Standins(containers.Case):
    @classmethod
    def prepare(cls):
        shutil.copy(STANDIN, cls.site / "standin.py")
        (cls.site / "standin.py").chmod(0o755)
        (cls.site / "docker-images").mkdir()
        os.chown(cls.site / "docker-images", cls.user, -1)
        for name in ("apptainer", "docker", "srun"):
            (cls.site / name).symlink_to("standin.py")

    def choose(self, runtime):
        self.write("cluster-profiles/here.yaml", f"container: {{runtime: {runtime}}}\nlauncher: {{program: srun}}\n")

    def look(self, runtime):
        """What a program sees under `runtime`, which is told nothing of its environment."""
        self.choose(runtime)
        self.workflow("""
            look:
              image: box
              secrets: [TOKEN]
              run: cat /etc/image-name; echo "secret ${SECRET-is not here}, token ${#TOKEN}"; id -u
            fails: {image: box, run: exit 7}
        """)
        self.dlflow("run", "w.yaml", "--profile", "here", "--keep-going", status=1, env={"TOKEN": "hunter2"})
        self.assertEqual(self.lines("look"), ["busybox", "secret is not here, token 7", str(self.user)])
        self.assertEqual(self.jobs("w")["fails"]["exit"], 7)

    def test_apptainer_runs_a_step(self):
        self.look("apptainer")

    def test_docker_runs_a_step(self):
        self.look("docker")

    @NEEDS_SQUASHFS
    def test_pyxis_runs_a_step(self):
        self.look("pyxis")

    @NEEDS_SQUASHFS
    def test_a_step_waits_for_each_rank_that_pyxis_starts(self):
        self.choose("pyxis")
        self.workflow("""
            ranks:
              image: box
              resources: {ranks: 2}
              run: 'echo rank $SLURM_PROCID $RANK of $WORLD_SIZE; [ $SLURM_PROCID = 0 ] || exit 5'
        """)
        jobs = self.run_workflow(status=1)
        self.assertEqual(jobs["ranks"]["exit"], 5, self.errors())
        self.assertEqual(sorted(self.lines("ranks")), ["rank 0 0 of 2", "rank 1 1 of 2"])

    @NEEDS_SQUASHFS
    def test_pyxis_starts_one_program_per_node(self):
        self.choose("pyxis")
        self.workflow("""
            node:
              image: box
              launch: node
              resources: {ranks: 2}
              run: 'echo node $NODE_RANK with $DLFLOW_LOCAL_RANKS of $DLFLOW_RANKS, ${RANK-no} rank'
        """)
        self.run_workflow()
        self.assertEqual(self.lines("node"), ["node 0 with 2 of 2, no rank"])


if __name__ == "__main__":
    containers.require("bwrap")
    containers.require_namespaces()
    containers.main()
