"""Starts the Grid Engine of the tests in this folder, or ends it: site.py up BUILD | site.py down BUILD.

BUILD is a build tree. What the tests need of it goes to a folder that the cluster's ordinary user can read, as a
checkout below /root cannot be. BUILD/tests/gridengine/site.json says where all that is, or why it is not.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = SOURCE / "tests/cluster/gridengine-cluster"
PROFILE = """
scheduler: gridengine
gridengine: {parallel_environment: mpi, memory: h_vmem}
launcher: {program: mpirun, arguments: [--bind-to, none]}
"""


def up(build):
    down(build)
    site = build / "tests/gridengine/site.json"
    site.parent.mkdir(parents=True, exist_ok=True)
    able = subprocess.run([CLUSTER, "check"], stderr=subprocess.PIPE, text=True)
    if able.returncode != 0:
        site.write_text(json.dumps({"missing": able.stderr.strip()}))
        print(f"skipped here: {able.stderr}")
        return 77
    root = pathlib.Path(tempfile.mkdtemp(prefix="dlflow-gridengine.", dir="/var/tmp"))
    site.write_text(json.dumps({"root": str(root)}))
    (root / "dlflow/bin").mkdir(parents=True)
    (root / "dlflow/cluster-profiles").mkdir()
    shutil.copy(build / "bin/dlflow", root / "dlflow/bin")
    (root / "dlflow/cluster-profiles/ge.yaml").write_text(PROFILE)
    subprocess.run(["chmod", "-R", "a+rX", root], check=True)
    status = subprocess.run([CLUSTER, "up", root / "ge"]).returncode
    if status != 0:
        down(build)
    return status


def down(build):
    """Ends what site.json names, and removes it; also what an interrupted run left."""
    site = build / "tests/gridengine/site.json"
    if not site.exists():
        return 0
    root = json.loads(site.read_text()).get("root")
    if root:
        subprocess.run([CLUSTER, "down", f"{root}/ge"], check=True)
        shutil.rmtree(root, ignore_errors=True)
    site.unlink()
    return 0


if __name__ == "__main__":
    sys.exit({"up": up, "down": down}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve()))
