"""The programs are built and train in a Debian 13 with its compiler, oneDNN 3 and Open MPI 5.

The machine stays in build/tests/debian13 with its compiled files, and is made again if ./dev names other packages.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MACHINE = pathlib.Path(os.environ["DLFLOW_BUILD"]) / "tests/debian13"
sys.path.insert(0, str(SOURCE / "tests/support"))
from cases import main  # noqa: E402

# In namespaces of its own, so that nothing stays mounted and no process stays behind. The sources cannot be written.
ENTER = """
cd "$0"
mount -t proc proc proc
mount --rbind /dev dev
mkdir -p root/dlflow root/build
mount -o bind,ro "$1" root/dlflow
mount --bind root/build root/dlflow/build
exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CMAKE_BUILD_PARALLEL_LEVEL=2 chroot . sh -euc "$2"
"""


class Debian13(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
            self.skipTest("needs root and Debian's mmdebstrap")
        text = (SOURCE / "dev").read_text()
        packages = " ".join(re.search(rf"^{kind}_packages=\((.*?)\)", text, re.S | re.M)[1] for kind in ("build", "run"))
        made = MACHINE / "packages"
        if made.exists() and made.read_text() == packages:
            return
        subprocess.run(["rm", "-rf", "--one-file-system", MACHINE], check=True)
        made_it = subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", f"--include={','.join(packages.split())}", "trixie", MACHINE],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made_it.returncode != 0 and "Unable to locate package" not in made_it.stdout:
            self.skipTest(f"a Debian 13 cannot be made: {made_it.stdout.strip()[-300:]}")
        self.assertEqual(made_it.returncode, 0, made_it.stdout)
        made.write_text(packages)

    def inside(self, commands):
        done = subprocess.run(["nice", "-n", "19", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
                               "sh", "-euc", ENTER, MACHINE, SOURCE, commands],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_the_demo_runs_with_programs_built_on_debian_13(self):
        self.inside("/root/dlflow/dev build")
        output = self.inside("export HOME=$(mktemp -d); cd $HOME; "
                             "/root/dlflow/build/bin/dlflow run /root/dlflow/workflows/fashion-mnist.yaml --set epochs=1; rm -rf $HOME")
        self.assertRegex(output, r"evaluate  . succeeded .*accuracy 0\.8")


if __name__ == "__main__":
    main()
