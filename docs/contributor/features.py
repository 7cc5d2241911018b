#!/usr/bin/env python3
"""Counts the lines of each feature and writes both numbers into its row of features.md; `--check` only prints the wrong rows.

features.txt lists the files of each feature. Every file of CODE and of tests/ belongs to one; the lines of SOURCES count.
"""

import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CODE = ["base", "engine", "python", "runtime", "steps"]
SOURCES = (".c", ".cpp", ".cu", ".cuh", ".h", ".js", ".py")
# A row has a name, two numbers, and a rest that ends with the decision.
ROW = re.compile(r"^\| ([^|]+) \| [\d,]* \| [\d,]* \|(.* (\w+)[^|]*\|)$", re.MULTILINE)


def listed():
    """The pairs (feature, pattern) of features.txt. A line without a name continues the feature above it."""
    feature, pairs = "", []
    for line in (HERE / "features.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, _, patterns = line.rpartition(" = ")
            feature = name or feature
            pairs += [(feature, pattern) for pattern in patterns.split()]
    return pairs


def owners(file, pairs):
    """The pairs that name the file, otherwise those of the deepest folder that contains it. A unit test belongs where its source does."""
    source = file.removeprefix("tests/unit/")
    around = [pair for pair in pairs if pair[1].endswith("/") and source.startswith(pair[1])]
    deepest = max((len(pattern) for _, pattern in around), default=0)
    return {pair for pair in pairs if fnmatch.fnmatch(source, pair[1])} or {pair for pair in around if len(pair[1]) == deepest}


def count():
    """Lines of code and of tests by feature, and the mistakes in features.txt."""
    pairs = listed()
    lines, wrong, unused = collections.defaultdict(lambda: [0, 0]), [], set(pairs)
    root = HERE.parents[1]
    for file in subprocess.check_output(["git", "ls-files", *CODE, "tests"], cwd=root, text=True).splitlines():
        found = owners(file, pairs)
        unused -= found
        features = sorted({feature for feature, _ in found})
        if len(features) != 1:
            wrong.append(f"{file} belongs to {' and '.join(features) or 'no feature'}")
        elif file.endswith(SOURCES):
            lines[features[0]][file.startswith("tests/")] += (root / file).read_bytes().count(b"\n")
    return lines, wrong + [f"{pattern} of '{feature}' is no file" for feature, pattern in sorted(unused)]


def main():
    lines, wrong = count()
    page = HERE / "features.md"
    old = page.read_text()
    decisions = {name: decision for name, _, decision in ROW.findall(old) if not name.startswith("sum: ")}
    wrong += [f"{name} is in one of {page.name} and features.txt alone" for name in sorted(lines.keys() ^ decisions.keys())]
    for name, decision in decisions.items():
        for total in (decision, "all"):
            lines[f"sum: {total}"] = [a + b for a, b in zip(lines[f"sum: {total}"], lines[name])]
    new = ROW.sub(lambda row: "| {} | {:,} | {:,} |{}".format(row[1], *lines[row[1]], row[2]), old)
    if "--check" not in sys.argv:
        page.write_text(new)
    elif new != old:
        wrong += [f"{page.name}: now {line}" for line in new.splitlines() if line not in old.splitlines()]
    print("\n".join(wrong) or "every file belongs to one feature")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
