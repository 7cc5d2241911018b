"""`python -m dlflow.convert`: files of the named libraries are converted in both directions."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402

PYTHON = pathlib.Path(os.environ["DLFLOW_BIN"]).parent / "venv/bin/python"  # made by tests/python/make_venv
FIND = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, ('h5py', 'netCDF4', 'pyarrow'))))"
HAS_LIBRARIES = PYTHON.exists() and subprocess.run([PYTHON, "-c", FIND]).returncode == 0
TABLE = 'sample,label,score\n0,"kind 1, of ten",0.1\n1,"a ""q"" é",2.5\n'
OTHERS = ".parquet", ".h5", ".nc", ".npz"


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def convert(self, *arguments, python=(PYTHON,), status=0):
        """What it prints to standard error."""
        done = subprocess.run([*python, "-m", "dlflow.convert", *arguments], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def make(self, code):
        subprocess.run([PYTHON, "-c", code], cwd=self.folder, check=True)


class WithoutLibraries(Case):
    def test_a_missing_library_is_named_with_the_pip_command(self):
        (self.folder / "a.csv").write_text(TABLE)
        self.assertIn("-m pip install numpy", self.convert("a.csv", "-o", "a.parquet", python=("/usr/bin/python3", "-S"), status=2))


@unittest.skipUnless(HAS_LIBRARIES, "h5py, netCDF4 and PyArrow are not in build/venv (tests/python/make_venv)")
class Convert(Case):
    def test_a_table_is_converted_there_and_back_unchanged(self):
        (self.folder / "a.csv").write_text(TABLE)
        for ending in (".tsv", *OTHERS):
            with self.subTest(ending):
                self.convert("a.csv", "-o", "a" + ending)
                self.convert("a" + ending, "-o", f"back{ending}.csv")
                self.assertEqual((self.folder / f"back{ending}.csv").read_text(), TABLE)

    def test_an_array_is_converted_there_and_back_unchanged(self):
        self.make("import numpy; numpy.save('x', numpy.arange(24, dtype='f4').reshape(2, 3, 4) / 10); numpy.save('words', numpy.array(['a', 'bc']))")
        for name, ending in (*(("x", ending) for ending in OTHERS), ("words", ".h5")):
            with self.subTest(name=name, ending=ending):
                self.convert(name + ".npy", "-o", name + ending)
                self.convert(name + ending, "-o", f"{name}{ending}.npy")
                self.assertEqual((self.folder / f"{name}{ending}.npy").read_bytes(), (self.folder / f"{name}.npy").read_bytes())

    def test_types_that_only_one_format_has_are_converted(self):
        self.make("""if True:
            import h5py, netCDF4, numpy, pyarrow, pyarrow.parquet
            words = pyarrow.array(["a", None, "a"]).dictionary_encode()
            numbers = pyarrow.array([[1, 2], [3, 4], [5, 6]])
            pyarrow.parquet.write_table(pyarrow.table({"w": words, "n": [1, None, 3], "l": numbers}), "a.parquet")
            with h5py.File("a.h5", "w") as file:
                file["train/flag"] = [True, False]
                file["train/word"] = numpy.array([b"ab", b"c"])
            with netCDF4.Dataset("a.nc", "w", format="NETCDF3_CLASSIC") as file:
                file.createDimension("sample", None)
                file.createDimension("letter", 2)
                file.createVariable("word", "S1", ("sample", "letter"))[:] = netCDF4.stringtochar(numpy.array(["ab", "c"], "S2"))
                file.createVariable("n", "i4", ("sample",), fill_value=-1)[:] = [3, -1]
        """)
        for ending, table in ((".parquet", "w,n,l_0,l_1\na,1.0,1,2\n,nan,3,4\na,3.0,5,6\n"),
                              (".h5", "train/flag,train/word\nTrue,ab\nFalse,c\n"),
                              (".nc", "word,n\nab,3.0\nc,nan\n")):
            with self.subTest(ending):
                self.convert("a" + ending, "-o", f"a{ending}.csv")
                self.assertEqual((self.folder / f"a{ending}.csv").read_text(), table)
        self.convert("a.h5", "-o", "b.nc")
        self.convert("b.nc", "-o", "b.csv")
        self.assertEqual((self.folder / "b.csv").read_text(), "train_flag,train_word\n1,ab\n0,c\n")

    def test_one_of_several_arrays_is_selected_by_its_name(self):
        self.make("import h5py\nwith h5py.File('a.h5', 'w') as file: file['x'], file['y'] = [[1, 2]], [3, 4, 5]")
        self.assertIn("choose one with --name: x, y", self.convert("a.h5", "-o", "y.npy", status=1))
        self.assertIn("choose some with --name: x, y", self.convert("a.h5", "-o", "y.csv", status=1))
        self.assertIn("it has no array z; it has x, y", self.convert("a.h5", "-o", "y.csv", "--name", "z", status=1))
        self.convert("a.h5", "-o", "y.csv", "--name", "y")
        self.assertEqual((self.folder / "y.csv").read_text(), "y\n3\n4\n5\n")

    def test_a_failed_conversion_leaves_no_file(self):
        self.make("import pyarrow, pyarrow.parquet as p; p.write_table(pyarrow.table({'l': [[1], [2, 3]], 't': pyarrow.array([0, 1], 'date64')}), 'a.parquet')")
        (self.folder / "a.csv").write_text("a,b\n1\n")
        for source, target, error in (("a.parquet", "b.npy", "the lists of its column l have different lengths"),
                                      ("a.csv", "b.npy", "row 2 has 1 cells, the first one 2"),
                                      ("none.nc", "b.npy", "No such file"), ("a.csv", "a.parquet", "already exists"),
                                      ("a.csv", "b.txt", "does not end in one of .npy, .csv")):
            with self.subTest(source=source, target=target):
                self.assertIn(error, self.convert(source, "-o", target, status=2 if error.startswith(("already", "does")) else 1))
        self.make("import numpy; numpy.save('t', numpy.array(['2026-01-01'], 'M8[D]'))")
        self.convert("t.npy", "-o", "t.h5", status=1)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.csv", "a.parquet", "t.npy"])


if __name__ == "__main__":
    main()
