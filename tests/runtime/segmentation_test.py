"""Networks that predict a class for each pixel: the same bits on any number of ranks, even after a kill; IoU and masks equal to those
computed here; results as good as those of a twin in PyTorch; refusals."""

import csv
import json
import math
import random
import subprocess

from training_case import BIN, TrainingCase, main

SIDE, CLASSES, IGNORED = 12, ["ground", "bright", "dark stripe"], 255
MODEL = f"""name: tiny
input: [1, {SIDE}, {SIDE}]
layers:
  - conv2d: {{name: a, channels: 16, kernel: 3, padding: 1}}
  - relu
  - max_pool: {{name: low, kernel: 2}}
  - conv2d: {{name: b, channels: 16, kernel: 3, padding: 1}}
  - relu
  - conv_transpose2d: {{name: up, channels: 16, kernel: 2, stride: 2}}
  - concat: {{from: [a, up]}}
  - conv2d: {{name: out, channels: 3, kernel: 1}}
loss: LOSS
"""
SETTINGS = {"epochs": 2, "batch": 32, "lr": 0.01, "optimizer": {"kind": "adam"}, "schedule": "constant", "warmup_epochs": 0,
            "validation": 40, "precision": {"leaves": 4}}
LOSSES = ("pixel_cross_entropy", "dice", "pixel_cross_entropy_and_dice")
MEASURES = ("loss", "iou", "dice", "pixel_accuracy")


def samples(seed, count):
    """Pictures with a bright square and a dark stripe, and their masks; a frame around the square has no class."""
    rng = random.Random(seed)
    for _ in range(count):
        picture = [rng.randrange(80, 140) for _ in range(SIDE * SIDE)]
        mask = [0] * (SIDE * SIDE)
        row = rng.randrange(SIDE)
        for x in range(SIDE):
            picture[row * SIDE + x] = rng.randrange(0, 60)
            mask[row * SIDE + x] = 2
        top, left = rng.randrange(SIDE - 5), rng.randrange(SIDE - 5)
        for y in range(top, top + 5):
            for x in range(left, left + 5):
                picture[y * SIDE + x] = rng.randrange(160, 240)
                mask[y * SIDE + x] = IGNORED if x in (left, left + 4) else 1
        yield bytes(picture), bytes(mask)


def measures_of(masks, predicted):
    """IoU and Dice, means over the classes, and the share of correct pixels among those that count."""
    pairs = [(t, p) for mask, guess in zip(masks, predicted) for t, p in zip(mask, guess) if t != IGNORED]
    ious, dices = [], []
    for c in range(3):
        both = sum(t == c and p == c for t, p in pairs)
        each = sum(t == c for t, _ in pairs) + sum(p == c for _, p in pairs)
        if each:
            ious.append(both / (each - both))
            dices.append(2 * both / each)
    return {"iou": sum(ious) / len(ious), "dice": sum(dices) / len(dices), "pixel_accuracy": sum(t == p for t, p in pairs) / len(pairs)}, ious


