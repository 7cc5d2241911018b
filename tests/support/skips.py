"""usage: skips.py LOG: names each skipped case, with its reason, from the log of ctest.

Reasons in allowed_skips.txt are missing processors, devices or kernel features of a machine. Ends with 1 if there are others and $CI is
true: there each promise must be tested.
"""

import os
import pathlib
import re
import sys

ALLOWED = pathlib.Path(__file__).resolve().parents[1] / "allowed_skips.txt"


def allowed(text):
    """The expressions of a list, one per line."""
    return [re.compile(line) for line in text.splitlines() if line and not line.startswith("#")]


def skips(log):
    """(test, case and reason), without duplicates."""
    test, found = "", {}
    for line in log.splitlines():
        if begin := re.match(r"\d+/\d+ Test: (.*)", line):
            test = begin[1]
        elif skipped := re.match(r"skipped (?:case|here): (.*)", line):
            found[test, skipped[1]] = None
    return list(found)


def main(log):
    expressions, others = allowed(ALLOWED.read_text()), 0
    for test, text in skips(pathlib.Path(log).read_text(errors="replace")):
        is_allowed = any(expression.search(text) for expression in expressions)
        others += not is_allowed
        print(f"{'skipped case' if is_allowed else 'not tested'}: {test}: {text}")
    if others:
        print(f"not tested: {others} in all, for reasons that are not in tests/{ALLOWED.name}; install what they lack")
    return 1 if others and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
