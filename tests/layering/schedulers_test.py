"""Fails if code outside of a batch system's folder names it: the engine must use a BatchSystem (engine/batch/batch_system.h) or a BatchSection
(engine/model/schedulers.h)."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = (ROOT / "engine/model/batch_systems.def").read_text()
SYSTEMS = re.findall(r"^DLFLOW_BATCH_SYSTEM\((\w+)", ROWS, re.MULTILINE)
ABOVE = ("engine/batch", "engine/cli", "engine/report", "engine/run")
NAME = re.compile(r"slurm|sbatch|squeue|sacct|scancel|scontrol|grid *engine|qsub|qstat|qacct|qdel", re.IGNORECASE)

# docs/contributor/adding.md explains them.
ALLOWED = {
    "engine/cli/usage.cpp",                 # the words that people type by mistake
    "engine/cli/warnings_of_commands.cpp",  # lines that people leave in scripts
    "engine/init/batch_script.cpp",         # reads people's scripts for sbatch
    "engine/ranks/rank_nodes.cpp",          # the nodes of a job
    "engine/ranks/rank_variables.cpp",      # the ranks that srun starts
    "base/mpi.h",                           # srun as a launcher
}


def named():
    """A pattern for the names of systems, and for the variables that they give to jobs."""
    words = [f'"{system}"' for system in SYSTEMS]
    for system in SYSTEMS:
        row = re.search(r"\.job_variables = \{([^}]*)\}", (ROOT / "engine" / system / "section.cpp").read_text())
        words += [rf"\b{name}" if name.endswith("_") else f'"{name}"' for name in re.findall(r'"(\w+)\*?"', row[1])]
    return re.compile("|".join(words))


def main():
    wrong, files, name = [], 0, named()
    for top in ("base", "engine", "runtime", "steps"):
        for file in sorted((ROOT / top).rglob("*")):
            path = file.relative_to(ROOT).as_posix()
            if file.suffix not in (".h", ".cpp", ".cu") or path in ALLOWED or path.startswith(tuple(f"engine/{system}/" for system in SYSTEMS)):
                continue
            files += 1
            pattern = NAME if path.startswith(ABOVE) else name
            wrong += [f"{path}:{number}: {line.strip()}" for number, line in enumerate(file.read_text().splitlines(), 1)
                      if pattern.search(line.split("//")[0])]
    print(f"{files} files, {len(SYSTEMS)} batch systems")
    for place in wrong:
        print("error:", place)
    sys.exit(bool(wrong) or files < 500 or len(SYSTEMS) < 2)


if __name__ == "__main__":
    main()
