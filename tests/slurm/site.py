"""Starts the clusters of the tests in this folder, or ends them: site.py up BUILD [OPTION...] | site.py down BUILD.

Options are those of `slurm-cluster up`, for both clusters.

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
CLUSTERS = {"alpha": [], "beta": ["--partitions", "main,long"], "gamma": ["--preempting", "urgent"]}


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
        print(able.stderr)
        return 77
    root = pathlib.Path(tempfile.mkdtemp(prefix="dlflow-slurm.", dir="/var/tmp"))
    site.write_text(json.dumps({"root": str(root)}))
    root.chmod(0o755)
    starting = [subprocess.Popen([SLURM_CLUSTER, "up", name, "--root", root, *options, *further])
                for name, options in CLUSTERS.items()]
    stage(build, root / "dlflow")
    statuses = [process.wait() for process in starting]
    if any(statuses):
        down(build)
    return max(statuses)


def down(build):
    """Ends what site.json names, and removes it; also what an interrupted run left."""
    site = build / "tests/slurm/site.json"
    if not site.exists():
        return 0
    root = json.loads(site.read_text()).get("root")
    for name in CLUSTERS if root else ():
        subprocess.run([SLURM_CLUSTER, "down", name, "--root", root], check=True)
    if root:
        shutil.rmtree(root, ignore_errors=True)
    site.unlink()
    return 0


if __name__ == "__main__":
    sys.exit({"up": up, "down": down}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:]))