class Segmentation(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.masks = cls.data / "masks-packed"
        for split, seed, count in (("train", 1, 400), ("test", 2, 90)):
            source = cls.data / split
            for name in ("images", "masks"):
                (source / name).mkdir(parents=True)
            (source / "classes.txt").write_text("\n".join(CLASSES) + "\n")
            for i, sample in enumerate(samples(seed, count)):
                for name, pixels in zip(("images", "masks"), sample):
                    (source / f"{name}/{i:03}.pgm").write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + pixels)
            output = cls.run_dlflow("data", "pack", source, "-o", cls.masks, "--split", split)
            assert f"{count} samples of 1 x 12 x 12 bytes with masks of 3 classes" in output, output

    @classmethod
    def run_dlflow(cls, *arguments):
        return subprocess.run([BIN / "dlflow", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout

    def model_folder(self, loss, data=None, **more):
        folder = self.folder(loss, data=str(data or self.masks), model="model.yaml", **SETTINGS | more)
        (folder / "model.yaml").write_text(MODEL.replace("LOSS", loss))
        return folder

    def program(self, folder, name, ranks=1, **request):
        return super().program(folder, name, ranks, **{"data": str(self.masks), "batch": 20} | request)

    def predicted(self, folder, ranks, **more):
        self.program(folder, "predict", ranks, format="npy", **more)
        content = (folder / "outputs/predictions.npy").read_bytes()
        self.assertIn(b"{'descr': '|u1', 'fortran_order': False, 'shape': (90, 12, 12,), }", content[:128])
        numbers = content[-90 * SIDE * SIDE :]
        return [numbers[i : i + SIDE * SIDE] for i in range(0, len(numbers), SIDE * SIDE)]

    def test_any_number_of_ranks_trains_the_same_bits(self):
        for loss in LOSSES:
            augment = ["flip", "crop", {"rotate": 10}, {"brightness": 0.2}] if loss == "dice" else []
            weights = [1, 2, 3] if loss != "pixel_cross_entropy" else [1, 1, 1]
            with self.subTest(loss=loss):
                _, summary = self.assert_same_bits(lambda: self.model_folder(loss, augment=augment, class_weights=weights), (2, 3), MEASURES)
                self.assertLessEqual(set(MEASURES), summary.keys())
                self.assertNotIn("accuracy", summary)

    def test_a_killed_run_continues_on_another_number_of_ranks_to_the_same_bits(self):
        whole = self.model_folder(LOSSES[2])
        self.train(whole, 1)
        killed = self.model_folder(LOSSES[2])
        self.train_with_kills(killed, [(2, 6)], 3)
        self.assertEqual(self.bits(killed), self.bits(whole))

    def test_metrics_of_predicted_masks_equal_those_counted_in_python(self):
        folder = self.model_folder(LOSSES[2], epochs=6)
        self.train(folder, 2)
        masks = self.predicted(folder, 1)
        self.assertEqual(self.predicted(folder, 2), masks)
        bare = self.data / "no-masks"
        (bare / "pictures").mkdir(parents=True)
        for picture in (self.data / "test/images").iterdir():
            (bare / "pictures" / picture.name).write_bytes(picture.read_bytes())
        self.run_dlflow("data", "pack", bare, "-o", self.data / "no-masks-packed", "--split", "test")
        self.assertEqual(self.predicted(folder, 1, data=str(self.data / "no-masks-packed")), masks)
        expected, ious = measures_of([mask for _, mask in samples(2, 90)], masks)
        self.assertGreater(expected["iou"], 0.85)
        summary, output = self.program(folder, "evaluate")
        for name, value in expected.items():
            self.assertAlmostEqual(summary[name], value, places=12)
        for name, value in zip(("ground", "bright", "dark_stripe"), ious):
            self.assertAlmostEqual(summary["iou_of_" + name], value, places=12)
        self.assertRegex(output, r"^iou 0\.\d{4}, dice 0\.\d{4}, pixel accuracy 0\.\d{4}, loss 0\.\d{4}, 90 samples\n")
        self.assertRegex(output, r"\n +\d+ +0\.\d{4}  2 dark stripe\n")
        with open(folder / "confusion.csv", newline="") as file:
            head, *table = csv.reader(file)
        self.assertEqual(head[1:], ["ground", "bright", "dark stripe"])
        self.assertEqual([row[0] for row in table], head[1:])
        rows = [[int(cell) for cell in row[1:]] for row in table]
        self.assertEqual(sum(map(sum, rows)), sum(t != IGNORED for _, mask in samples(2, 90) for t in mask))
        shared = self.program(folder, "evaluate", 3)[0]
        self.assertEqual([shared[key] for key in MEASURES], [summary[key] for key in MEASURES])

    def test_a_copy_on_the_node_and_shards_change_nothing(self):
        same = {"normalize": {"mean": [120], "std": [50]}}
        plain = self.model_folder(LOSSES[0], **same)
        self.train(plain, 1)
        shards = self.data / "shards"
        self.run_dlflow("data", "pack", self.masks, "-o", shards, "--shards", "3")
        for more in ({"data": shards}, {"scratch": True}):
            with self.subTest(more=more):
                folder = self.model_folder(LOSSES[0], **same | more)
                self.train(folder, 2)
                self.assertEqual(self.bits(folder)[0], self.bits(plain)[0])

    def test_the_best_epoch_is_that_of_the_highest_iou(self):
        folder = self.model_folder(LOSSES[0], keep_best="iou", epochs=3, stop_early={"metric": "pixel_accuracy", "patience": 3})
        summary = self.train(folder, 1)
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(summary["iou"], max(line["iou"] for line in lines if "iou" in line))

    def test_training_reaches_the_result_of_the_same_training_in_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
        for loss in LOSSES:
            folder = self.model_folder(loss, epochs=6, validation=0)
            self.train(folder, 2)
            ours, twin = self.program(folder, "evaluate")[0]["iou"], twin_iou(torch, loss, 6)
            with self.subTest(loss=loss, ours=ours, twin=twin):
                self.assertGreater(ours, twin - 0.05)

    def test_samples_whose_pixels_are_all_ignored_are_not_measured(self):
        folder = self.model_folder("pixel_cross_entropy", epochs=1)
        self.train(folder, 1)
        measured = {}
        for name, count, ignored in (("first", 60, 0), ("some", 90, 30), ("all", 90, 90)):
            source = self.data / f"ignored-{name}"
            for part in ("images", "masks"):
                (source / part).mkdir(parents=True)
            (source / "classes.txt").write_text("\n".join(CLASSES) + "\n")
            for i, (picture, mask) in enumerate(list(samples(2, 90))[:count]):
                mask = bytes([IGNORED]) * len(mask) if i >= count - ignored else mask
                for part, pixels in (("images", picture), ("masks", mask)):
                    (source / f"{part}/{i:03}.pgm").write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + pixels)
            packed = self.data / f"ignored-{name}-packed"
            self.run_dlflow("data", "pack", source, "-o", packed, "--split", "test")
            measured[name], output = self.program(folder, "evaluate", data=str(packed))
        self.assertEqual([name for name in MEASURES if name in measured["all"]], [])
        self.assertIn("not measured", output)
        for name in MEASURES:
            self.assertAlmostEqual(measured["some"][name], measured["first"][name], places=6)

    def test_data_and_settings_that_do_not_match_are_refused(self):
        mixed = {"augment": [{"mixup": 0.2}]}
        cases = (({}, "softmax_cross_entropy", "model.yaml:11:5: error: the last layer must give one score per class"),
                 ({"data": self.data}, "dice", "which needs a class per pixel, but the training data has labels"),
                 (mixed, "dice", "'augment.mixup' and 'augment.cutmix' mix labels; model 'tiny' has 'loss: dice'"),
                 ({"label_smoothing": 0.1}, "dice", "'label_smoothing' spreads labels over classes; the loss of model 'tiny' has no labels"),
                 ({"sampling": "balanced"}, "dice", "the training data have a class per pixel; use 'class_weights' to weight the classes"),
                 ({"class_weights": [1, 2]}, "dice", "'class_weights' has 2 numbers for the 3 classes of model 'tiny'"))
        for more, loss, text in cases:
            with self.subTest(text=text):
                if more.get("data") == self.data:
                    more = {"data": self.small_pictures()}
                status, _, errors = self.run_to_end(self.model_folder(loss, **more), 1)
                self.assertEqual(status, 1)
                self.assertIn(text, errors)
        folder = self.model_folder("dice", epochs=1)
        self.train(folder, 1)
        (folder / "with.json").write_text(json.dumps({"checkpoint": "checkpoints/latest", "data": str(self.masks)}))
        status, _, errors = self.run_to_end(folder, 1, "dlflow-predict")
        self.assertIn("or in a step 'format: npy'", errors)

    def small_pictures(self):
        """Pictures of the same size with labels."""
        source = self.data / "labelled"
        for name in ("a", "b"):
            (source / name).mkdir(parents=True, exist_ok=True)
            for i, (picture, _) in enumerate(samples(3, 50)):
                (source / f"{name}/{i}.pgm").write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + picture)
        self.run_dlflow("data", "pack", source, "-o", self.data / "labels")
        return self.data / "labels"


