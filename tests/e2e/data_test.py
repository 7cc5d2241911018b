"""dlflow data pack, verify and show, as users call them; training on their data sets."""

import gzip
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import zlib

from support import ROOT, Case, main

sys.path.insert(0, str(ROOT / "tests/support"))
import pictures  # noqa: E402

TRAIN = pathlib.Path(os.environ["DLFLOW_BIN"]) / "dlflow-train"


def png(width, height, pixels):
    """A grey PNG file."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    rows = b"".join(b"\0" + pixels[y * width:(y + 1) * width] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Data(Case):
    def show(self, path):
        return json.loads(self.dlflow("data", "show", path, "--json")[0])

    def weights(self, data):
        """What a training in exact mode ends with."""
        folder = self.folder / f"trained-{data.name}"
        folder.mkdir()
        (folder / "with.json").write_text(json.dumps(
            {"model": str(ROOT / "workflows/models/lenet.yaml"), "data": str(data), "epochs": 1, "lr": 0.05, "validation": 100}))
        subprocess.run([TRAIN, "with.json"], cwd=folder, check=True, capture_output=True)
        newest = folder / "checkpoints/latest"
        return [(newest / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")]

    def test_validate_warns_of_scores_and_batches_that_do_not_fit_the_data(self):
        self.write("t.csv", "a,b,y\n" + "".join(f"{i},{2 * i},{'xyz'[i % 3]}\n" for i in range(60)))
        self.dlflow("data", "pack", "t.csv", "-o", "d", "--class", "y")
        self.write("m.yaml", "name: m\ninput: [2]\nlayers:\n  - linear: {features: 30}\n")
        self.write_steps("\na: {uses: train, with: {model: m.yaml, data: d, epochs: 1, lr: 0.1, batch: 100000}}")
        err = self.dlflow("validate", "w.yaml")[1]
        self.assertIn("warning: step 'a': model 'm' gives 30 scores, and d has 3 classes; give its last layer 3\n", err)
        self.assertIn("warning: step 'a': batch: 100000 is more than the 60 samples of d, so that an epoch is one step", err)

    def test_a_data_set_in_shards_trains_to_the_same_bits(self):
        if not TRAIN.exists():
            self.skipTest("built without dlflow-train")
        idx = self.folder / "idx"
        idx.mkdir()
        pictures.write(idx, 1000, 100, suffix="")
        self.dlflow("data", "pack", idx, "-o", "whole")
        out = self.dlflow("data", "pack", idx, "-o", "shards", "--shards", "7")[0]
        self.assertEqual(out, "shards/train.shards.json: 1,000 samples of 1 x 28 x 28 bytes in 10 classes, 7 shards\n")
        self.assertEqual(len(list((self.folder / "shards").glob("train-0000?-of-00007.dlset"))), 7)
        self.dlflow("data", "pack", self.folder / "shards", "-o", "again")
        self.assertEqual((self.folder / "again/train.dlset").read_bytes(), (self.folder / "whole/train.dlset").read_bytes())
        expected = self.weights(idx)
        self.assertEqual(self.weights(self.folder / "whole"), expected)
        self.assertEqual(self.weights(self.folder / "shards"), expected)

    def test_compressed_idx_files_are_packed_alike_every_time_and_in_shards_of_a_size(self):
        pictures.write(self.folder, 300, 50)
        for name in ("one", "two"):
            self.dlflow("data", "pack", self.folder, "-o", name, "--split", "test", "--shard-size", "16KiB")
        files = {file.name: file.read_bytes() for file in (self.folder / "one").iterdir()}
        self.assertEqual(files, {file.name: file.read_bytes() for file in (self.folder / "two").iterdir()})
        self.assertEqual(len(files), 4)  # 20 samples of 788 bytes fit
        self.assertLessEqual(max(map(len, files.values())), 16 << 10)
        self.assertEqual(self.show("one")[0]["samples"], 50)

    def test_pictures_keep_the_names_of_their_classes(self):
        for split, count in (("train", 3), ("test", 1)):
            for label, name in enumerate(("cat", "dog")):
                (self.folder / split / name).mkdir(parents=True)
                for i in range(count):
                    (self.folder / split / name / f"{i}.png").write_bytes(png(4, 2, bytes([label * 100 + i] * 8)))
        self.dlflow("data", "pack", "train", "-o", "pets")
        self.dlflow("data", "pack", "test", "-o", "pets", "--split", "test")
        train, test = self.show("pets")
        self.assertEqual(train["classes"], [{"label": 0, "name": "cat", "samples": 3}, {"label": 1, "name": "dog", "samples": 3}])
        self.assertEqual((train["channels"], train["height"], train["width"], train["pixels"]), (1, 2, 4, "byte"))
        self.assertEqual(test["samples"], 2)
        self.assertTrue((self.folder / "pets/train.dlset").read_bytes()[:-2 * 64].endswith(bytes([102] * 8)))  # followed by two hashes
        (self.folder / "test/dog").rename(self.folder / "test/bird")
        (self.folder / "pets/test.dlset").unlink()
        _, err = self.dlflow("data", "pack", "test", "-o", "pets", "--split", "test", status=2)
        self.assertIn("has the classes cat, dog, but the source has bird, cat", err)

    def test_show_lists_the_content_of_a_data_set(self):
        for label, name in enumerate(("cat", "dog")):
            (self.folder / "train" / name).mkdir(parents=True)
            for i in range(2 + label):
                (self.folder / "train" / name / f"{i}.png").write_bytes(png(4, 2, bytes([label * 100 + i] * 8)))
        self.assertEqual(self.dlflow("data", "pack", "train", "-o", "pets", "--quiet"), ("", ""))
        self.assertEqual(self.dlflow("data", "verify", "pets", "--quiet"), ("", ""))
        self.dlflow("data", "pack", "train", "-o", "pets", "--split", "test", "--shards", "1")
        size, shard = ((self.folder / "pets" / name).stat().st_size for name in ("train.dlset", "test-00000-of-00001.dlset"))
        classes = "CLASS  SAMPLES  NAME\n    0        2  cat\n    1        3  dog\n"
        self.assertEqual(self.dlflow("data", "show", "pets")[0],
                         f"pets/train.dlset: 5 samples of 1 x 2 x 4 bytes in 2 classes, {size} B\n\n{classes}\n"
                         f"pets/test.shards.json: 5 samples of 1 x 2 x 4 bytes in 2 classes, {shard} B in 1 shard\n\n{classes}")
        (self.folder / "pets/classes.txt").unlink()
        self.assertTrue(self.dlflow("data", "show", "pets/train.dlset")[0].endswith("    0        2\n    1        3\n"))
        both = self.show("pets")
        self.assertEqual([each["bytes"] for each in both], [size, shard])
        self.assertEqual(both[0]["classes"][1], {"label": 1, "name": None, "samples": 3})
        self.assertEqual(both[0]["shards"], [])
        self.assertEqual([(each["file"], each["samples"]) for each in both[1]["shards"]], [("test-00000-of-00001.dlset", 5)])
        self.assertEqual(len(self.show("pets/test.shards.json")), 1)

    def test_the_umask_decides_who_may_read_the_data(self):
        self.write("t.csv", "y,x\na,1\nb,2\n")
        (self.folder / "text").mkdir()
        self.write("text/1.txt", "the quick brown fox jumps over the lazy dog, and some words " * 20)
        (self.folder / "there").mkdir()
        umask = os.umask(0o022)
        try:
            self.dlflow("data", "pack", "t.csv", "-o", "set", "--class", "y")
            self.dlflow("data", "pack", "t.csv", "-o", "there", "--class", "y")
            self.dlflow("data", "pack", "text", "-o", "tokens", "--tokens", "bytes", "--length", "8")
            os.umask(0o027)
            self.dlflow("data", "pack", "t.csv", "-o", "group", "--class", "y")
        finally:
            os.umask(umask)
        for name, files, mode in (("set", 3, 0o644), ("there", 3, 0o644), ("tokens", 1, 0o644), ("group", 3, 0o640)):
            modes = [file.stat().st_mode & 0o777 for file in (self.folder / name).iterdir()]
            self.assertEqual(modes, [mode] * files, name)
            self.assertEqual((self.folder / name).stat().st_mode & 0o777, 0o777 & ~(0o027 if name == "group" else 0o022))

    def test_a_split_that_lacks_a_class_has_the_labels_of_the_others(self):
        self.write("train.csv", "y,x\na,1\nb,2\nrare,3\na,1\nz,2\n")
        self.write("test.csv", "y,x\nb,2\nz,1\n")
        self.dlflow("data", "pack", "train.csv", "-o", "set", "--class", "y")
        self.dlflow("data", "pack", "test.csv", "-o", "set", "--class", "y", "--split", "test")
        train, test = self.show("set")
        self.assertEqual([(c["name"], c["samples"]) for c in test["classes"]], [("a", 0), ("b", 1), ("rare", 0), ("z", 1)])
        self.assertEqual([(c["name"], c["samples"]) for c in train["classes"]], [("a", 2), ("b", 1), ("rare", 1), ("z", 1)])
        self.write("other.csv", "y,x\na,1\nnew,2\n")
        _, err = self.dlflow("data", "pack", "other.csv", "-o", "set", "--class", "y", "--split", "validation", status=2)
        self.assertIn("set/classes.txt has the classes a, b, rare, z, but the source has a, new", err)
        for split, names in (("train", (" cat", "dog", "eel")), ("test", (" cat", "eel"))):  # with the spaces of the input
            for name in names:
                (self.folder / "pets" / split / name).mkdir(parents=True)
                (self.folder / "pets" / split / name / "1.png").write_bytes(png(2, 1, b"ab"))
            self.dlflow("data", "pack", f"pets/{split}", "-o", "animals", "--split", split)
        self.assertEqual([(c["name"], c["samples"]) for c in self.show("animals")[1]["classes"]], [(" cat", 1), ("dog", 0), ("eel", 1)])

    def test_a_possible_mistake_is_reported_but_packed(self):
        self.write("t.csv", "y,id\nNA,16777217\n9.0,2\n10,3\n")
        err = self.dlflow("data", "pack", "t.csv", "-o", "set", "--class", "y")[1]
        self.assertIn("warning: t.csv:2:1: 'NA' is a class like any other (column 'y'); leave the row out if its class is not known\n", err)
        self.assertIn("warning: t.csv:2:4: '16777217' becomes 16777216 in single precision (column 'id'); leave the column out", err)
        self.assertEqual(self.dlflow("data", "pack", "t.csv", "-o", "quiet", "--class", "y", "--quiet")[1], "")
        self.write("one.csv", "y,x\na,1\n")
        self.assertIn("warning: one.csv: has one sample", self.dlflow("data", "pack", "one.csv", "-o", "one", "--class", "y")[1])
        self.write("same.csv", "y,x\na,1\na,2\n")
        self.assertIn("warning: same.csv: all samples are of the class 'a'; a classifier needs two or more",
                      self.dlflow("data", "pack", "same.csv", "-o", "same", "--class", "y")[1])

    def test_a_class_that_is_not_utf8_is_refused_and_found_in_older_sets(self):
        (self.folder / "t.csv").write_bytes(b"y,x\ncat,1\nd\xe4g,2\n")
        _, err = self.dlflow("data", "pack", "t.csv", "-o", "set", "--class", "y", status=2)
        self.assertIn("t.csv:3:1: is not UTF-8; convert the file with iconv (column 'y')", err)
        self.write("t.csv", "y,x\ncat,1\ndog,2\n")
        self.dlflow("data", "pack", "t.csv", "-o", "set", "--class", "y")
        (self.folder / "set/classes.txt").write_bytes(b"cat\nd\xe4g\n")  # as an older dlflow wrote it
        self.assertIn("classes.txt:2: is not UTF-8", self.dlflow("data", "verify", "set", status=1)[0])
        self.assertIn("classes.txt:2: is not UTF-8", self.dlflow("data", "show", "set", "--json", status=2)[1])

    def test_arrays_of_numpy_are_packed(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        images = numpy.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5)
        numpy.save(self.folder / "images.npy", images)
        numpy.save(self.folder / "labels.npy", numpy.array([1, 0]))
        self.dlflow("data", "pack", "images.npy", "labels.npy", "-o", "packed")
        one = self.show("packed/train.dlset")[0]
        self.assertEqual((one["samples"], one["channels"], one["pixels"]), (2, 3, "float"))
        content = (self.folder / "packed/train.dlset").read_bytes()
        self.assertEqual(content[128:-2 * 64], struct.pack("<2I", 1, 0) + images.tobytes())

    def test_all_unsupported_files_are_reported_at_once_and_nothing_is_written(self):
        for name, content in (("a/1.pgm", b"P5 1 1 255 a"), ("a/2.pgm", b"P5 1 1 255"), ("b/1.txt", b""), ("b/2.pgm", b"P5 1 1 255 b")):
            (self.folder / "train" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "train" / name).write_bytes(content)
        for shards in ((), ("--shards", "3")):
            _, err = self.dlflow("data", "pack", "train", "-o", "set", *shards, status=2)
            self.assertEqual(err, "error: train: 2 of 4 samples cannot be used; repair them, or take them out:\n"
                                  "  train/a/2.pgm: has 0 bytes of pixels, but its header declares 1\n"
                                  "  train/b/1.txt: is not a JPEG, PNG, PGM or PPM picture; convert it, or take it out of the folder\n")
            self.assertEqual(list((self.folder / "set").iterdir()), [])
        (self.folder / "train/a/2.pgm").write_bytes(b"P5 1 1 255 c")
        (self.folder / "train/b/1.txt").unlink()
        self.dlflow("data", "pack", "train", "-o", "set")

    def test_nan_and_infinite_numbers_are_found_when_data_is_packed(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        images = numpy.zeros((3, 1, 2, 2), "float32")
        images[1, 0, 1, 0] = numpy.nan
        images[2, 0, 0, 1] = -numpy.inf
        numpy.save(self.folder / "images.npy", images)
        numpy.save(self.folder / "labels.npy", numpy.array([1, 0, 1]))
        _, err = self.dlflow("data", "pack", "images.npy", "labels.npy", "-o", "set", status=2)
        self.assertIn("2 of 3 samples", err)
        self.assertIn("images.npy: sample 1: channel 0, row 1, column 0 is NaN\n", err)
        self.assertIn("images.npy: sample 2: channel 0, row 0, column 1 is infinite\n", err)

    def test_a_table_becomes_features_and_targets_or_classes(self):
        (self.folder / "t.csv").write_text("rooms,price,town\n3,100.5,Ulm\n4,-2,Bonn\n5,7,Ulm\n")
        out = self.dlflow("data", "pack", "t.csv", "-o", "prices", "--target", "price", "--features", "rooms")[0]
        self.assertEqual(out, "prices/train.dlset: 3 samples of 1 floats with 1 target\n")
        one = self.show("prices")[0]
        self.assertEqual((one["channels"], one["classes"]), (1, []))
        self.assertEqual([(t["name"], t["min"], t["max"], round(t["mean"], 3)) for t in one["targets"]], [("price", -2, 100.5, 35.167)])
        self.assertIn("TARGET        MEAN   DEVIATION         MIN         MAX  NAME\n     0       35.17       46.34          -2       100.5  price\n",
                      self.dlflow("data", "show", "prices")[0])
        self.assertEqual(self.dlflow("data", "verify", "prices")[0], "prices/train.dlset: good\n")
        self.assertEqual((self.folder / "prices/columns.txt").read_text(), "feature rooms\ntarget price\n")
        _, err = self.dlflow("data", "pack", "t.csv", "-o", "prices", "--split", "test", "--target", "rooms", "--features", "price", status=2)
        self.assertIn("has the columns feature rooms, target price, but the source has feature price, target rooms; give both splits the same", err)
        self.dlflow("data", "pack", "t.csv", "-o", "towns", "--class", "town", "--shards", "2")
        self.assertEqual([(c["name"], c["samples"]) for c in self.show("towns")[0]["classes"]], [("Bonn", 1), ("Ulm", 2)])
        self.dlflow("data", "pack", "prices", "-o", "shards", "--shards", "3")
        self.dlflow("data", "pack", "shards", "-o", "again")
        for name in ("train.dlset", "columns.txt"):
            self.assertEqual((self.folder / "again" / name).read_bytes(), (self.folder / "prices" / name).read_bytes(), name)

    def test_rows_of_a_table_are_divided_by_their_numbers(self):
        self.write("t.csv", "a,b\n" + "".join(f"{n},{n}.5\n" for n in range(100)))
        out, _ = self.dlflow("data", "pack", "t.csv", "-o", "set", "--target", "b", "--test-share", "0.2")
        train, test = (int(line.split(": ")[1].split(" ")[0]) for line in out.splitlines())
        self.assertEqual(train + test, 100)
        self.assertTrue(10 <= test <= 30, test)
        self.write("t.csv", "a,b\n" + "".join(f"{n},{n}.5\n" for n in range(110)))
        longer, _ = self.dlflow("data", "pack", "t.csv", "-o", "longer", "--target", "b", "--test-share", "0.2")
        self.assertTrue(0 <= int(longer.splitlines()[1].split(": ")[1].split(" ")[0]) - test <= 10, longer)

    def test_mistakes_in_tables_are_named_with_line_and_column(self):
        (self.folder / "t.csv").write_text("a,b\n1,2\n1x,3\n4,\n")
        _, err = self.dlflow("data", "pack", "t.csv", "-o", "set", "--target", "b", status=2)
        self.assertEqual(err, "error: t.csv:3:1: '1x' is not a number (column 'a')\n"
                              "t.csv:4:3: is empty (column 'b'); write a number, or choose --missing drop\n")
        self.assertFalse((self.folder / "set").exists())
        for argv, text in ((["t.csv"], "name what to learn, with --target COLUMN for numbers or --class COLUMN; its columns are a, b"),
                           (["t.csv", "--target", "c"], "has no column 'c'"), (["t.csv", "b.npy", "--target", "b"], "is a table, which is a single file"),
                           (["b.npy", "a.npy", "--target", "b"], "name columns of a .csv or .tsv file; b.npy is not one")):
            (self.folder / "b.npy").write_bytes(b"")
            self.assertIn(text, self.dlflow("data", "pack", *argv, "-o", "set", status=2)[1])

    def test_empty_cells_and_texts_of_a_table_become_numbers(self):
        self.write("t.csv", "age,town,y\n20,Ulm,1\n,Bonn,2\nNA,Ulm,3\n40,,4\n")
        argv = ("data", "pack", "t.csv", "--target", "y", "-o")
        self.assertIn("t.csv:2:4: 'Ulm' is not a number (column 'town'); for texts add --categories town, or name other --features\n", self.dlflow(*argv, "set", status=2)[1])
        err = self.dlflow(*argv, "set", "--categories", "town", status=2)[1]
        self.assertEqual(err, "error: t.csv:3:1: is empty (column 'age', and 1 more); write a number, or choose --missing mean or drop\n"
                              "t.csv:5:4: is empty (column 'town'); write a text, or choose --missing mean or drop\n")
        out, err = self.dlflow(*argv, "mean", "--categories", "town", "--missing", "mean")
        self.assertEqual(out, "mean/train.dlset: 4 samples of 3 floats with 1 target\n")
        self.assertIn("warning: t.csv:3:1: is empty (column 'age', and 1 more); 30 is in its place\n", err)
        self.assertEqual((self.folder / "mean/columns.txt").read_text(),
                         'feature age {"empty":30.0}\nfeature town {"empty":0.0,"one_hot":["Bonn","Ulm"]}\ntarget y\n')
        out, err = self.dlflow(*argv, "drop", "--categories", "town", "--missing", "drop", "--hash", "1")
        self.assertEqual(out, "drop/train.dlset: 1 samples of 2 floats with 1 target\n")
        self.assertIn("--hash needs --categories", self.dlflow(*argv, "hash", "--hash", "1", status=2)[1])
        self.write("new.csv", "y,town,age\n5,Rom,\n")
        self.dlflow("data", "pack", "new.csv", "--target", "y", "-o", "mean", "--split", "test")
        self.assertEqual(struct.unpack_from("<4f", (self.folder / "mean/test.dlset").read_bytes(), 128), (5, 30, 0, 0))

    def test_a_set_is_checked_with_a_model_before_any_job(self):
        self.write("t.csv", "a,b,c,y\n" + "".join(f"{n},{n % 7},5,{'uvw'[n % 3]}\n" for n in range(200)))
        self.dlflow("data", "pack", "t.csv", "-o", "set", "--class", "y", "--test-share", "0.2")
        self.write("m.yaml", "name: m\ninput: [3]\nlayers:\n  - linear: {features: 4}\n")
        out, err = self.dlflow("data", "check", "set", "m.yaml")
        lines = out.splitlines()
        self.assertRegex(lines[0], r"  ✔ set/train.dlset: \d+ samples of 3 floats in 3 classes; model 'm' gives 4 scores, and set has 3 classes; "
                                   "give its last layer 3; 1 of 3 numbers never change, such as that of column 'c'")
        self.assertRegex(lines[1], "  ✔ set/test.dlset: ")
        self.assertEqual(lines[2], "  ✔ steps of 16 samples: forward and backward")
        self.write("m.yaml", "name: m\ninput: [2]\nlayers:\n  - linear: {features: 4}\n")
        found = json.loads(self.dlflow("data", "check", "set", "m.yaml", "--json", status=1)[0])["findings"]
        self.assertEqual([one["finding"] for one in found], ["fails"])  # of both splits
        self.assertEqual(found[0]["text"], "model 'm' takes (B,2), but set has (B,3,1,1); write input: [3] in the model file")
        self.assertIn("there is no file or folder none", self.dlflow("data", "check", "none", "m.yaml", status=2)[1])

    def test_a_number_that_is_not_finite_is_found_by_the_check(self):
        self.write("t.csv", "a,y\n" + "".join(f"{n},{n}\n" for n in range(40)))
        self.dlflow("data", "pack", "t.csv", "-o", "set", "--target", "y")
        self.write("m.yaml", "name: m\ninput: [1]\nloss: mse\nlayers:\n  - linear: {features: 1}\n")
        file = self.folder / "set/train.dlset"
        content = bytearray(file.read_bytes())
        struct.pack_into("<f", content, 128 + 4 * (40 + 39), float("nan"))  # behind the header and 40 targets
        file.write_bytes(content)
        out = self.dlflow("data", "check", "set", "m.yaml", status=1)[0]
        self.assertIn("✘ set/train.dlset: 1 of 40 samples cannot be used; repair it, or take it out: ", out)
        self.assertIn("sample 39: value 0 is NaN", out)

    def test_pictures_of_many_sizes_are_resized_and_divided_by_their_names(self):
        sizes = [(4 + i % 5, 9 - i % 4) for i in range(40)]
        for i, (width, height) in enumerate(sizes):
            for name in ("cat", "dog"):
                file = self.folder / "photos" / name / f"{i}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(png(width, height, bytes([i] * (width * height))))
        _, err = self.dlflow("data", "pack", "photos", "-o", "set", status=2)
        self.assertIn("samples cannot be used", err)
        self.assertIn(": has 5 x 8 pixels in grey; the commonest are 4 x 9 pixels in grey (4 of 80 pictures, such as photos/cat/0.png); write --resize 4x9\n", err)
        reshaped = ("--resize", "6", "--crop", "5x4", "--test-share", "0.25", "--validation-share", "0.2")
        out = json.loads(self.dlflow("data", "pack", "photos", "-o", "set", *reshaped, "--json")[0])
        self.assertEqual(sum(split["samples"] for split in out), 80)
        self.assertEqual([split["file"] for split in out], ["set/train.dlset", "set/validation.dlset", "set/test.dlset"])
        self.assertTrue(10 <= out[2]["samples"] <= 30, out)
        train, validation, test = self.show("set")
        self.assertEqual(validation["samples"], out[1]["samples"])
        self.assertEqual((train["channels"], train["height"], train["width"]), (1, 4, 5))
        self.assertEqual((train["samples"], test["samples"]), (out[0]["samples"], out[2]["samples"]))

        def tested(data):  # each picture has one grey level: the levels of each class
            content = (self.folder / data / "test.dlset").read_bytes()
            count = int.from_bytes(content[16:24], "little")
            labels = struct.unpack_from(f"<{count}I", content, 128)
            return set(zip(labels, content[128 + 4 * count:128 + 24 * count:20]))
        before = tested("set")
        for i in range(40, 50):
            (self.folder / "photos/cat" / f"{i}.png").write_bytes(png(6, 6, bytes([i] * 36)))
        self.dlflow("data", "pack", "photos", "-o", "more", *reshaped, "--shards", "1")
        self.dlflow("data", "pack", "more", "-o", "whole", "--split", "test")
        self.assertEqual({(label, grey) for label, grey in tested("whole") if grey < 40}, before)
        (self.folder / "photos/dog/0.png").write_bytes(b"")
        _, err = self.dlflow("data", "pack", "photos", "-o", "bad", *reshaped, status=2)
        self.assertIn("1 of 90 samples", err)
        self.assertEqual(list((self.folder / "bad").iterdir()), [])
        for split in ("validation", "test"):
            (self.folder / split).mkdir()
            (self.folder / "set" / f"{split}.dlset").rename(self.folder / split / f"{split}.dlset")
            _, err = self.dlflow("data", "pack", "photos", "-o", split, *reshaped, status=2)
            self.assertIn(f"{split}/{split}.dlset already exists", err)

    def test_options_of_pictures_are_refused_for_other_data(self):
        (self.folder / "t.csv").write_text("a,b\n1,2\n")
        for argv, text in ((["--crop", "0"], "--crop: '0' is not a size; write 224, or WIDTHxHEIGHT"),
                           (["--resize", "8"], "--resize and --crop change pictures in folders"),
                           (["--test-share", "0.5"], "none of the 1 samples would be in the"),
                           (["--test-share", "0.5", "--validation-share", "0.5"], "leave no samples for training")):
            self.assertIn(text, self.dlflow("data", "pack", "t.csv", "-o", "set", "--target", "b", *argv, status=2)[1])
        self.assertFalse((self.folder / "set").exists())

    def test_the_workflow_regression_reaches_its_quality(self):
        if not TRAIN.exists():
            self.skipTest("built without dlflow-train")
        for name in ("regression.yaml", "friedman.py", "models/regression.yaml"):
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_bytes((ROOT / "workflows" / name).read_bytes())
        env = {"PATH": f"{TRAIN.parent}:{os.environ['PATH']}"}
        result = self.run_json("regression.yaml", "--set", "ranks=1", env=env)
        self.assertEqual(result["state"], "succeeded")

    def write_workflow_of_pictures(self, name, *files):
        """The workflow and its files; its pictures are some that this test makes."""
        (self.folder / "idx").mkdir()
        pictures.write(self.folder / "idx", 200, 100)
        lines = (ROOT / "workflows" / name).read_text().replace("/usr/share/datasets/fashion-mnist", str(self.folder / "idx"))
        self.write(name, "\n".join(line for line in lines.splitlines() if "sha256:" not in line))
        for file in files:
            (self.folder / file).parent.mkdir(exist_ok=True)
            (self.folder / file).write_bytes((ROOT / "workflows" / file).read_bytes())

    def test_the_workflow_segmentation_learns_masks(self):
        if not TRAIN.exists():
            self.skipTest("built without dlflow-train")
        self.write_workflow_of_pictures("segmentation.yaml", "canvases.py", "models/unet-masks.yaml")
        words = [word for param in ("ranks=1", "canvases=120", "epochs=1", "iou=0.05") for word in ("--set", param)]
        result = self.run_json("segmentation.yaml", *words, env={"PATH": f"{TRAIN.parent}:{os.environ['PATH']}"}, timeout=200)
        self.assertEqual(result["state"], "succeeded")
        metrics = {step["name"]: step["metrics"] for step in self.status(result["run"])["steps"]}
        self.assertGreater(metrics["evaluate"]["iou"], 0.05)
        self.assertIn("iou_of_background", metrics["evaluate"])
        masks = next(self.folder.glob("dlflow-runs/*/steps/masks/outputs/predictions.npy"))
        self.assertIn(b"'shape': (500, 64, 64,)", masks.read_bytes()[:128])

    def test_the_workflows_of_pictures_run_at_small_size(self):
        """Other tests check their networks; this one checks that every step runs."""
        if not TRAIN.exists():
            self.skipTest("built without dlflow-train")
        small = {"denoise.yaml": (["models/unet.yaml"], {"rmse": 5}), "fine-tuning.yaml": (["models/lenet.yaml"], {"accuracy": 0}),
                 "networks.yaml": (["tinted.py", "models/mobilenet-v2.yaml", "models/densenet121.yaml"],
                                   {"networks": "[mobilenet-v2, densenet121]", "side": 32, "count": 64, "test": 20, "accuracy": 0})}
        for name, (files, params) in small.items():
            with self.subTest(name):
                shutil.rmtree(self.folder / "idx", ignore_errors=True)
                self.write_workflow_of_pictures(name, *files)
                words = [word for key, value in ({"ranks": 1, "epochs": 1} | params).items() for word in ("--set", f"{key}={value}")]
                result = self.run_json(name, *words, env={"PATH": f"{TRAIN.parent}:{os.environ['PATH']}"}, timeout=200)
                self.assertEqual(result["state"], "succeeded")

    def test_pictures_with_masks_are_packed_shown_and_split(self):
        for i in range(30):
            for kind, pixels in (("images", bytes([i] * 6)), ("masks", bytes([0, 1, 2, 2, 255, i % 3]))):
                file = self.folder / f"set/{kind}/{i:02}.pgm"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"P5 3 2 255\n" + pixels)
        self.write("set/classes.txt", "sky\nroad\ncar\n")
        out = self.dlflow("data", "pack", "set", "-o", "packed", "--test-share", "0.3")[0]
        self.assertRegex(out, r"packed/train.dlset: \d+ samples of 1 x 2 x 3 bytes with masks of 3 classes\n")
        shown = json.loads(self.dlflow("data", "show", "packed", "--json")[0])
        self.assertEqual([split["masks"] for split in shown], [True, True])
        self.assertEqual(shown[0]["classes"][2], {"label": 2, "name": "car"})
        self.assertIn("    1  road\n", self.dlflow("data", "show", "packed")[0])
        self.assertIn("packed/test.dlset: good\n", self.dlflow("data", "verify", "packed")[0])
        out = self.dlflow("data", "pack", "packed", "-o", "again", "--shards", "2")[0]
        self.assertIn("with masks of 3 classes, 2 shards", out)
        out = self.dlflow("data", "pack", "set", "-o", "ignoring", "--ignore", "2", "--resize", "6x4", "--crop", "4")[0]
        self.assertIn("30 samples of 1 x 4 x 4 bytes with masks of 3 classes", out)
        self.assertIn("begin with a copy of workflows/segmentation.yaml", self.dlflow("init", "packed", status=2)[1])

    def workflow(self, data="numbers", more="", before="", evaluates="numbers"):
        self.write_steps(f"""
            {before or "other: {uses: stage, with: {sources: [{url: 'file:///dev/null'}]}}"}
            train:
              uses: train
              needs: [{"prep" if before else "other"}]
              with: {{model: m.yaml, data: {data}, epochs: 1, lr: 0.1{more}}}
            evaluate:
              uses: evaluate
              with: {{checkpoint: "${{{{ steps.train.outputs.model }}}}", data: {evaluates}}}
            """)

    def test_shares_of_classes_are_checked_before_any_job(self):
        self.write("m.yaml", "name: m\ninput: [2]\nlayers:\n  - linear: {features: 2}\n")
        step = "a: {{uses: train, resources: {{gpus_per_rank: 1}}, with: {{model: m.yaml, data: {}, epochs: 1, lr: 0.1{}}}}}"
        for data, shares in (("good", "0.25,0.75"), ("wrong", "0.25,0.5")):
            self.write("t.csv", "a,b,u,v\n" + f"1,2,{shares}\n" * 20)
            self.dlflow("data", "pack", "t.csv", "-o", data, "--target", "u", "--target", "v")
        for data, more, mistake in (
                ("good", "", ""),
                ("wrong", "", "those of sample 0 of wrong add up to 0.75"),
                ("good", ", sampling: balanced", "'sampling' needs classes, but the training data have targets"),
                ("good", ", device: cuda, precision: {reduction: fast}", "'device: cuda' needs one label for each sample")):
            with self.subTest(data=data, more=more):
                self.write("w.yaml", "name: w\nsteps:\n  " + step.format(data, more) + "\n")
                self.assertIn(mistake, self.dlflow("validate", "w.yaml", status=2 if mistake else 0)[1])

    def test_data_is_checked_against_the_model_before_any_job(self):
        self.write("t.csv", "a,b,y\n" + "1,2,3\n" * 20)
        self.write("m.yaml", "name: m\ninput: [2]\nlayers:\n  - linear: {features: 1}\nloss: mse\n")
        for split in ("train", "test"):
            self.dlflow("data", "pack", "t.csv", "-o", "numbers", "--target", "y", "--split", split)
        self.workflow()
        self.dlflow("validate", "w.yaml")
        self.write("m.yaml", "name: m\ninput: [3]\nlayers:\n  - linear: {features: 1}\nloss: mse\n")
        wrong = "w.yaml:7:33: error: model 'm' takes (B,3), but numbers has (B,2,1,1); write input: [2] in the model file\n"  # reported once
        for verb in ("validate", "run"):
            self.assertEqual(self.dlflow(verb, "w.yaml", status=2)[1], wrong)
        self.workflow(before="prep: {run: 'true'}")  # it may write other data
        self.dlflow("validate", "w.yaml")
        self.write("m.yaml", "name: m\ninput: [2]\nlayers:\n  - linear: {features: 2}\n")
        self.workflow()
        self.assertIn("has 'loss: softmax_cross_entropy', which needs labels, but numbers has 1 targets a sample",
                      self.dlflow("validate", "w.yaml", status=2)[1])
        self.write("m.yaml", "name: m\ninput: [2]\nlayers:\n  - linear: {features: 1}\nloss: mse\n")
        self.workflow(more=", validation: 20")
        self.assertIn("'validation' holds out 20 of 20 samples; nothing is left to train on", self.dlflow("validate", "w.yaml", status=2)[1])
        self.workflow(data="numbrs")
        self.assertIn("w.yaml:7:33: error: there is no folder numbrs; did you mean 'numbers'?", self.dlflow("validate", "w.yaml", status=2)[1])
        self.workflow(data="/not/on/this/machine")
        self.dlflow("validate", "w.yaml")
        (self.folder / "numbers/test.dlset").unlink()
        self.workflow()
        self.assertIn("w.yaml:10:66: error: numbers: no test data: neither test.dlset nor", self.dlflow("validate", "w.yaml", status=2)[1])

    def test_data_of_evaluate_and_predict_is_checked_against_the_network_that_a_step_trains(self):
        self.write("t.csv", "a,b,y\n" + "1,2,3\n" * 20)
        self.write("other.csv", "a,y\n" + "1,2\n" * 20)
        self.write("m.yaml", "name: m\ninput: [2]\nlayers:\n  - linear: {features: 1}\nloss: mse\n")
        for table, name in (("t.csv", "numbers"), ("other.csv", "others")):
            for split in ("train", "test"):
                self.dlflow("data", "pack", table, "-o", name, "--target", "y", "--split", split)
        text = """
            name: w
            steps:
              train:
                uses: train
                with: {{model: m.yaml, data: numbers, epochs: 1, lr: 0.1}}
              best:
                uses: checkpoint
                with: {{from: "${{{{ steps.train.outputs.checkpoints }}}}"}}
              evaluate:
                uses: evaluate
                with: {{checkpoint: "${{{{ steps.best.outputs.checkpoint }}}}", data: {0}}}
              predict:
                uses: predict
                with: {{checkpoint: "${{{{ steps.train.outputs.model }}}}", data: {1}, split: {2}}}
            """
        self.write("w.yaml", text.format("numbers", "numbers", "test"))
        self.dlflow("validate", "w.yaml")
        wrong = "error: model 'm' takes (B,2), but others has (B,1,1,1); write input: [1] in the model file\n"
        self.write("w.yaml", text.format("others", "others", "train"))
        self.assertEqual(self.dlflow("validate", "w.yaml", status=2)[1], f"w.yaml:12:70: {wrong}")  # reported once
        self.write("w.yaml", text.format("numbers", "others", "train"))
        self.assertEqual(self.dlflow("validate", "w.yaml", status=2)[1], f"w.yaml:15:66: {wrong}")
        # A long text from a stranger is read, and nothing overflows.
        long = text.replace("outputs.checkpoint }}}}", "outputs.checkpoint }}}}" + " " * 500_000)
        self.write("w.yaml", long.format("others", "numbers", "train"))
        self.assertIn(f": {wrong}", self.dlflow("validate", "w.yaml", status=2)[1])
        (self.folder / "others/test.dlset").unlink()
        self.write("w.yaml", text.format("numbers", "others", "test"))
        self.assertIn("w.yaml:15:66: error: others: no test data", self.dlflow("validate", "w.yaml", status=2)[1])

    def test_verify_names_every_shard_that_is_wrong(self):
        pictures.write(self.folder, 100, 50)
        self.dlflow("data", "pack", self.folder, "-o", "set", "--shards", "4")
        self.dlflow("data", "pack", self.folder, "-o", "set", "--split", "test")
        out = self.dlflow("data", "verify", "set")[0]
        self.assertEqual(out, "set/train.shards.json: good\nset/test.dlset: good\n")
        shards = sorted((self.folder / "set").glob("train-*.dlset"))
        shards[1].write_bytes(shards[1].read_bytes()[:-1] + b"!")
        shards[3].unlink()
        out = self.dlflow("data", "verify", "set", status=1)[0]
        self.assertIn("set/train-00001-of-00004.dlset: its SHA-256 does not match", out)
        self.assertIn("set/train-00003-of-00004.dlset: this shard is missing", out)
        self.assertIn("set/test.dlset: good", out)
        self.assertEqual(len(out.splitlines()), 3)

    def test_mistakes_are_named_and_nothing_is_overwritten(self):
        pictures.write(self.folder, 100, 50)
        self.dlflow("data", "pack", self.folder, "-o", "set")
        before = (self.folder / "set/train.dlset").read_bytes()
        _, err = self.dlflow("data", "pack", self.folder, "-o", "set", "--shards", "2", status=2)
        self.assertIn("set/train.dlset already exists", err)
        self.assertEqual((self.folder / "set/train.dlset").read_bytes(), before)
        _, err = self.dlflow("data", "pack", self.folder, "-o", "new", "--shards", "101", status=2)
        self.assertIn("100 samples cannot be divided into 101 shards", err)
        self.assertIn("no training data", self.dlflow("data", "show", "new", status=2)[1])
        self.write("t.csv", "a\n1\n")
        self.assertIn("t.csv is a table; pack it first", self.dlflow("data", "show", "t.csv", status=2)[1])
        self.assertIn("there is no file or folder nowhere", self.dlflow("data", "verify", "nowhere", status=2)[1])
        file = self.folder / "train-labels-idx1-ubyte.gz"
        file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes())[:-1]))
        _, err = self.dlflow("data", "pack", self.folder, "-o", "new", status=2)
        self.assertIn("its header declares 100 bytes, but 99 follow", err)


if __name__ == "__main__":
    main()
