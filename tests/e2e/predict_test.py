"""`dlflow predict`: pictures, tables and texts of any size and place become classes or numbers, as in the training of the network."""

import csv
import io
import os
import random
import shutil
import signal
import subprocess

from support import BIN, Case, main


def grey(side, bright, width=0):
    """A PGM picture whose left or right half is bright."""
    width = width or side
    row = bytes((200 if (x < width // 2) == bright else 40) + random.randrange(20) for x in range(width))
    return f"P5 {width} {side} 255\n".encode() + row * side


class Predict(Case):
    def setUp(self):
        super().setUp()
        random.seed(2)

    def train(self, *sources, **settings):
        self.dlflow("init", *sources)
        name = sources[0].partition(".")[0]
        return self.run_json(f"{name}.yaml", *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")), timeout=100)["run"]

    def rows(self, *words):
        return list(csv.DictReader(io.StringIO(self.dlflow("predict", *words)[0])))

    def test_pictures_of_any_size_get_the_names_of_classes(self):
        for kind in ("left", "right"):
            for number in range(12):
                (self.folder / "photos" / kind).mkdir(parents=True, exist_ok=True)
                (self.folder / "photos" / kind / f"{number}.pgm").write_bytes(grey(70, kind == "left", 70 + number))
        run = self.train("photos", epochs=5)
        for number, is_left in enumerate((True, False, True)):
            (self.folder / "new/sub").mkdir(parents=True, exist_ok=True)
            (self.folder / "new/sub" / f"{number}.pgm").write_bytes(grey(100 + 30 * number, is_left))
        out, err = self.dlflow("predict", run, "new")
        rows = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual([(row["file"], row["class"]) for row in rows], [("sub/0.pgm", "left"), ("sub/1.pgm", "right"), ("sub/2.pgm", "left")])
        self.assertEqual((list(rows[0]), err), (["file", "class", "score"], ""))
        self.assertTrue(all(0.5 < float(row["score"]) <= 1 for row in rows))

        self.write("new/liar.png", "no picture")
        self.assertEqual(self.dlflow("predict", run, "new", "-o", "out.csv"),
                         ("", f"warning: left out: {self.folder}/new/liar.png: is neither a JPEG, a PNG nor a binary PGM or PPM file\n"))
        self.assertEqual((self.folder / "out.csv").read_text(), out)
        self.assertIn("liar.png: is neither a JPEG, a PNG nor a binary PGM or PPM file; take it out of the folder, or write a CSV file", self.dlflow("predict", run, "new", "-o", "out.npy", status=2)[1])
        (self.folder / "new/liar.png").unlink()
        self.dlflow("predict", run, "new", "-o", "out.npy")
        self.assertIn(b"'shape': (3, 2,)", (self.folder / "out.npy").read_bytes())

        self.check_a_step_does_the_same(run, out)
        self.check_mistakes(run)

    def check_a_step_does_the_same(self, run, out):
        checkpoint = next(self.folder.glob(f"dlflow-runs/{run}/steps/train/checkpoints/latest"))
        self.write("again.yaml", f"name: again\nsteps:\n  classes:\n    uses: predict\n    with: {{checkpoint: {checkpoint.resolve()}, data: new}}\n")
        self.assertEqual(self.dlflow("validate", "again.yaml"), ("", ""))
        again = self.run_json("again.yaml")["run"]
        made = csv.DictReader(io.StringIO((self.folder / f"dlflow-runs/{again}/steps/classes/outputs/predictions.csv").read_text()))
        for ours, its in zip(csv.DictReader(io.StringIO(out)), made, strict=True):  # the step has one core, the verb all
            self.assertEqual((ours["file"], ours["class"]), (its["file"], its["class"]))
            self.assertAlmostEqual(float(ours["score"]), float(its["score"]), delta=1e-4)
        self.assertEqual(self.dlflow("predict", checkpoint.parent, "new")[0], out)

    def test_a_checkpoint_without_a_record_names_the_options(self):
        for kind in ("left", "right"):
            (self.folder / "photos" / kind).mkdir(parents=True)
            for number in range(2):
                (self.folder / "photos" / kind / f"{number}.pgm").write_bytes(grey(20, kind == "left"))
        self.dlflow("data", "pack", "photos", "-o", "set", "--resize", "8", "--crop", "8")
        self.assertEqual((self.folder / "set/columns.txt").read_text(), "resize 8\ncrop 8\n")
        recorded = self.train("set", epochs=1)
        (self.folder / "set/columns.txt").unlink()  # as version 0.9 left it
        self.dlflow("init", "set", "-o", "old.yaml")
        old = self.run_json("old.yaml", "--set", "epochs=1", "--no-cache")["run"]
        self.assertIn("has 20x20 pixels, the network takes 8x8; the checkpoint records no 'resize' of its training: write --origin", self.dlflow("predict", old, "photos", status=2)[1])
        self.assertEqual(self.dlflow("predict", old, "photos", "--origin", "resize 8", "--origin", "crop 8"), self.dlflow("predict", recorded, "photos"))

    def check_mistakes(self, run):
        (self.folder / "empty").mkdir()
        for words, text in (((run, "empty"), "empty: has no JPEG, PNG, PGM or PPM pictures"),
                            ((run, "nowhere"), "nowhere: there is no such file or folder"),
                            (("photo", "new"), "photo"),
                            ((run, self.write("rows.csv", "a\n1\n")), "rows.csv: is a table, but the network takes pictures of "),
                            ((run, "new", "-o", "out.txt"), "out.txt ends neither in .csv nor, for an array of scores, in .npy")):
            self.assertIn(text, self.dlflow("predict", *words, status=2)[1])
        self.write("new/liar.png", "no picture")
        for number in range(3):
            (self.folder / f"new/sub/{number}.pgm").unlink()
        self.assertIn("none of its files can be read", self.dlflow("predict", run, "new", status=2)[1])

    def test_texts_and_empty_cells_of_a_table_are_coded_as_in_the_training(self):
        lines = ["age,sex,survived"]
        for row in range(300):
            sex = random.choice(("male", "female"))
            lines.append(f"{'' if row % 7 == 0 else row % 80},{sex},{'yes' if sex == 'female' else 'no'}")
        self.write("ship.csv", "\n".join(lines) + "\n")
        self.dlflow("init", "ship.csv", "--target", "survived")
        run = self.run_json("ship.yaml")["run"]
        self.write("new.csv", "sex,age\nfemale,\nmale,30\nunknown,30\n")
        self.assertEqual([row["class"] for row in self.rows(run, "new.csv")][:2], ["yes", "no"])
        warned = self.dlflow("predict", run, "new.csv")[1]
        self.assertRegex(warned, r"warning: \S+/new.csv:2:8: is empty \(column 'age'\); \S+ is in its place\n")
        self.assertRegex(warned, r"warning: \S+/new.csv:4:1: 'unknown' is in no training row")

    def test_rows_of_a_table_get_numbers_by_the_columns_and_scales_of_the_training(self):
        lines = ["rooms,name,area,price"]
        for row in range(300):
            rooms, area = random.randrange(1, 9), random.uniform(20, 200)
            lines.append(f"{rooms},house {row},{area:.1f},{1000 * rooms + 50 * area:.1f}")
        self.write("houses.csv", "\n".join(lines) + "\n")
        run = self.train("houses.csv", "--target", "price")
        self.write("new.csv", "area,city,rooms\n100,here,4\n50,there,2\n")
        rows = self.rows(run, "new.csv")
        self.assertEqual([list(row) for row in rows], [["row", "price"]] * 2)
        for row, price in zip(rows, (9000, 4500)):
            self.assertAlmostEqual(float(row["price"]), price, delta=900)
        self.write("bad.csv", "area,rooms\n1,x\n")
        self.assertEqual(self.dlflow("predict", run, "bad.csv", status=2)[1].split(": ", 1)[1], f"{self.folder}/bad.csv:2:3: 'x' is not a number (column 'rooms')\n")
        self.assertIn("houses.csv is a file; first name the network", self.dlflow("predict", "houses.csv", "new.csv", status=2)[1])
        self.assertIn("has no column 'rooms'", self.dlflow("predict", run, self.write("less.csv", "area\n1\n"), status=2)[1])

    def test_texts_get_classes(self):
        lines = ["id,note,kind"] + [f"{i},{''.join(random.choices('abc' if i % 2 else '123', k=12))},{'letters' if i % 2 else 'digits'}" for i in range(200)]
        self.write("notes.csv", "\n".join(lines) + "\n")
        self.dlflow("data", "pack", "notes.csv", "-o", "notes", "--tokens", "bytes", "--text", "note", "--class", "kind", "--per", "document", "--length", "16")
        self.write("net.yaml", "name: net\ninput: [16]\nlayers:\n- embedding: {vocabulary: 256, features: 8}\n- mean_pool\n- linear: {features: 2}\n")
        self.write("texts.yaml", "name: texts\nsteps:\n  train:\n    uses: train\n    with: {model: net.yaml, data: notes, epochs: 10, batch: 16, lr: 0.02, optimizer: {kind: adam}}\n")
        run = self.run_json("texts.yaml")["run"]
        self.write("new.csv", "note\nabcab\n31231\n")
        self.assertEqual([(row["row"], row["class"]) for row in self.rows(run, "new.csv")], [("1", "letters"), ("2", "digits")])
        self.write("in/x.txt", "12312")
        self.assertEqual([(row["file"], row["class"]) for row in self.rows(run, "in")], [("x.txt", "digits")])

    def test_a_missing_program_is_named(self):
        shutil.copy(BIN / "dlflow", self.folder / "dlflow")
        told = subprocess.run([self.folder / "dlflow", "predict", "x", "y"], capture_output=True, text=True, env=self.env)
        self.assertEqual(told.returncode, 2)
        self.assertIn("dlflow-predict is not there; install it beside dlflow", told.stderr)

    def test_ctrl_c_leaves_no_temporary_folder(self):
        shutil.copy(BIN / "dlflow", self.folder / "dlflow")
        program = self.write("dlflow-predict", "#!/bin/sh\n: > here\nexec sleep 100\n")
        program.chmod(0o755)
        self.write("checkpoint/manifest.json", "{}")
        (self.folder / "tmp").mkdir()
        process = subprocess.Popen([self.folder / "dlflow", "predict", "checkpoint", "x"], cwd=self.folder, env=self.env | {"TMPDIR": str(self.folder / "tmp")}, start_new_session=True)
        self.wait_for(lambda: list((self.folder / "tmp").glob("*/here")))
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])


if __name__ == "__main__":
    main()
