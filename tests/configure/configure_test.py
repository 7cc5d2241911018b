"""dlflow can be configured and built without each optional library, and without all of them; the targets that do not need it remain."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/support"))
from cases import main  # noqa: E402

# A library or tool -> settings that hide it from CMake.
MISSING = {
    "oneDNN": ["-DDNNL_LIBRARY="],
    "OpenMP": ["-DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON"],
    "MPI": ["-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON", "-DDLFLOW_MPICH_INCLUDE="],
    "CUDA": ["-DCMAKE_CUDA_COMPILER=NOTFOUND"],
    "Python": ["-DDLFLOW_PYTHON="],
    "JPEG": ["-DJPEG_LIBRARY="],
    "Catch2": ["-DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON"],
}


# In a namespace where an empty folder is the build folder: the compilers' command lines are those of the build that made this
# test, so that ccache has what they make. CMake takes from there what it knows of the compilers; all else it looks for anew.
BUILD = """
mkdir "$0/CMakeFiles"
cp -r "$1"/build/CMakeFiles/[0-9]* "$0/CMakeFiles"
known=$(sed -nE 's/^CMAKE_(CUDA_COMPILER|EXECUTABLE_FORMAT|PLATFORM_INFO_INITIALIZED):/-D&/p' "$1/build/CMakeCache.txt")
mount --bind "$0" "$1/build"
cd "$1"
shift
cmake --preset release $known "$@"
cmake --build build --target dlflow
build/bin/dlflow --version
"""


UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


class ConfigureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            raise unittest.SkipTest("needs root, or user namespaces")

    def targets(self, settings):
        """The targets of a build configured with `settings`; its dlflow was built and runs."""
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([*UNSHARE, "sh", "-euc", BUILD, folder, SOURCE, *settings],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertRegex(run.stdout.splitlines()[-1], r"^dlflow [0-9.]+$")
            listed = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], stdout=subprocess.PIPE,
                                    text=True, check=True).stdout
        return {line.split(":")[0] for line in listed.splitlines()}

    def test_only_dlflow_is_built_if_all_libraries_are_missing(self):
        targets = self.targets(sum(MISSING.values(), []))
        self.assertIn("dlflow", targets)
        self.assertFalse({"dlflow-train", "dlflow-evaluate", "nn_test"} & targets)

    def test_each_missing_library_removes_only_its_own_targets(self):
        for missing in (["oneDNN"], ["OpenMP"], ["MPI", "CUDA", "Python"], ["JPEG", "Catch2"]):
            with self.subTest(missing):
                targets = self.targets(sum(map(MISSING.get, missing), []))
                self.assertIn("dlflow", targets)
                self.assertEqual("dlflow-train" in targets, missing not in (["oneDNN"], ["OpenMP"]))
                self.assertEqual("dlflow_mpi_40" in targets, "MPI" not in missing)
                self.assertEqual("base_test" in targets, "Catch2" not in missing)

    def test_shared_libraries_replace_static_ones(self):
        self.assertIn("dlflow", self.targets(["-DDLFLOW_STATIC=OFF"]))


if __name__ == "__main__":
    main()
