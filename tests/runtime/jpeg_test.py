"""Pictures that are kept as JPEG files and decoded when they are loaded: the same bits on any number of ranks and threads, even after a
kill; evaluate and predict read them; damage ends the run with the name of the picture."""

import json
import random
import subprocess
import unittest

from training_case import BIN, TrainingCase, main

try:
    from PIL import Image
except ImportError:
    Image = None

MODEL = """name: tiny
input: [3, 16, 16]
layers:
  - conv2d: {name: a, channels: 16, kernel: 3, padding: 1}
  - relu
  - max_pool: {name: low, kernel: 4}
  - flatten
  - linear: {name: out, features: 3}
loss: softmax_cross_entropy
"""
SETTINGS = {"epochs": 3, "batch": 32, "lr": 0.01, "optimizer": {"kind": "adam"}, "schedule": "constant", "warmup_epochs": 0,
            "validation": 40, "precision": {"leaves": 6}, "augment": ["flip", {"resized_crop": 0.5}, {"brightness": 0.1}]}


def write_pictures(folder, seed, count):
    """Class k is brightest in colour k; sizes differ, and one in ten is grey in the file of its class's brightness."""
    rng = random.Random(seed)
    for i in range(count):
        label = i % 3
        width, height = rng.randrange(20, 60), rng.randrange(20, 60)
        colour = [rng.randrange(40, 90) for _ in range(3)]
        colour[label] += 110
        picture = Image.new("RGB", (width, height), tuple(colour))
        for _ in range(6):
            x, y = rng.randrange(width), rng.randrange(height)
            picture.paste(tuple(rng.randrange(256) for _ in range(3)), (x, y, x + 4, y + 4))
        (folder / f"class-{label}").mkdir(parents=True, exist_ok=True)
        picture.save(folder / f"class-{label}/{i:03}.jpg", quality=90, progressive=i % 5 == 0)


