"""The wheel that `./dev package` makes is installed by pip alone, without a network, into a bare Python."""

import hashlib
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cases import main  # noqa: E402

BUILD = pathlib.Path(os.environ["DLFLOW_BIN"]).parent
TOOLS = BUILD / "tests/uv/bin"  # tests/e2e/tools-requirements.txt
TORCH = BUILD / "torch-venv/bin/python"
ROOT = pathlib.Path(__file__).resolve().parents[2]
WATCHDOG = 60  # seconds after which ranks that hang fail by their name

RANK = """
import array, pathlib, sys, time
from dlflow import runtime
rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
endpoint = runtime.Endpoint()
(folder / f"{rank}.tmp").write_text(endpoint.address)
(folder / f"{rank}.tmp").rename(folder / f"{rank}.address")
while len(list(folder.glob("*.address"))) < size:
    time.sleep(0.02)
group = runtime.Group(endpoint, rank, [(folder / f"{r}.address").read_text() for r in range(size)])
numbers = array.array("f", [rank + 1, 10 * (rank + 1)])
group.all_reduce(numbers.buffer_info()[0], len(numbers), runtime.Type.F32, runtime.Op.SUM).wait()
print(list(numbers))
group.leave()
"""


def wheel():
    found = list(BUILD.glob("dlflow-*.whl"))
    return found[0] if found else None


