"""Collectives across the nodes of a cluster: the cases of tests/mpi that compare with MPI's own results."""

import re
import unittest

from cluster import Case, STAGED, main

MPI_TEST = STAGED / "bin/mpi_test"
TRAIN = STAGED / "bin/dlflow-train"


class Collectives(Case):
    def srun(self, ranks, *command):
        return self.alpha.run(["srun", "-N2", f"-n{ranks}", "--overcommit", "--mpi=pmix", *command], cwd=self.folder,
                              timeout=240).stdout  # ranks that share cores with other tests are slow

    @unittest.skipUnless(MPI_TEST.exists(), "built without MPI")
    def test_they_give_what_mpi_gives_between_two_nodes_of_one_rank(self):
        self.assertIn("All tests passed", self.srun(2, MPI_TEST, "[across]"))

    @unittest.skipUnless(MPI_TEST.exists(), "built without MPI")
    def test_they_give_what_mpi_gives_between_nodes_of_several_ranks(self):
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


if __name__ == "__main__":
    main()