@unittest.skipIf(Image is None, "needs Pillow (Debian: python3-pil) to write JPEG files")
class JpegData(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pictures, cls.kept = cls.data / "pictures", cls.data / "kept"
        write_pictures(cls.pictures, 1, 420)
        cls.packed = cls.pack(cls.pictures, "-o", cls.kept, "--resize", "20", "--crop", "16", "--keep-jpeg", "--test-share", "0.2")

    @classmethod
    def pack(cls, *arguments, status=0):
        done = subprocess.run([BIN / "dlflow", "data", "pack", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    def model_folder(self, name, **more):
        folder = self.folder(name, data=str(self.kept), model="model.yaml", **SETTINGS | more)
        (folder / "model.yaml").write_text(MODEL)
        return folder

    def test_a_set_of_pictures_is_as_large_as_its_files(self):
        self.assertIn("samples of 3 x 16 x 16 bytes from JPEG in 3 classes", self.packed)
        files = sum(file.stat().st_size for file in self.pictures.glob("*/*.jpg"))
        packed = sum((self.kept / f"{split}.dlset").stat().st_size for split in ("train", "test"))
        self.assertLess(files, packed)
        self.assertLess(packed, files + 420 * 100 + 2000)
        shown = json.loads(subprocess.run([BIN / "dlflow", "data", "show", self.kept, "--json"], check=True, stdout=subprocess.PIPE).stdout)
        self.assertEqual([split["pixels"] for split in shown], ["jpeg", "jpeg"])
        self.assertEqual([c["name"] for c in shown[0]["classes"]], ["class-0", "class-1", "class-2"])
        subprocess.run([BIN / "dlflow", "data", "verify", self.kept], check=True, stdout=subprocess.DEVNULL)

    def test_any_number_of_ranks_and_threads_trains_the_same_bits(self):
        alone = self.model_folder("alone", loader_threads=1)
        summary = self.train(alone, 1)
        self.assertGreater(summary["accuracy"], 0.9)
        for ranks, threads in ((1, 4), (2, None), (2, 2), (3, 3)):
            with self.subTest(ranks=ranks, threads=threads):
                folder = self.model_folder("ranks", **({"loader_threads": threads} if threads else {}))
                other = self.train(folder, ranks)
                self.assertEqual(self.bits(folder), self.bits(alone))
                self.assertEqual(other["accuracy"], summary["accuracy"])

    def test_a_rank_with_two_cores_decodes_on_both_to_the_same_bits(self):
        one, both = self.model_folder("one", loader_threads=1), self.model_folder("both")
        for folder in (one, both):
            self.train(folder, 2, DLFLOW_CPUS_PER_RANK="2")
        self.assertEqual(self.bits(both), self.bits(one))

    def test_shards_train_the_same_bits(self):
        normalize = {"mean": 0.4, "std": 0.2}
        alone = self.model_folder("alone", normalize=normalize)
        self.train(alone, 1)
        shards = self.data / "shards"
        self.pack(self.kept, "-o", shards, "--shards", "5")
        for more in ({"data": str(shards)}, {"data": str(shards), "loader_threads": 2}):
            with self.subTest(**more):
                folder = self.model_folder("sharded", normalize=normalize)
                settings = json.loads((folder / "with.json").read_text()) | more
                (folder / "with.json").write_text(json.dumps(settings))
                self.train(folder, 2)
                self.assertEqual(self.bits(folder), self.bits(alone))

    def test_a_killed_run_continues_on_another_number_of_ranks_to_the_same_bits(self):
        whole = self.model_folder("whole", epochs=8)
        self.train(whole, 1)
        killed = self.model_folder("killed", epochs=8, loader_threads=3)
        self.train_with_kills(killed, [(2, 3)], 3)
        self.assertEqual(self.bits(killed), self.bits(whole))

    def test_evaluate_and_predict_agree_on_any_number_of_threads(self):
        folder = self.model_folder("trained")
        self.train(folder, 1)
        results, predictions = [], []
        for ranks, threads in ((1, 1), (1, 3), (2, 2)):
            request = {"data": str(self.kept), "batch": 20, "loader_threads": threads}
            summary, _ = self.program(folder, "evaluate", ranks, **request)
            results.append([summary[key] for key in ("accuracy", "loss")])
            self.program(folder, "predict", ranks, **request)
            predictions.append((folder / "outputs/predictions.csv").read_text())
        self.assertGreater(results[0][0], 0.9)
        self.assertEqual(results, results[:1] * 3)
        self.assertEqual(predictions, predictions[:1] * 3)

    def test_all_bad_pictures_are_reported_at_once(self):
        bad = self.data / "bad"
        write_pictures(bad, 2, 6)
        cut = bad / "class-0/000.jpg"
        cut.write_bytes(cut.read_bytes()[:-200])
        (bad / "class-1/notes.txt").write_text("no picture")
        errors = self.pack(bad, "-o", self.data / "none", "--resize", "20", "--crop", "16", "--keep-jpeg", status=2)
        self.assertIn("2 of 7 samples cannot be used", errors)
        self.assertIn("000.jpg: is a damaged JPEG file", errors)
        self.assertIn("notes.txt: is not a JPEG file", errors)
        self.assertFalse((self.data / "none/train.dlset").exists())

    def test_a_damaged_set_ends_the_run(self):
        damaged = self.data / "damaged"
        damaged.mkdir()
        content = bytearray((self.kept / "train.dlset").read_bytes())
        at = content.rfind(b"\xff\xd8\xff") + 300
        content[at] ^= 255
        (damaged / "train.dlset").write_bytes(content)
        folder = self.model_folder("damaged", normalize={"mean": 0.4, "std": 0.2})
        settings = json.loads((folder / "with.json").read_text()) | {"data": str(damaged), "validation": 0, "loader_threads": 2}
        (folder / "with.json").write_text(json.dumps(settings))
        status, _, errors = self.run_to_end(folder, 2)
        self.assertEqual(status, 1, errors)
        self.assertIn("train.dlset: bytes", errors)
        self.assertIn("are damaged", errors)


if __name__ == "__main__":
    main()
