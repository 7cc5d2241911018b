"""Networks that learn numbers from tables: the same bits on any number of ranks, even after a kill; results as good as those of a twin
in PyTorch; refusals of data that does not match the loss."""

import csv
import json
import math
import random
import shutil
import struct
import subprocess

from training_case import BIN, TrainingCase, main

MODEL = "name: tiny\ninput: [{features}]\nlayers:\n  - linear: {{features: 16}}\n  - tanh\n  - linear: {{features: {targets}}}\nloss: {loss}\n"
SETTINGS = {"epochs": 3, "batch": 32, "lr": 0.01, "optimizer": {"kind": "adam"}, "schedule": "constant", "warmup_epochs": 0,
            "validation": 100, "precision": {"leaves": 4}}


def rows_of(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        x = [rng.random() for _ in range(4)]
        y = 3 * x[0] - 2 * x[1] * x[2] + 0.5
        share = 1 / (1 + math.exp(8 * (1.5 - y)))
        yield [*x, y, y * y - x[3], int(y > 1), int(x[3] > 0.5), "big" if y > 1.5 else "small", share, 1 - share]


class Regression(TrainingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sets = {name: cls.pack(name, *options) for name, options in (
            ("one", ["--target", "y"]), ("two", ["--target", "y", "--target", "z"]),
            ("bits", ["--target", "p", "--target", "q"]), ("classes", ["--class", "size"]),
            ("shares", ["--target", "big", "--target", "small"]))}

    @classmethod
    def pack(cls, name, *options):
        folder = cls.data / name
        for split, seed, count in (("train", 1, 700), ("test", 2, 300)):
            table = cls.data / f"{split}.csv"
            with open(table, "w", newline="") as file:
                csv.writer(file).writerows([["a", "b", "c", "d", "y", "z", "p", "q", "size", "big", "small"], *rows_of(seed, count)])
            subprocess.run([BIN / "dlflow", "data", "pack", table, "-o", folder, "--features", "a,b,c,d", "--split", split, *options],
                           check=True, stdout=subprocess.DEVNULL)
        return folder

    def model_folder(self, data, loss, targets, features=4, **more):
        folder = self.folder(loss, data=str(self.sets[data]), model="model.yaml", **SETTINGS | more)
        (folder / "model.yaml").write_text(MODEL.format(loss=loss, targets=targets, features=features))
        return folder

    def evaluate(self, folder, ranks=1):
        return self.program(folder, "evaluate", ranks, data=self.data_of(folder), batch=50)

    def predicted(self, folder):
        """The rows that dlflow-predict writes for the same checkpoint and data."""
        self.program(folder, "predict", data=self.data_of(folder), batch=50)
        with open(folder / "outputs/predictions.csv", newline="") as file:
            return list(csv.DictReader(file))

    def data_of(self, folder):
        return json.loads((folder / "with.json").read_text())["data"]

    def test_any_number_of_ranks_trains_the_same_numbers(self):
        for data, loss, targets in (("two", "mse", 2), ("one", "huber", 1), ("one", "l1", 1), ("bits", "bce", 2)):
            with self.subTest(loss=loss):
                self.assert_same_bits(lambda: self.model_folder(data, loss, targets), (2, 3), ("loss", "rmse", "mae", "accuracy"))

    def test_a_killed_run_continues_on_another_number_of_ranks_to_the_same_bits(self):
        whole = self.model_folder("one", "mse", 1)
        self.train(whole, 1)
        killed = self.model_folder("one", "mse", 1)
        self.train_with_kills(killed, [(2, 6)], 3)
        self.assertEqual(self.bits(killed), self.bits(whole))

    def test_numbers_are_measured_by_rmse_and_mae_and_bits_by_accuracy(self):
        folder = self.model_folder("one", "mse", 1, epochs=20)
        self.train(folder, 2)
        alone, output = self.evaluate(folder)
        self.assertLess(alone["rmse"], 0.1)
        self.assertAlmostEqual(alone["rmse"] ** 2, alone["loss"], places=6)
        self.assertLess(alone["mae"], alone["rmse"])
        self.assertNotIn("accuracy", alone)
        self.assertIn("samples_per_s", alone)
        self.assertNotIn("images_per_s", alone)
        self.assertRegex(output, r"^rmse 0\.\d{4}, mae 0\.\d{4}, loss 0\.\d{4}, 300 samples\n$")
        rows = self.predicted(folder)
        squares = [(float(row["target"]) - float(row["prediction"])) ** 2 for row in rows]
        self.assertAlmostEqual((sum(squares) / 300) ** 0.5, alone["rmse"], places=5)
        (folder / "with.json").write_text(json.dumps({"data": str(self.sets["one"])}))
        shared = self.evaluate(folder, 2)[0]
        self.assertEqual([shared[key] for key in ("loss", "rmse", "mae")], [alone[key] for key in ("loss", "rmse", "mae")])
        bits = self.model_folder("bits", "bce", 2, epochs=20)
        self.train(bits, 1)
        measured = self.evaluate(bits)[0]
        self.assertGreater(measured["accuracy"], 0.95)
        self.assertNotIn("rmse", measured)

    def test_a_column_of_classes_trains_a_classifier(self):
        folder = self.model_folder("classes", "softmax_cross_entropy", 2, epochs=20)
        self.assertGreater(self.train(folder, 1)["accuracy"], 0.9)

    def test_training_reaches_the_result_of_the_same_training_in_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch for /usr/bin/python3 (Debian: python3-torch)")
        for loss in ("mse", "l1", "huber"):
            folder = self.model_folder("one", loss, 1, epochs=20, validation=0)
            self.train(folder, 2)
            ours, twin = self.evaluate(folder)[0], twin_errors(torch, loss, 20)
            with self.subTest(loss=loss, ours=ours, twin=twin):
                self.assertLess(abs(ours["rmse"] - twin), 0.05)

    def test_training_measures_itself_with_a_validation_split(self):
        data = self.data / "held"
        shutil.copytree(self.sets["one"], data)
        self.sets["held"] = data
        same = {"normalize": {"mean": [0.5] * 4, "std": [0.29] * 4}}
        plain = self.model_folder("held", "mse", 1, validation=0, **same)
        self.train(plain, 1)
        shutil.copy(data / "test.dlset", data / "validation.dlset")
        settings = {key: value for key, value in SETTINGS.items() if key != "validation"}
        folders = []
        for ranks, more in ((1, {}), (2, {}), (2, {"scratch": True})):
            folder = self.folder("held", data=str(data), model="model.yaml", **settings | same | more)
            with_json = json.loads((folder / "with.json").read_text())
            del with_json["validation"]
            (folder / "with.json").write_text(json.dumps(with_json))
            (folder / "model.yaml").write_text(MODEL.format(loss="mse", targets=1, features=4))
            folders.append(folder)
            summary = self.train(folder, ranks, DLFLOW_SCRATCH=str(folder))
            with self.subTest(ranks=ranks, more=more):
                self.assertEqual(self.bits(folder)[0], self.bits(plain)[0])
                self.assertEqual(self.program(folder, "evaluate", data=str(data), batch=250)[0]["rmse"], summary["rmse"])
        status, _, errors = self.run_to_end(self.model_folder("held", "mse", 1, validation=50), 1)
        self.assertIn("'validation' holds out training samples, but the data has a validation split; leave the key out", errors)

    def test_predictions_are_the_numbers_that_evaluate_measures(self):
        folder = self.model_folder("two", "l1", 2, validation=0)
        self.train(folder, 1)
        measured = self.evaluate(folder)[0]
        self.program(folder, "predict", 2, data=self.data_of(folder), batch=50, format="npy")
        content = (folder / "outputs/predictions.npy").read_bytes()
        self.assertIn(b"'shape': (300, 2,", content[:128])
        numbers = struct.unpack("<600f", content[-2400:])
        wanted = [target for row in rows_of(2, 300) for target in row[4:6]]
        self.assertAlmostEqual(sum(abs(a - b) for a, b in zip(numbers, wanted)) / 600, measured["mae"], places=4)

    def test_the_shares_of_classes_are_learnt_and_measured(self):
        folder = self.model_folder("shares", "softmax_cross_entropy", 2, epochs=20, validation=0)
        self.train(folder, 2)
        measured = self.evaluate(folder)[0]
        self.program(folder, "predict", data=self.data_of(folder), batch=50, format="npy")
        scores = struct.unpack("<600f", (folder / "outputs/predictions.npy").read_bytes()[-2400:])
        loss, entropy, right = 0, 0, 0
        for (a, b), row in zip(zip(scores[::2], scores[1::2]), rows_of(2, 300)):
            big, small = row[9:]
            log_sum = math.log(math.exp(a) + math.exp(b))
            loss += (big * (log_sum - a) + small * (log_sum - b)) / 300
            entropy -= (big * math.log(big) + small * math.log(small)) / 300  # entropy of the shares, a lower bound of the loss
            right += (a > b) == (big > small)
        self.assertAlmostEqual(measured["loss"], loss, places=4)
        self.assertAlmostEqual(measured["accuracy"], right / 300, places=6)
        self.assertLess(loss, entropy + 0.05)

    def test_label_smoothing_is_refused_if_the_loss_has_no_classes(self):
        for loss, data in (("bce", "bits"), ("mse", "two"), ("l1", "two"), ("huber", "two")):
            with self.subTest(loss):
                status, _, errors = self.run_to_end(self.model_folder(data, loss, 2, label_smoothing=0.4), 1)
                self.assertEqual(status, 1)
                self.assertIn("with: 'label_smoothing' spreads labels over classes; the loss of model 'tiny' has no labels", errors)

    def test_fewer_epochs_than_the_newest_checkpoint_has_are_refused(self):
        for every, epochs, begun in (("1 epochs", 3, 4), ("30 steps", 1, 2)):
            with self.subTest(every):
                folder = self.model_folder("one", "mse", 1, epochs=4)
                process = self.start(folder, 1, DLFLOW_CHECKPOINT_EVERY=every)
                if every == "1 epochs":
                    process.communicate(timeout=60)
                else:  # in the second epoch; an epoch has 19 steps
                    self.wait_for_step(folder, process, 30)
                    process.kill()
                    process.communicate()
                    for later in folder.glob("checkpoints/step-*"):
                        if later.name != "step-000030":
                            shutil.rmtree(later)
                there = sorted(folder.glob("checkpoints/step-*"))
                with_json = json.loads((folder / "with.json").read_text()) | {"epochs": epochs}
                (folder / "with.json").write_text(json.dumps(with_json))
                for ranks in (1, 2):
                    status, _, errors = self.run_to_end(folder, ranks)
                    self.assertNotEqual(status, 0)
                    self.assertRegex(errors, f"'epochs' is {epochs}, but the newest checkpoint, checkpoints/step-.*, is of epoch {begun};")
                self.assertEqual(sorted(folder.glob("checkpoints/step-*")), there)

    def test_a_metric_that_cannot_be_measured_is_reported_and_stops_nothing(self):
        rows = [f"{int(i == 0)},{i % 7},{i % 5}" for i in range(60)]  # all held-out rows have the same class
        (self.data / "odd.csv").write_text("\n".join(["y,a,b", *rows]) + "\n")
        data = self.data / "odd"
        subprocess.run([BIN / "dlflow", "data", "pack", self.data / "odd.csv", "-o", data, "--class", "y"], check=True, stdout=subprocess.DEVNULL)
        folder = self.folder("odd", data=str(data), model="model.yaml", epochs=8, batch=16, validation=6, keep_best="auc",
                             stop_early={"metric": "auc", "patience": 2})
        (folder / "model.yaml").write_text("name: m\ninput: [2]\nlayers:\n  - linear: {features: 2}\n")
        status, _, errors = self.run_to_end(folder, 1)
        self.assertEqual(status, 0, errors)
        self.assertEqual(json.loads((folder / "metrics.json").read_text())["epochs"], 8)
        self.assertEqual(errors.count("warning: 'auc' cannot be measured on the held-out samples, so that 'keep_best' takes the last epoch and "
                                      "'stop_early' never stops"), 1, errors)

    def test_data_that_does_not_match_the_loss_is_refused(self):
        cases = ((("classes", "mse", 1), "has 'loss: mse', which needs targets, but the training data has labels"),
                 (("one", "softmax_cross_entropy", 2), "which needs labels, but the training data has 1 targets a sample"),
                 (("two", "mse", 3), "gives 3 numbers a sample, but the training data has 2 targets"),
                 (("one", "bce", 1), "has 'loss: bce', whose targets are 0 or 1; sample "))
        for (data, loss, targets), text in cases:
            with self.subTest(text=text):
                status, _, errors = self.run_to_end(self.model_folder(data, loss, targets), 1)
                self.assertEqual(status, 1)
                self.assertIn(text, errors)
        status, _, errors = self.run_to_end(self.model_folder("one", "mse", 1, augment=["crop"]), 1)
        self.assertIn("'augment' changes pictures; the training data are rows of a table", errors)
        status, _, errors = self.run_to_end(self.model_folder("one", "mse", 1, features=5), 1)
        self.assertIn("takes (B,5), but the training data has", errors)


def twin_errors(torch, loss, epochs):
    """The root mean squared error of PyTorch's network on the test rows, after as many steps of the same size."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    train, test = (torch.tensor([row[:5] for row in rows_of(seed, count)]) for seed, count in ((1, 700), (2, 300)))
    mean, deviation = train[:, :4].mean(0), train[:, :4].std(0, unbiased=False)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=SETTINGS["lr"])
    loss_of = {"mse": torch.nn.functional.mse_loss, "l1": torch.nn.functional.l1_loss, "huber": torch.nn.functional.huber_loss}[loss]
    for _ in range(epochs):
        for batch in train[torch.randperm(len(train))].split(SETTINGS["batch"]):
            optimizer.zero_grad()
            loss_of(model((batch[:, :4] - mean) / deviation)[:, 0], batch[:, 4]).backward()
            optimizer.step()
    with torch.no_grad():
        return (model((test[:, :4] - mean) / deviation)[:, 0] - test[:, 4]).square().mean().sqrt().item()


if __name__ == "__main__":
    main()
