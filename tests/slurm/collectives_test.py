"""Collectives across the nodes of a cluster: the cases of tests/mpi that compare with MPI's results."""

import hashlib
import json
import re
import unittest

from cluster import Case, STAGED, main

import pictures  # cluster.py has added its folder to sys.path

MPI_TEST = STAGED / "bin/mpi_test"
TRAIN = STAGED / "bin/dlflow-train"


class Collectives(Case):
    def srun(self, ranks, *command, mpi="pmix"):
        return self.ran(ranks, *command, mpi=mpi).stdout

    def ran(self, ranks, *command, mpi, nodes=2):
        return self.alpha.run(["srun", f"-N{nodes}", f"-n{ranks}", "--overcommit", f"--mpi={mpi}", *command], cwd=self.folder,
                              timeout=240)  # ranks that share cores with other tests are slow

    @unittest.skipUnless(MPI_TEST.exists(), "built without MPI")
    def test_collectives_match_mpi_between_two_nodes_of_one_rank(self):
        self.assertIn("All tests passed", self.srun(2, MPI_TEST, "[across]"))

    @unittest.skipUnless(MPI_TEST.exists(), "built without MPI")
    def test_collectives_match_mpi_between_nodes_of_several_ranks(self):
        for ranks in (3, 4):
            with self.subTest(ranks=ranks):
                self.assertIn("All tests passed", self.srun(ranks, MPI_TEST, "[across]"))

    @unittest.skipUnless(TRAIN.exists(), "built without dlflow-train")
    def test_tuning_leaves_rules_where_jobs_of_the_cluster_find_them(self):
        file = self.folder / "collectives.txt"
        printed = self.srun(2, "env", f"DLFLOW_COLLECTIVES={file}", TRAIN, "--tune", "64KiB")
        self.assertIn(f"stored in {file}", printed)
        self.assertRegex(file.read_text(), r"^2x1 allreduce=\w+:0-\S+  # \d{4}-\d\d-\d\d\n$")
        measured = re.findall(r"\w+(?= \d+)", printed.splitlines()[1])
        self.assertLessEqual({"recursive_doubling", "rabenseifner", "ring", "tree", "direct", "mpi"}, set(measured))

    @unittest.skipUnless(TRAIN.exists(), "built without dlflow-train")
    def test_srun_trains_the_same_weights_under_any_of_its_mpi_types(self):
        """pmi2 means Debian's MPICH 4.0.2, whose UCX takes these nodes for one, since they are one machine. With UCX_TLS=tcp it trains
        on both, and MPI_Finalize then hangs in half of the tries. So its ranks are on one node."""
        pictures.write(self.folder, 1380, 500, suffix="")
        settings = {"model": str(STAGED / "workflows/models/lenet.yaml"), "data": str(self.folder), "epochs": 1, "lr": 0.05,
                    "validation": 100, "precision": {"leaves": 8}}
        (self.folder / "with.json").write_text(json.dumps(settings))
        known = self.alpha.run(["srun", "--mpi=list"])
        kinds = ["none", "pmix", "pmi2"]
        there = [kind for kind in kinds if kind == "none" or re.search(rf"\b{kind}\b", known.stdout + known.stderr)]
        rows = {}
        for kind in there:
            for ranks in (2, 4):
                checkpoints = self.folder / f"checkpoints-{kind}-{ranks}"
                ended = self.ran(ranks, "env", f"DLFLOW_CHECKPOINTS={checkpoints}", TRAIN, "with.json", mpi=kind,
                                 nodes=1 if kind == "pmi2" else 2)
                way = re.search(rf"(?m)^{ranks} ranks by (.*)$", ended.stderr)
                self.assertTrue(way, ended.stderr)
                weights = (checkpoints / "latest/model.safetensors").read_bytes()
                rows[f"srun --mpi={kind}, {ranks} ranks by {way[1]}"] = hashlib.sha256(weights).hexdigest()
        print("\n".join(f"{bits} {row}" for row, bits in rows.items()), flush=True)
        self.assertEqual(len(set(rows.values())), 1, rows)
        if there != kinds:
            self.skipTest(f"this SLURM has no {' and no '.join(sorted(set(kinds) - set(there)))}")


if __name__ == "__main__":
    main()
