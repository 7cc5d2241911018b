"""What the tests on real batch systems share: where their cluster is, and waiting for it."""

import json
import os
import pathlib
import sys
import time

SKIPPED = 77


def root_of(system):
    """The folder of the clusters of `system`, as its site.py has made it; without one the program ends as skipped. Of several sites, that of
    $DLFLOW_SITE or the first."""
    file = pathlib.Path(os.environ["DLFLOW_BUILD"]) / "tests" / system / "site.json"
    found = json.loads(file.read_text()) if file.exists() else {"missing": f"no clusters: {file} does not exist"}
    if "missing" in found:
        print(f"skipped here: {found['missing']}")
        sys.exit(SKIPPED)
    return pathlib.Path(found.get("sites", {}).get(os.environ.get("DLFLOW_SITE"), found["root"]))


def wait_until(condition, timeout, what):
    """The first true value of `condition()`, asked ten times a second."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout} s still waiting for {what}")
        time.sleep(0.1)
    return value
