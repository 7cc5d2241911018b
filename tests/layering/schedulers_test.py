"""Fails if code above the interface to batch systems names one of them: the engine must use a BatchSystem (engine/batch/batch_system.h)."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABOVE = ("engine/batch", "engine/cli", "engine/report", "engine/run")
NAME = re.compile(r"slurm|sbatch|squeue|sacct|scancel|scontrol|grid *engine|qsub|qstat|qacct|qdel", re.IGNORECASE)

ALLOWED = {
    "engine/run/chain/from_job.cpp",  # takes the variables of a job out of the environment of its submissions
    "engine/cli/usage.cpp",           # the words that people type by mistake
    "engine/cli/warnings_of_commands.cpp",  # lines that people leave in scripts
    "engine/report/report_data.cpp",  # "energy_source": "slurm", which scripts read
}


def code_of(line):
    return line.split("//")[0]


def main():
    wrong, files = [], 0
    for folder in ABOVE:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp"):
                continue
            files += 1
            path = file.relative_to(ROOT).as_posix()
            if path in ALLOWED:
                continue
            wrong += [f"{path}:{number}: {line.strip()}" for number, line in enumerate(file.read_text().splitlines(), 1)
                      if NAME.search(code_of(line))]
    print(f"{files} files above the seam")
    for place in wrong:
        print("error:", place)
    sys.exit(bool(wrong) or files < 100)


if __name__ == "__main__":
    main()
