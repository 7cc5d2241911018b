"""Commands on several ranks: the variables of each rank, and scripts of other frameworks that need no more."""

import json
import pathlib
import shutil
import unittest

from support import BIN, ROOT, Case, main
import pictures  # support.py has put its folder on sys.path
from pypi import DEBIAN, NEWEST, need_torchrun, needs

PYTHON = DEBIAN  # it has Debian's PyTorch
SCRIPTS = ROOT / "tests/support/scripts"


TELL = r"""
import json, os
names = ("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK MASTER_ADDR MASTER_PORT DLFLOW_RANK DLFLOW_RANKS "
         "DLFLOW_LOCAL_RANK DLFLOW_LOCAL_RANKS DLFLOW_NODE_RANK DLFLOW_NODES PET_NNODES PET_NPROC_PER_NODE").split()
told = {name: os.environ[name] for name in names if name in os.environ}
with open(f"{os.environ['FOLDER']}/told.{told.get('RANK', 'node')}", "w") as file:
    json.dump(told, file)
"""


@unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
class Ranks(Case):
    def setUp(self):
        super().setUp()
        self.write("tell.py", TELL)

    def told(self, rank):
        return json.loads((self.folder / f"told.{rank}").read_text())

    def output_of(self, run, step):
        """What the ranks of a step printed, in order."""
        directory = pathlib.Path(self.status(run)["directory"])
        return sorted(filter(None, (directory / f"steps/{step}/attempt-1/stdout").read_text().splitlines()))

    def script(self, command, ranks=4, extra=""):
        self.write("w.yaml", f"""
            name: ranks
            steps:
              work:
                run: {command}
                resources: {{ranks: {ranks}}}
                env: {{FOLDER: {self.folder}, USE_LIBUV: "0"}}  # Debian 13's PyTorch has none
                {extra}
        """)
        return self.run_json("w.yaml", timeout=120)["run"]

    def tell(self, ranks, extra=""):
        self.script(f"[{PYTHON}, {self.folder}/tell.py]", ranks, extra)

    def test_each_rank_gets_its_number_and_the_address_where_ranks_meet(self):
        self.tell(4)
        ranks = [self.told(rank) for rank in range(4)]
        for rank, told in enumerate(ranks):
            self.assertEqual(told, {
                "RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "0",
                "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ranks[0]["MASTER_PORT"], "DLFLOW_RANK": str(rank),
                "DLFLOW_RANKS": "4", "DLFLOW_LOCAL_RANK": str(rank), "DLFLOW_LOCAL_RANKS": "4", "DLFLOW_NODE_RANK": "0",
                "DLFLOW_NODES": "1"})

    def test_one_rank_gets_the_same_variables(self):
        self.tell(1)
        told = self.told(0)
        self.assertEqual((told["WORLD_SIZE"], told["LOCAL_RANK"], told["MASTER_ADDR"]), ("1", "0", "127.0.0.1"))

    def test_a_program_without_a_number_of_ranks_starts_as_in_a_shell(self):
        self.write("w.yaml", f"""
            steps:
              work:
                run: [{PYTHON}, {self.folder}/tell.py]
                env: {{FOLDER: {self.folder}}}
        """)
        self.run_json("w.yaml")
        self.assertEqual(self.told("node"), {"DLFLOW_RANK": "0", "DLFLOW_RANKS": "1", "DLFLOW_LOCAL_RANK": "0", "DLFLOW_LOCAL_RANKS": "1",
                                             "DLFLOW_NODE_RANK": "0", "DLFLOW_NODES": "1"})
        self.tell(1)  # other work, so the result is not reused
        self.assertEqual(self.told(0)["WORLD_SIZE"], "1")

    def test_a_variable_that_the_step_sets_is_kept(self):
        self.write("w.yaml", f"""
            steps:
              work:
                run: [{PYTHON}, {self.folder}/tell.py]
                resources: {{ranks: 2}}
                env: {{FOLDER: {self.folder}, MASTER_PORT: 29512, LOCAL_RANK: 0}}
        """)
        self.run_json("w.yaml")
        for rank in range(2):
            self.assertEqual((self.told(rank)["MASTER_PORT"], self.told(rank)["LOCAL_RANK"]), ("29512", "0"))

    def test_a_program_per_node_gets_only_its_nodes_variables(self):
        self.tell(3, "launch: node")
        told = self.told("node")
        port = told.pop("MASTER_PORT")
        self.assertGreater(int(port), 0)
        self.assertEqual(told, {"NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "DLFLOW_RANKS": "3", "DLFLOW_LOCAL_RANKS": "3",
                                "DLFLOW_NODE_RANK": "0", "DLFLOW_NODES": "1", "PET_NNODES": "1", "PET_NPROC_PER_NODE": "3"})

    def test_a_rank_whose_program_is_missing_reports_it(self):
        self.write("w.yaml", "steps: {work: {run: [no-such-program], resources: {ranks: 2}}}")
        out, _ = self.dlflow("run", "w.yaml", status=1)
        self.assertIn("cannot start no-such-program on", out)

    def test_a_script_that_reads_its_address_is_reused_and_another_launch_reruns_it(self):
        self.write("w.yaml", """
            steps: {work: {run: 'echo $RANK $MASTER_ADDR:$MASTER_PORT', resources: {ranks: 2}}}
        """)
        self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"work": "succeeded"})
        self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"work": "cached"})
        self.write("w.yaml", """
            steps: {work: {run: 'echo $RANK $MASTER_ADDR:$MASTER_PORT', resources: {ranks: 2}, launch: node}}
        """)
        self.assertEqual(self.states(self.run_json("w.yaml")["run"]), {"work": "succeeded"})

    def test_each_pass_has_its_own_port(self):
        self.write("w.yaml", f"""
            steps:
              work:
                resources: {{ranks: 2}}
                checkpoint: {{}}
                run: |
                  echo $DLFLOW_PASS $MASTER_PORT >> {self.folder}/ports
                  [ $DLFLOW_PASS = 2 ] || {{ echo x > $DLFLOW_CHECKPOINTS/state.$RANK; exit 75; }}
        """)
        self.run_json("w.yaml")
        ports = sorted(set((self.folder / "ports").read_text().splitlines()))
        self.assertEqual([line.split()[0] for line in ports], ["1", "2"])
        self.assertNotEqual(*[line.split()[1] for line in ports])

    def test_ranks_that_each_print_a_world_of_one_get_a_warning(self):
        for printed, warnings in (("Num processes: 1", 1), ("Num processes: 12", 0), ("[[ $RANK = 0 ]] || echo Num processes: 1", 0)):
            with self.subTest(printed):
                run = self.script(json.dumps(printed if "echo" in printed else f"echo {printed}"), 2)
                errors = (pathlib.Path(self.status(run)["directory"]) / "steps/work/attempt-1/stderr").read_text()
                self.assertEqual(errors.count("warning: each of the 2 ranks printed 'Num processes: 1': they train separately"), warnings, errors)

    def test_a_script_that_reads_its_ranks_variables_is_valid(self):
        self.write("w.yaml", "steps: {work: {run: 'echo $RANK of $WORLD_SIZE at $MASTER_PORT $OTHER', resources: {ranks: 1}}}")
        _, err = self.dlflow("validate", "w.yaml", env={"RANK": "7", "WORLD_SIZE": "8", "MASTER_PORT": "9", "OTHER": "x"})
        self.assertEqual([word for word in ("$RANK", "$WORLD_SIZE", "$MASTER_PORT", "$OTHER") if word in err], ["$OTHER"])

    def test_a_script_that_reads_its_rank_without_a_number_of_ranks_gets_advice(self):
        self.write("w.yaml", "steps: {work: {run: 'echo $RANK'}}")
        _, err = self.dlflow("validate", "w.yaml")
        self.assertIn("step 'work' reads $RANK, which only steps with a number of ranks get; write resources: {ranks: 1}", err)

    @unittest.skipUnless(shutil.which("mpirun.mpich") and (BIN.parent / "lib/dlflow/libdlflow_mpi_12.so").exists(), "there is no MPICH")
    def test_ranks_of_a_command_with_another_mpi_than_the_launchers_do_not_begin(self):
        """A variable of Open MPI makes the program open that library, as one that is linked to it does."""
        self.write("mpich.yaml", "launcher: {program: mpirun.mpich}\n")
        pictures.for_training(self.folder, ROOT / "workflows", 200, 50)
        self.write("with.json", json.dumps({"model": f"{self.folder}/models/mlp.yaml", "data": f"{self.folder}/data", "epochs": 1,
                                            "lr": 0.05, "batch": 320, "validation": 20}))
        for variables, status in (("A=1", 0), ("OMPI_COMM_WORLD_SIZE=1", 1)):
            command = f"[env, {variables}, {BIN}/dlflow-train, {self.folder}/with.json]"
            self.write("w.yaml", f"steps: {{work: {{run: {command}, resources: {{ranks: 2}}}}}}")
            run = self.run_json("w.yaml", "--profile", "mpich.yaml", status=status, timeout=120)["run"]
            directory = pathlib.Path(self.status(run)["directory"])
            errors = (directory / "steps/work/attempt-1/stderr").read_text()
            self.assertRegex(errors, "2 ranks by MPICH" if status == 0 else
                             "error: rank 0: the launcher of MPICH or Intel MPI has started 2 ranks, and Open MPI .* counts 1: it is "
                             "not that launcher's MPI; start the ranks with its own mpirun ")

    @needs("torch", DEBIAN)
    def test_a_script_of_pytorch_runs_on_its_ranks(self):
        run = self.script(f"[{PYTHON}, {SCRIPTS}/sum_ranks.py]", 3)
        self.assertEqual(self.output_of(run, "work"), [f"rank {rank} of 3: 6" for rank in range(3)])

    @needs("torch", DEBIAN)
    def test_torchrun_needs_no_argument(self):
        need_torchrun(self)
        # Debian 12's version does not start with Python 3.11 unless it redirects output.
        run = self.script(f"[{PYTHON}, -m, torch.distributed.run, -r, '1', -t, '1', {SCRIPTS}/sum_ranks.py]", 3, "launch: node")
        self.assertEqual(self.output_of(run, "work"), [f"[default{rank}]:rank {rank} of 3: 6" for rank in range(3)])

    @needs("lightning")
    def test_lightning_finds_its_ranks_and_accepts_our_backend(self):
        for backend in ("gloo", "dlflow"):
            with self.subTest(backend):
                self.write("w.yaml", f"""
                    steps:
                      work:
                        run: [{NEWEST}, {SCRIPTS}/sum_lightning.py]
                        resources: {{ranks: 2}}
                        env: {{DEVICES: 2, BACKEND: {backend}, PYTHONPATH: {BIN.parent}/python}}
                """)
                printed = self.output_of(self.run_json("w.yaml", timeout=240)["run"], "work")
                self.assertEqual([line for line in printed if line.startswith("rank ")], [f"rank {rank} of 2: 3" for rank in range(2)])

    @needs("mpi4py", DEBIAN)
    def test_a_script_of_mpi4py_runs_on_its_ranks(self):
        run = self.script(f"[{PYTHON}, {SCRIPTS}/sum_mpi4py.py]", 3)
        self.assertEqual(self.output_of(run, "work"), [f"rank {rank} of 3: 6" for rank in range(3)])


if __name__ == "__main__":
    main()
