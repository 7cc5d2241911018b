"""`scratch: true`: data is copied to a node's own disk once, and training goes on without the copy if the disk cannot take it."""

import json
import subprocess
import sys

from support import BIN, ROOT, Case, main

sys.path.insert(0, str(ROOT / "tests/support"))
import pictures  # noqa: E402


class Scratch(Case):
    def setUp(self):
        super().setUp()
        pictures.for_training(self.folder, ROOT / "workflows", 1000, 100)
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.write("node.yaml", f"paths: {{scratch: {self.disk}}}\nscratch_budget: 10MiB\n")

    def workflow(self, epochs, scratch="true"):
        self.write_steps(f"""
            train:
              uses: train
              resources: {{ranks: 2}}
              with: {{model: models/mlp.yaml, data: data, epochs: {epochs}, lr: 0.05, validation: 100, scratch: {scratch}}}
            evaluate:
              uses: evaluate
              with: {{checkpoint: "${{{{ steps.train.outputs.model }}}}", data: data, scratch: {scratch}}}
        """)

    def attempt(self, run, step):
        return self.folder / "dlflow-runs" / run / "steps" / step / "attempt-1"

    def said(self, run, step):
        file = self.attempt(run, step) / "stdout"
        return file.read_text() if file.exists() else ""

    def copies(self):
        return [path.name for path in self.disk.glob("dlflow-*/*") if path.name != "registry"]

    def start_training(self, epochs, **environment):
        """dlflow-train alone, without an engine."""
        folder = self.folder / f"by-hand-{len(list(self.folder.glob('by-hand-*')))}"
        folder.mkdir()
        (folder / "with.json").write_text(json.dumps(
            {"model": str(ROOT / "workflows/models/mlp.yaml"), "data": str(self.folder / "data"), "epochs": epochs, "lr": 0.05,
             "validation": 100, "scratch": True}))
        return subprocess.Popen([BIN / "dlflow-train", "with.json"], cwd=folder, env=self.env | environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def train(self, **environment):
        """What a whole training prints on standard error."""
        process = self.start_training(1, **environment)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        return said

    def test_ranks_of_a_node_read_one_temporary_copy_and_no_result_depends_on_it(self):
        self.workflow(epochs=1)
        run = self.run_json("w.yaml", "--profile", "node.yaml")["run"]
        for step, size in (("train", "766.6 KiB"), ("evaluate", "76.7 KiB")):
            self.assertEqual(self.said(run, step).count(" data copied to "), 1, self.said(run, step))
            message = json.loads((self.attempt(run, step) / "metrics.jsonl").read_text().splitlines()[0])["message"]
            self.assertEqual(message, f"{size} of data on the disk of 1 of 1 node")
        self.assertEqual(self.copies(), [])
        self.workflow(epochs=1, scratch="false")
        again = self.run_json("w.yaml", "--profile", "node.yaml")["run"]
        self.assertEqual(set(self.states(again).values()), {"cached"})

    def test_a_second_job_on_the_node_finds_the_copy_of_the_first(self):
        self.workflow(epochs=100000)
        first = self.start("run", "w.yaml", "--profile", "node.yaml", "--until", "train")
        self.wait_for(lambda: self.dlflow("status", "--quick", "--quiet")[0].split(), what="the first run")
        run = self.dlflow("status", "--quick", "--quiet")[0].split()[0]
        self.wait_for(lambda: " data copied to " in self.said(run, "train"), what="the copy")
        self.workflow(epochs=1)
        other = self.run_json("w.yaml", "--profile", "node.yaml", "--until", "train")["run"]
        self.assertIn(" data found in ", self.said(other, "train"))
        self.assertEqual(len(self.copies()), 2)  # including its lock; still in use
        self.dlflow("cancel", run)
        first.communicate(timeout=60)
        self.wait_for(lambda: not self.copies(), what="the last job to take the copy away")

    def test_a_copy_that_a_killed_job_left_is_removed_by_the_next(self):
        process = self.start_training(100000, DLFLOW_SCRATCH=str(self.disk))
        self.assertIn(" data copied to ", process.stdout.readline())
        process.kill()
        process.communicate()
        self.assertEqual(len(self.copies()), 2)
        pictures.write(self.folder / "data", 900, 100, suffix="")
        self.train(DLFLOW_SCRATCH=str(self.disk))
        self.assertEqual(self.copies(), [])

    def test_a_disk_that_is_missing_too_small_or_over_budget_causes_a_warning(self):
        warning = "reads the data in place, without a copy: "
        self.assertEqual(self.train(DLFLOW_SCRATCH=str(self.disk)), "")
        for environment, why in (({"DLFLOW_SCRATCH": str(self.folder / "no")}, "No such file or directory"),
                                 ({"DLFLOW_SCRATCH": str(self.folder / "node.yaml")}, "Not a directory"),
                                 ({"DLFLOW_SCRATCH": str(self.disk), "DLFLOW_SCRATCH_BUDGET": "500000"}, "do not fit into the")):
            said = self.train(**environment)
            self.assertEqual(len(said.splitlines()), 1)
            self.assertRegex(said, f"^warning: .*{warning}.*{why}")
        self.assertEqual(self.copies(), [])

    def test_a_disk_that_is_full_or_read_only_causes_a_warning(self):
        small = self.small_disk("small", "64k")
        self.assertIn("No space left on device", self.train(DLFLOW_SCRATCH=str(small)))
        self.assertEqual([path.name for path in small.glob("dlflow-*/*") if path.name != "registry"], [])
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        self.assertIn("Read-only file system", self.train(DLFLOW_SCRATCH=str(small)))


if __name__ == "__main__":
    main()
