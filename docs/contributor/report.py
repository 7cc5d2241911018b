#!/usr/bin/env python3
"""Prints measures of how easy the source is to maintain, and how each one changed since another commit.

  report.py [COMMIT]    COMMIT: by default the commit before; without one (a shallow clone) only today's numbers
"""

import collections
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/docs"))
from comments_test import OPENING, openings  # noqa: E402

FOLDERS = ("base", "engine", "runtime", "steps", "python", "tests", "bench")
CPP = (".cpp", ".cu", ".h")
LITERAL_OR_COMMENT = re.compile(r'R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
PARAMETER_LIST = re.compile(r"\b([a-z]\w*)\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(?:const|noexcept|override|\s)*[;{]")
PARAMETER = re.compile(r"[\w:<>,&*\s\[\]()]+[&*>\s]\w+(\s*=.*)?$", re.DOTALL)
LONG_FILE, MOST_PARAMETERS, SHARED_LINES = 400, 5, 6


def parameters_of(text):
    """Splits a list of parameters; empty for the arguments of a call."""
    nested = 0
    parts = [""]
    for character in text:
        nested += (character in "<({[") - (character in ">)}]")
        if character == "," and nested == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts if all(PARAMETER.match(part.strip()) for part in parts) else []


def long_parameter_lists(file, text):
    """The C++ functions with too many parameters; a declaration and its definition are one. The C interface, a published ABI, is named dlflow_*."""
    code = LITERAL_OR_COMMENT.sub("", text)
    lists = ((name, len(parameters_of(parameters))) for name, parameters in PARAMETER_LIST.findall(code) if "," in parameters)
    return {(str(file.parent), name, count) for name, count in lists if count > MOST_PARAMETERS and not name.startswith("dlflow_")}


def shared_runs(sources):
    """The number of pairs of places with the same six lines or more; blank lines, braces, comments and includes do not count."""
    places = collections.defaultdict(list)
    for number, text in enumerate(sources):
        lines = [line.strip() for line in LITERAL_OR_COMMENT.sub(lambda found: "" if found[0].startswith("/") else found[0], text).splitlines()]
        lines = [line for line in lines if len(line) > 3 and not line.startswith(("#", "namespace", "}  //"))]
        for first in range(len(lines) - SHARED_LINES + 1):
            places[tuple(lines[first:first + SHARED_LINES])].append((number, first))
    pairs = {(one, other) for same in places.values() for at, one in enumerate(same) for other in same[at + 1:]}
    return sum(((a, i - 1), (b, j - 1)) not in pairs for (a, i), (b, j) in pairs)


def numbers(root):
    """The report's rows of the source in `root`, by name."""
    files = {folder: sorted(file for file in (root / folder).rglob("*.*") if file.suffix in (*CPP, ".py")) for folder in FOLDERS}
    rows = {f"lines of {folder}": sum(file.read_bytes().count(b"\n") for file in found) for folder, found in files.items()}
    texts = {file: file.read_text() for found in files.values() for file in found if file.suffix in CPP}
    own = {file: text for file, text in texts.items() if not file.is_relative_to(root / "tests")}
    rows[f"sources over {LONG_FILE} lines"] = sum(text.count("\n") > LONG_FILE for text in own.values())
    rows[f"C++ functions with over {MOST_PARAMETERS} parameters"] = len(set().union(*(long_parameter_lists(*item) for item in own.items())))
    rows[f"pairs of places that share {SHARED_LINES} lines"] = shared_runs(own.values())
    comments = [comment for text in texts.values() for comment in openings(text)]
    rows["comments"] = len(comments)
    rows["comments that begin like a riddle"] = sum(bool(OPENING.match(comment)) for comment in comments)
    rows["words of README.md"] = len((root / "README.md").read_text().split())
    rows["words of docs/"] = sum(len(page.read_text().split()) for page in (root / "docs").rglob("*.md"))
    return rows


def main():
    now, before, commit = numbers(ROOT), {}, sys.argv[1] if len(sys.argv) > 1 else "HEAD~1"
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if archive.returncode == 0:
        with tempfile.TemporaryDirectory() as folder:
            tarfile.open(fileobj=io.BytesIO(archive.stdout)).extractall(folder)
            before = numbers(pathlib.Path(folder))
    elif len(sys.argv) > 1:
        sys.exit(f"error: {archive.stderr.decode().strip()}")
    for name, number in now.items():
        change = f"{number - before[name]:+,}" if name in before and number != before[name] else ""
        print(f"{name:<42}{number:>10,}{change:>10}")


if __name__ == "__main__":
    main()
