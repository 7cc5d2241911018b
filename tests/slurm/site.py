"""Starts the clusters of the tests in this folder, or ends them: site.py up BUILD [OPTION...] | site.py down BUILD.

Three sites, so that tests need not wait for each other. Options are those of `slurm-cluster up`, for all clusters.

BUILD is a build tree. What the tests need of it goes to a folder that the clusters' ordinary user can read, as a
checkout below /root cannot be. BUILD/tests/slurm/site.json says where all that is, or why it is not.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SLURM_CLUSTER = SOURCE / "tests/cluster/slurm-cluster"
PAIR = {"alpha": [], "beta": ["--partitions", "main,long"]}
SITES = {"first": PAIR, "second": PAIR, "third": {"gamma": ["--preempting", "urgent"]}}


def stage(build, to):
    """The programs, the Python package, the workflows and the profiles, readable by everybody."""
    shutil.copytree(build / "bin", to / "bin")
    for program in (build / "tests/slurm/hosts", build / "tests/mpi_test"):
        if program.exists():
            shutil.copy(program, to / "bin")
    if (build / "lib").exists():  # dlflow's Python package, and the library that it looks for beside it
        shutil.copytree(build / "lib", to / "lib")
        shutil.copytree(build / "python", to / "python", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("workflows", "cluster-profiles"):
        shutil.copytree(SOURCE / folder, to / folder)
    subprocess.run(["chmod", "-R", "a+rX", to], check=True)


def up(build, *further):
    down(build)
    site = build / "tests/slurm/site.json"
    site.parent.mkdir(parents=True, exist_ok=True)
    able = subprocess.run([SLURM_CLUSTER, "check"], stderr=subprocess.PIPE, text=True)
    if able.returncode != 0:
        site.write_text(json.dumps({"missing": able.stderr.strip()}))
        print(f"skipped here: {able.stderr}")
        return 77
    root = pathlib.Path(tempfile.mkdtemp(prefix="dlflow-slurm.", dir="/var/tmp"))
    roots = {name: str(root / name) for name in SITES}
    site.write_text(json.dumps({"root": roots["first"], "sites": roots}))
    for folder in (root, *map(pathlib.Path, roots.values())):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    # First, for a cluster that starts removes its root if that is empty.
    (root / "first/dlflow").mkdir()
    for other in ("second", "third"):
        (root / other / "dlflow").symlink_to(root / "first/dlflow")
    starting = [subprocess.Popen([SLURM_CLUSTER, "up", name, "--root", roots[place], *options, *further])
                for place, clusters in SITES.items() for name, options in clusters.items()]
    stage(build, root / "first/dlflow")
    statuses = [process.wait() for process in starting]
    if any(statuses):
        down(build)
    return max(statuses)


def down(build):
    """Ends what site.json names, and removes it; also what an interrupted run left."""
    site = build / "tests/slurm/site.json"
    if not site.exists():
        return 0
    roots = json.loads(site.read_text()).get("sites", {})
    for place, root in roots.items():
        for name in SITES[place]:
            subprocess.run([SLURM_CLUSTER, "down", name, "--root", root], check=True)
    for root in roots.values():
        shutil.rmtree(pathlib.Path(root).parent, ignore_errors=True)
    site.unlink()
    return 0


if __name__ == "__main__":
    sys.exit({"up": up, "down": down}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:]))
