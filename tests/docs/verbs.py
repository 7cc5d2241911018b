"""Prints docs/user/verbs.md, the help of every verb and program: `python3 tests/docs/verbs.py build/bin >docs/user/verbs.md`."""

import pathlib
import re
import subprocess
import sys

BIN = pathlib.Path(sys.argv[1])
HEAD = """# All verbs

The help of each verb, as `dlflow help VERB` prints it. `man dlflow-VERB` has the same.
"""


def section(level, words):
    """The help of the program or verb `words`, below a heading; that of its verbs follows."""
    told = subprocess.run([BIN / words[0], *words[1:], "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    print(f"{level} {' '.join(words)}\n```text\n{told.rstrip()}\n```\n")
    if len(words) > 1:
        for verb in re.findall(r"^  ([a-z-]+) ", told.partition("\nVerbs:\n")[2].partition("\n\n")[0], re.MULTILINE):
            section(level + "#", [*words, verb])
    return told


print(HEAD)
for group, verbs in re.findall(r"^([A-Z].*):\n((?:  .*\n)+)", section("##", ["dlflow"]), re.MULTILINE):
    if group not in ("Options", "Examples"):
        print(f"## {group}\n")
        for name in re.findall(r"^  ([a-z-]+) ", verbs, re.MULTILINE):
            section("###", ["dlflow", name])
print("## Programs of steps\n")
for program in ("dlflow-train", "dlflow-evaluate", "dlflow-predict"):
    section("###", [program])