def twin_iou(torch, loss, epochs):
    """The IoU of PyTorch's network on the test pictures, after as many steps of the same size."""
    functional = torch.nn.functional
    torch.manual_seed(1)
    torch.set_num_threads(1)

    def tensors(seed, count):
        pictures, masks = zip(*samples(seed, count))
        shape = (count, SIDE, SIDE)
        return (torch.tensor([list(p) for p in pictures], dtype=torch.float32).reshape(shape)[:, None],
                torch.tensor([list(m) for m in masks]).reshape(shape))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.Conv2d(16, 16, 3, padding=1)
            self.up, self.out = torch.nn.ConvTranspose2d(16, 16, 2, 2), torch.nn.Conv2d(32, 3, 1)

        def forward(self, x):
            a = self.a(x)
            up = self.up(functional.relu(self.b(functional.max_pool2d(functional.relu(a), 2))))
            return self.out(torch.cat([a, up], 1))

    def loss_of(scores, mask):
        counts = (mask != IGNORED).float()[:, None]
        own = functional.one_hot(torch.where(mask == IGNORED, 0, mask), 3).movedim(-1, 1) * counts
        p = scores.softmax(1) * counts
        dice = 1 - ((2 * (p * own).sum((2, 3)) + 1) / (p.sum((2, 3)) + own.sum((2, 3)) + 1)).mean()
        entropy = functional.cross_entropy(scores, mask, ignore_index=IGNORED)
        return {"dice": dice, "pixel_cross_entropy": entropy}.get(loss, dice + entropy)

    (images, masks), (test_images, test_masks) = tensors(1, 400), tensors(2, 90)
    mean, deviation = images.mean(), images.std(unbiased=False)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=SETTINGS["lr"])
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(SETTINGS["batch"]):
            optimizer.zero_grad()
            loss_of(model((images[batch] - mean) / deviation), masks[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        guesses = model((test_images - mean) / deviation).argmax(1)
    flat = [[int(v) for v in tensor.flatten()] for tensor in (test_masks, guesses)]
    iou = measures_of([flat[0]], [flat[1]])[0]["iou"]
    assert math.isfinite(iou)
    return iou


if __name__ == "__main__":
    main()