@unittest.skipUnless(wheel(), "the wheel was not built")
class Wheel(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}

    def run_well(self, *command):
        done = subprocess.run([str(word) for word in command], env=self.env, cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_new_python_has_the_whole_package(self):
        made = subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], text=True, capture_output=True)
        if made.returncode != 0:
            self.skipTest("python3-venv is not installed")
        python = self.folder / "venv/bin/python"
        self.run_well(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", wheel())
        out = self.run_well(python, "-m", "dlflow.check")
        self.assertRegex(out, r"ok +package: .*/venv/.*\nok +runtime library: .*/venv/.*/dlflow/libdlflow_runtime.so")
        self.assertTrue(out.endswith("all is well\n"), out)
        self.two_ranks(python)
        version = "dlflow " + self.run_well(python, "-c", "import dlflow; print(dlflow.__version__)")
        for command in ([self.folder / "venv/bin/dlflow"], [python, "-m", "dlflow"]):
            self.assertEqual(self.run_well(*command, "--version"), version)
        warned = subprocess.run([self.folder / "venv/bin/dlflow", "validate", "workflows/fashion-mnist.yaml"], env=self.env, cwd=self.folder,
                                text=True, capture_output=True)
        self.assertEqual(warned.returncode, 0, warned.stderr)
        self.assertRegex(warned.stderr, r"/venv/bin/dlflow-train is not there; the release's tarball has it.* put the release's .* into /\S+/venv/share/dlflow\b")
        done = subprocess.run([python, "-c", "import dlflow.torch"], env=self.env, text=True, capture_output=True)
        self.assertIn(f"ModuleNotFoundError: dlflow.torch needs PyTorch, which is not installed: {python} -m pip install torch", done.stderr)
        done = subprocess.run([python, "-m", "dlflow.torch.weights", "net.pt"], env=self.env, text=True, capture_output=True)
        self.assertEqual(done.stderr, f"error: dlflow.torch needs PyTorch, which is not installed: {python} -m pip install torch\n")
        extras = "from importlib import metadata; print(*metadata.metadata('dlflow').get_all('Provides-Extra'))"
        self.assertEqual(self.run_well(python, "-c", extras), "torch data track\n")
        # The types are there, too, and PyTorch finds the backend.
        self.assertEqual(len(list(self.folder.glob("venv/lib/python3*/site-packages/dlflow/py.typed"))), 1)
        points = next(self.folder.glob("venv/lib/python3*/site-packages/dlflow-*/entry_points.txt"))
        self.assertIn("dlflow._torch_autoload:autoload", points.read_text())

    def two_ranks(self, python):
        ranks = [subprocess.Popen([python, "-c", RANK, str(rank), "2", self.folder], env=self.env, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) for rank in range(2)]
        try:
            for rank in ranks:
                out, errors = rank.communicate(timeout=WATCHDOG)
                self.assertEqual((out, rank.returncode), ("[3.0, 30.0]\n", 0), errors)
        except subprocess.TimeoutExpired:
            for rank in ranks:
                rank.kill()
            self.fail(f"an all-reduce of two ranks hangs: {[rank.communicate() for rank in ranks]}")

    def test_the_same_sources_make_the_same_bytes(self):
        made = []
        for name in ("a", "b"):
            (self.folder / name).mkdir()
            about = next((BUILD / "python").glob("dlflow-*.dist-info"))
            path = self.run_well(sys.executable, "-B", ROOT / "python/make_wheel.py", self.folder / name, about, ROOT / "LICENSE",
                                 BUILD / "lib/libdlflow_runtime.so", BUILD / "bin/dlflow").strip()
            made.append(hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest())
        self.assertEqual(*made)

    @unittest.skipUnless((TOOLS / "auditwheel").exists(), "PyPI's auditwheel is not in build/tests/uv")
    def test_auditwheel_finds_the_same_platform(self):
        told = " ".join(self.run_well(TOOLS / "auditwheel", "show", wheel()).split())
        platform = wheel().stem.split("-")[-1]
        self.assertIn(f'is consistent with the following platform tag: "{platform}"', told)

    @unittest.skipUnless((TOOLS / "twine").exists(), "PyPI's twine is not in build/tests/uv")
    def test_twine_accepts_the_metadata(self):
        self.assertIn("PASSED", self.run_well(TOOLS / "twine", "check", "--strict", wheel()))

    def test_a_symbol_of_libstdcpp_shows_the_required_glibc(self):
        make_wheel = runpy.run_path(str(ROOT / "python/make_wheel.py"))
        for symbols, glibc in (("(GLIBC_2.2.5) f", 17), ("(GLIBC_2.34) f\n(GLIBCXX_3.4.30) g", 35), ("(GLIBC_2.36) f\n(GLIBCXX_3.4.30) g", 36),
                               ("(CXXABI_1.3.13) f", 34), ("(GLIBCXX_3.4.19) f\n(GLIBCXX_3.4) g", 17)):
            with mock.patch("subprocess.run", return_value=mock.Mock(stdout=symbols)):
                self.assertEqual(make_wheel["glibc_of"]("library"), glibc, symbols)
        with mock.patch("subprocess.run", return_value=mock.Mock(stdout="(GLIBCXX_3.4.99) f")), self.assertRaisesRegex(SystemExit, "3.4.99"):
            make_wheel["glibc_of"]("library")

    @unittest.skipUnless((TOOLS / "uv").exists(), "PyPI's uv is not in build/tests/uv")
    def test_uv_installs_the_command(self):
        self.run_well(TOOLS / "uv", "tool", "install", "--quiet", "--offline", "--python", "/usr/bin/python3", wheel())
        self.assertRegex(self.run_well(self.folder / ".local/bin/dlflow", "--version"), r"^dlflow [0-9.]+\n$")

    @unittest.skipUnless(TORCH.exists(), "PyPI's PyTorch is not in build/torch-venv")
    def test_pytorch_is_imported_if_the_library_cannot_be_loaded(self):
        with zipfile.ZipFile(wheel()) as file:
            file.extractall(self.folder / "site")
        (self.folder / "site/dlflow/libdlflow_runtime.so").write_text("for another machine")
        self.env["PYTHONPATH"] = str(self.folder / "site")
        done = subprocess.run([TORCH, "-c", "import torch; print(torch.ones(1).item())"], env=self.env, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, "1.0\n"), done.stderr)
        self.assertIn('warning: there is no backend "dlflow" for PyTorch here: ', done.stderr)

    def test_every_module_is_in_the_wheel(self):
        names = set(zipfile.ZipFile(wheel()).namelist())
        for path in (ROOT / "python/dlflow").rglob("*.py"):
            self.assertIn(str(path.relative_to(ROOT / "python")), names)


if __name__ == "__main__":
    main()
