"""`run --dry-run` for a cluster: limits are checked as in the real run, and the intended submissions are shown."""

import json

from slurm_support import INVALID, ChainCase
from support import main


class DryRun(ChainCase):
    def setUp(self):
        super().setUp()
        self.nothing_runs()
        self.write_steps("""
            data: {run: ['true'], resources: {walltime: 10m}}
            train: {run: ['true'], matrix: {lr: [1, 2, 3]}, needs: [data], resources: {ranks: 2, walltime: 1h}}
            best: {run: ['true'], needs: [train]}
        """)

    def dry_run(self, *words, status=0):
        return self.dlflow("run", "w.yaml", "--dry-run", "--profile", "alpha", *words, status=status)

    def test_a_dry_run_shows_jobs_arrays_partitions_time_limits_and_dependencies(self):
        out, _ = self.dry_run()
        lines = [line.split() for line in out.splitlines()]
        self.assertIn(["1", "data", "1", "1", "1", "11:00", "batch", "-"], lines)
        self.assertIn(["2", "train", "array", "of", "3", "2", "-", "1:01:00", "batch", "1"], lines)
        self.assertIn(["3", "best", "1", "1", "1", "-", "batch", "2"], lines)
        self.assertTrue(out.endswith("5 jobs in 3 submissions to alpha would run, 0 are reused; nothing was run.\n"), out)
        self.assertEqual(self.slurm.jobs(), {})
        self.assertEqual(self.dlflow("status", "--quick", "--quiet")[0], "")
        self.assertFalse((self.folder / "runs").exists())

    def test_a_dry_run_shows_how_many_input_files_a_sweep_copies(self):
        for name in ("a.py", "b.py"):
            self.write(name, "pass")
        self.write_steps("""
            train: {run: python3 a.py, inputs: [a.py, b.py], matrix: {lr: "${{ range(1, 50, 1) }}"}}
            test: {run: python3 a.py, inputs: [a.py]}
        """)
        out, _ = self.dry_run()
        self.assertIn("train: 2 input files for each of 50 jobs, 100 copies\n", out)
        self.assertNotIn("test: 1", out)
        self.write_steps("""
            train: {run: python3 a.py, inputs: [a.py, b.py], matrix: {lr: [1, 2, 3]}}
        """)
        self.assertNotIn("copies", self.dry_run()[0])

    def test_a_dry_run_shows_elements_and_shared_tasks(self):
        self.write_steps("""
            score: {run: ['true'], matrix: {n: "${{ range(1, 40, 1) }}", pack: 20}, resources: {walltime: 1m}}
        """)
        out, _ = self.dry_run()
        self.assertIn(["1", "score", "40", "elements", "in", "2", "tasks", "1", "1", "30:00", "batch", "-"],
                      [line.split() for line in out.splitlines()])
        batch, = json.loads(self.dry_run("--json")[0])["batches"]
        self.assertEqual((len(batch["jobs"]), batch["tasks"]), (40, [0, 1]))
        self.assertIn("#SBATCH --array=0,1", batch["script"])

    def test_each_step_has_the_partition_of_its_class(self):
        self.profile("classes: {cpu: {}, fast: {slurm: {partition: short}, limits: {walltime: 5m}}, here: {local: true}}\n")
        self.write_steps("""
            fetch: {on: here, run: 'true', matrix: {n: [1, 2]}}
            many: {run: 'true', needs: [fetch]}
            few: {on: fast, run: 'true', needs: [many]}
        """)
        out, _ = self.dry_run()
        rows = [line.split() for line in out.splitlines()]
        self.assertEqual([row[-2:] for row in rows if row[1:2] in (["many"], ["few"])][-2:], [["batch", "-"], ["short", "1"]])
        self.assertEqual(out.count("fetch runs here, on the login node.\n"), 1)
        self.assertEqual([batch["partition"] for batch in json.loads(self.dry_run("--json")[0])["batches"]], ["batch", "short"])
        for batch in json.loads(self.dry_run("--json")[0])["batches"]:
            self.assertIn(f"#SBATCH --partition={batch['partition']}\n", batch["script"])

    def test_exceeded_limits_are_refused_as_in_the_real_run(self):
        self.profile("limits: {walltime: 30m}\n")
        refusal = self.dry_run(status=INVALID)[1]
        self.assertIn("allows 30 min per job, but step 'train' asks for 1 h", refusal)
        self.assertEqual(refusal, self.dlflow("run", "w.yaml", "--profile", "alpha", status=INVALID)[1])

    def test_scripts_of_a_dry_run_equal_the_submitted_and_kept_ones(self):
        scripts = [batch["script"] for batch in json.loads(self.dry_run("--json")[0])["batches"]]
        self.assertIn(scripts[1], self.dry_run("-v")[0])
        self.assertIn("#SBATCH --dependency=afterok:JOB1", scripts[1])
        run = self.submit()
        folder = self.folder / "runs" / run
        kept = sorted((folder / "batches").glob("*.sh"))
        self.assertEqual([file.name.split(".")[2] for file in kept], ["data", "train", "best"])
        for file, script in zip(kept, scripts):
            text = file.read_text()
            real = [line for line in text.splitlines() if "--job-name" not in line and "--dependency" not in line]
            shown = [line for line in script.splitlines() if "--job-name" not in line and "--dependency" not in line]
            strip = lambda lines: [line.replace(str(folder), "F").replace(str(self.folder / "runs/RUN"), "F").replace(run, "RUN")  # noqa: E731
                                   for line in lines]
            self.assertEqual([line.split(".")[0] for line in strip(real)], [line.split(".")[0] for line in strip(shown)])

    def test_a_dry_run_on_this_machine_checks_limits(self):
        self.write("w.yaml", "name: w\nsteps:\n  a: {run: ['true'], resources: {memory: 4TiB}}\n")
        self.assertIn("asks for 4.0 TiB", self.dlflow("run", "w.yaml", "--dry-run", status=INVALID)[1])


if __name__ == "__main__":
    main()
