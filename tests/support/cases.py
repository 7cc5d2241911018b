"""Runs a file of Python tests: cases that this machine cannot run are skipped by name, which ctest and `./dev test` report."""

import sys
import unittest


def main():
    """Runs the program's cases. Exit status: 0, 1 if one failed, 77 if all were skipped."""
    program = unittest.main(module="__main__", argv=[sys.argv[0], "-v"] + sys.argv[1:], exit=False)
    result = program.result
    for case, reason in result.skipped:
        print(f"skipped case: {case}: {reason}", flush=True)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.skipped and len(result.skipped) >= result.testsRun else 0)
