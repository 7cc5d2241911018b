"""Starts the clusters of the tests in this folder, or ends them: site.py up BUILD [OPTION...] | site.py down BUILD.

There are three sites, so that tests need not wait for each other. Options are those of `slurm-cluster up`, for all clusters.
"""

import json
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests/support"))

from real_cluster import Site  # noqa: E402

PAIR = {"alpha": [], "beta": ["--partitions", "main,long"]}
SITES = {"first": PAIR, "second": PAIR, "third": {"gamma": ["--preempting", "urgent"]}}


def stage(build, to):
    """Copies the programs, the Python package, the workflows and the profiles, readable by everyone."""
    shutil.copytree(build / "bin", to / "bin")
    for program in (build / "tests/slurm/hosts", build / "tests/mpi_test"):
        if program.exists():
            shutil.copy(program, to / "bin")
    if (build / "lib").exists():  # dlflow's Python package, and the library that it loads
        shutil.copytree(build / "lib", to / "lib")
        shutil.copytree(build / "python", to / "python", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("workflows", "cluster-profiles"):
        shutil.copytree(SOURCE / folder, to / folder)
    subprocess.run(["chmod", "-R", "a+rX", to], check=True)


def up(site, *further):
    down(site)
    root = site.begin()
    if root is None:
        return 77
    roots = {name: str(root / name) for name in SITES}
    site.file.write_text(json.dumps({"root": roots["first"], "sites": roots}))
    for folder in (root, *map(pathlib.Path, roots.values())):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    # Must come first: a starting cluster removes its root if that is empty.
    (root / "first/dlflow").mkdir()
    for other in ("second", "third"):
        (root / other / "dlflow").symlink_to(root / "first/dlflow")
    starting = [subprocess.Popen([site.tool, "up", name, "--root", roots[place], *options, *further])
                for place, clusters in SITES.items() for name, options in clusters.items()]
    stage(site.build, root / "first/dlflow")
    statuses = [process.wait() for process in starting]
    if any(statuses):
        down(site)
    return max(statuses)


def down(site):
    """Ends and removes what site.json names, including the rest of an interrupted run."""
    if not site.file.exists():
        return 0
    roots = json.loads(site.file.read_text()).get("sites", {})
    for place, root in roots.items():
        for name in SITES[place]:
            subprocess.run([site.tool, "down", name, "--root", root], check=True)
    for root in roots.values():
        shutil.rmtree(pathlib.Path(root).parent, ignore_errors=True)
    site.file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit({"up": up, "down": down}[sys.argv[1]](Site("slurm", sys.argv[2]), *sys.argv[3:]))
