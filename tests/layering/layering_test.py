"""Prints which folder includes which, and fails if the table of docs/contributor/reference.md does not allow it."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def allowed():
    """folder -> folders that it may include, from the table."""
    rows = re.findall(r"^\| ((?:base|engine|runtime|steps)[\w/]*) \|[^|]*\|([^|]*)\|$",
                      (ROOT / "docs/contributor/reference.md").read_text(), re.MULTILINE)
    return {folder: set(others.split()) | {folder} for folder, others in rows}


def includes():
    """folder -> folder that it includes -> one of the files that does."""
    found = {}
    for top in ("base", "engine", "runtime", "steps"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".cu"):
                continue
            folder = file.parent.relative_to(ROOT).as_posix()
            for path in INCLUDE.findall(file.read_text()):
                found.setdefault(folder, {}).setdefault(str(pathlib.PurePosixPath(path).parent), file.relative_to(ROOT))
    return found


def covered(folder, folders):
    """A folder below one of the table belongs to it."""
    return next((known for known in folders if folder == known or folder.startswith(known + "/")), None)


def seen_by_all_ranks():
    """Files outside cooperation that use its classes for ranks which step alone; a step of all ranks must not pay for these."""
    alone = re.compile(r"\b(Role|OwnUpdates|Learner)\b")
    for file in sorted((ROOT / "runtime").rglob("*.[hc]*")):
        path = file.relative_to(ROOT)
        is_alone = path.parts[1] == "cooperation" or path.stem == "lone_worker"
        if not is_alone and path.suffix in (".h", ".cpp") and alone.search(file.read_text()):
            yield path


def decided_elsewhere():
    """Places outside of engine/decide that block, free, skip or retry a job or choose a list by a rule of their own; a node retries passes by those of decide."""
    rule = re.compile(r"\bdecide\([^;]*JobState::(?:Blocked|Skipped)|\.obstacle\(|\btakes_list_of\(|\b(should_retry|retry_delay|next_try_in_words)\(")
    on_node = {"engine/supervisor/ending.cpp", "engine/batch/pass.cpp"}
    carries_out = "engine/run/record.cpp"
    for file in sorted((ROOT / "engine").rglob("*.cpp")):
        path = file.relative_to(ROOT).as_posix()
        if path.startswith(("engine/decide/", "engine/plan/", "engine/model/")) or path == carries_out:
            continue
        for found in rule.finditer(file.read_text()):
            if not (found[1] and path in on_node):
                yield f"{path} decides by itself: {found[0].splitlines()[0]}; engine/decide is the place for it"


def main():
    table = allowed()
    wrong = [f"{file} names what runtime/cooperation and lone_worker alone are to see" for file in seen_by_all_ranks()]
    wrong += decided_elsewhere()
    if len(table) < 10:
        sys.exit("docs/contributor/reference.md: the table of folders was not found")
    for folder, others in includes().items():
        own = covered(folder, table)
        print(f"{folder:20} -> {' '.join(sorted(set(others) - {folder}))}")
        for other, file in others.items():
            if own is None or covered(other, table[own]) is None:
                wrong.append(f"{file} includes {other}, which docs/contributor/reference.md does not allow to {folder}")
    for line in wrong:
        print("error:", line)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
