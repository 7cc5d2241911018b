"""`cache:`: the same results from memory, a node's disk and the data itself, and what is damaged or full is noticed."""

import json
import re
import subprocess
import sys

from support import BIN, ROOT, Case, main

sys.path.insert(0, str(ROOT / "tests/support"))
import dlset  # noqa: E402
import pictures  # noqa: E402

CHUNK = 16 * 784  # bytes; 1,000 pictures are 63 chunks


class Cache(Case):
    def setUp(self):
        super().setUp()
        (self.folder / "idx").mkdir()
        (self.folder / "data").mkdir()
        files = pictures.write(self.folder / "idx", 1000, 100, suffix="")
        for name, images, labels in (("train", *files[:2]), ("test", *files[2:])):
            dlset.write(self.folder / f"data/{name}.dlset", images.read_bytes()[16:], labels.read_bytes()[8:], (1, 28, 28), 10, 16)
        (self.folder / "models").symlink_to(ROOT / "workflows/models")
        self.disk = self.folder / "disk"
        self.disk.mkdir()

    def files_on(self, disk):
        return [path.name for path in disk.glob("dlflow-*/*") if path.name != "registry"]

    def start_training(self, cache, ranks=1, epochs=3, **environment):
        folder = self.folder / f"by-hand-{len(list(self.folder.glob('by-hand-*')))}"
        folder.mkdir()
        settings = {"model": str(ROOT / "workflows/models/mlp.yaml"), "data": str(self.folder / "data"), "epochs": epochs, "lr": 0.05,
                    "batch": 32, "precision": {"leaves": 3}, "validation": 30, "augment": ["crop", "flip"],
                    "normalize": {"mean": 0.25, "std": 0.2}}
        (folder / "with.json").write_text(json.dumps(settings | ({"cache": cache} if cache else {})))
        command = [BIN / "dlflow-train", "with.json"]
        if ranks > 1:
            command = ["mpirun", "-np", str(ranks)] + command
        mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        process = subprocess.Popen(command, cwd=folder, env=self.env | mpi | {"DLFLOW_SCRATCH": str(self.disk)} | environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        return process, folder

    def train(self, cache, status=0, **more):
        """What is said on standard error, and the folder."""
        process, folder = self.start_training(cache, **more)
        _, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, said)
        return said, folder

    def bits(self, folder):
        newest = folder / "checkpoints/latest"
        return [(newest / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")]

    def summary(self, folder):
        return json.loads((folder / "metrics.json").read_text())

    def damage(self, file, image):
        with open(file, "r+b") as stream:
            stream.seek(dlset.offset_of_image(file, image))
            stream.write(b"\x01\x02\x03")

    def test_ranks_share_one_cache_and_train_to_the_same_bits_whatever_its_size(self):
        expected = self.bits(self.train(None)[1])
        everything = {"memory": "1MiB"}
        half = {"memory": 40 * CHUNK, "scratch": "1MiB"}
        tight = {"memory": 60 * CHUNK}
        for ranks in (1, 2, 3):
            for cache in (everything, half, tight):
                with self.subTest(ranks=ranks, **cache):
                    said, folder = self.train(cache, ranks=ranks)
                    self.assertEqual(said, "")
                    self.assertEqual(self.bits(folder), expected)
                    summary = self.summary(folder)
                    if cache is not tight:
                        self.assertEqual(summary["data_source_bytes"], 784000)
                    self.assertEqual(summary["data_scratch_bytes"] > 0, cache is half)
                    self.assertGreaterEqual(summary["data_wait_s"], 0)
        self.assertEqual(self.files_on(self.disk), [])

    def test_a_workflow_with_a_cache_is_the_same_work_as_one_without(self):
        def run(cache):
            self.write("w.yaml", f"""
                name: w
                steps:
                  train:
                    uses: train
                    resources: {{ranks: 2}}
                    with: {{model: models/mlp.yaml, data: data, epochs: 1, lr: 0.05, validation: 100, normalize: {{mean: 0.25, std: 0.2}}{cache}}}
                  evaluate:
                    uses: evaluate
                    with: {{checkpoint: "${{{{ steps.train.outputs.model }}}}", data: data{cache}}}
            """)
            return self.run_json("w.yaml")["run"]
        first = run(", cache: {memory: 2MiB, scratch: 10MiB, share: true}")
        metrics = {step["name"]: step["metrics"] for step in self.status(first)["steps"]}
        self.assertEqual(metrics["train"]["data_source_bytes"], 784000)
        self.assertEqual(metrics["evaluate"]["data_source_bytes"], 78400)
        self.assertEqual(set(self.states(run("")).values()), {"cached"})

    def test_mistakes_are_found_before_the_run(self):
        self.write("w.yaml", """
            name: w
            steps:
              train:
                uses: train
                with: {model: models/mlp.yaml, data: data, epochs: 1, lr: 0.05, cache: {memory: much, disk: 1GiB}}
        """)
        _, err = self.dlflow("validate", "w.yaml", status=2)
        self.assertIn("unknown key 'disk'", err)
        self.assertIn("much", err)

    def test_data_that_is_damaged_ends_training_and_is_named(self):
        train = self.folder / "data/train.dlset"
        self.damage(train, 333)
        for ranks in (1, 2):
            said, _ = self.train({"memory": "1MiB"}, status=1, ranks=ranks)
            self.assertIn(f"{train}: a part came damaged, and is read once more", said)
            self.assertRegex(said, f"error: .*{train}: bytes \\d+ to \\d+ are damaged: their SHA-256 does not hold, twice; copy it again")

    def test_labels_that_are_damaged_and_data_without_hashes_are_refused(self):
        with open(self.folder / "data/train.dlset", "r+b") as stream:
            stream.seek(130)
            stream.write(b"\x01")
        said, _ = self.train({"memory": "1MiB"}, status=1)
        self.assertIn("the SHA-256 of its labels and hashes does not hold", said)
        (self.folder / "data/train.dlset").unlink()
        for file in (self.folder / "idx").iterdir():
            file.rename(self.folder / "data" / file.name)
        said, _ = self.train({"memory": "1MiB"}, status=1)
        self.assertIn("IDX files have no hashes of their parts, which 'cache' needs; pack them: dlflow data pack", said)

    def test_a_memory_that_is_too_small_is_refused_with_what_would_do(self):
        said, _ = self.train({"memory": "100KiB"}, status=1)
        advice = re.search(r"'cache.memory' of 100.0 KiB is too small: .* up to (\d+) parts .*; give it at least ([0-9.]+) KiB", said)
        self.assertIsNotNone(advice, said)
        self.assertAlmostEqual(float(advice[2]), int(advice[1]) * CHUNK / 1024, delta=0.06)
        self.train({"memory": f"{float(advice[2]) + 0.1:.1f}KiB"})

    def test_a_disk_that_is_missing_too_small_or_over_budget_costs_a_warning(self):
        cache = {"memory": 40 * CHUNK, "scratch": "1MiB"}
        warning = "^warning: .*: the cache goes on without the node's disk: .*"
        expected = self.bits(self.train(None)[1])
        for environment, why in (({"DLFLOW_SCRATCH": str(self.folder / "no")}, "No such file or directory"),
                                 ({"DLFLOW_SCRATCH_BUDGET": "1000"}, "do not fit into the scratch_budget")):
            said, folder = self.train(cache, ranks=2, **environment)
            self.assertRegex(said, warning + why)
            self.assertEqual(len(said.splitlines()), 1)
            self.assertEqual(self.bits(folder), expected)
        small = self.small_disk("small", "64k")
        said, folder = self.train(cache, DLFLOW_SCRATCH=str(small))
        self.assertRegex(said, warning + "No space left on device")
        self.assertEqual(self.bits(folder), expected)
        self.assertEqual(self.files_on(small), [])

    def test_what_a_killed_job_left_is_taken_away_and_not_believed(self):
        cache = {"memory": 40 * CHUNK, "scratch": "1MiB"}
        process, folder = self.start_training(cache, epochs=100000)
        self.wait_for(lambda: (folder / "metrics.jsonl").exists(), what="training")
        left = self.files_on(self.disk)
        self.assertEqual(len(left), 2)  # the room and its lock
        process.kill()
        process.communicate()
        self.assertEqual(self.files_on(self.disk), left)
        for room in self.disk.glob("dlflow-*/*/chunks"):
            room.write_bytes(b"\xff" * room.stat().st_size)
        _, folder = self.train(cache)
        self.assertEqual(self.bits(folder), self.bits(self.train(None)[1]))
        self.assertEqual(self.files_on(self.disk), [])


if __name__ == "__main__":
    main()
