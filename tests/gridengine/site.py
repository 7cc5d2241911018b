"""Starts the Grid Engine of the tests in this folder, or ends it: site.py up BUILD | site.py down BUILD."""

import json
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests/support"))

from real_cluster import Site  # noqa: E402

PROFILE = """
scheduler: gridengine
gridengine: {parallel_environment: mpi, memory: h_vmem}
launcher: {program: mpirun, arguments: [--bind-to, none]}
"""


def up(site):
    down(site)
    root = site.begin()
    if root is None:
        return 77
    site.file.write_text(json.dumps({"root": str(root)}))
    (root / "dlflow/bin").mkdir(parents=True)
    (root / "dlflow/cluster-profiles").mkdir()
    shutil.copy(site.build / "bin/dlflow", root / "dlflow/bin")
    (root / "dlflow/cluster-profiles/ge.yaml").write_text(PROFILE)
    subprocess.run(["chmod", "-R", "a+rX", root], check=True)
    status = subprocess.run([site.tool, "up", root / "ge"]).returncode
    if status != 0:
        down(site)
    return status


def down(site):
    """Ends what site.json names, and removes it; also what an interrupted run left."""
    if not site.file.exists():
        return 0
    root = json.loads(site.file.read_text()).get("root")
    if root:
        subprocess.run([site.tool, "down", f"{root}/ge"], check=True)
        shutil.rmtree(root, ignore_errors=True)
    site.file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit({"up": up, "down": down}[sys.argv[1]](Site("gridengine", sys.argv[2])))
