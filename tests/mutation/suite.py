"""The tests of a build that can kill mutants: cases of unit tests, and cases of end-to-end tests on this machine."""

import json
import os
import pathlib
import re
import subprocess

KINDS = {"unit", "e2e", "container"}
LEFT_OUT = {"slurm", "gpu", "perf", "oracle", "fuzz", "runtime"}  # need more than a sandbox, or minutes
FEW_SCHEDULES = {"DLFLOW_SIMULATION_SEEDS": "1:200"}  # of 10,000, which take minutes

# Names of the cases in a file of Python's unittest.
LIST_CASES = """
import pathlib, sys, unittest
path = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(path.parent))
def names(suite):
    for each in suite:
        yield from names(each) if isinstance(each, unittest.TestSuite) else [each.id().split(".", 1)[1]]
print("\\n".join(names(unittest.defaultTestLoader.loadTestsFromName(path.stem))))
"""


def find(build, mark):
    """Tests that may reach a mutant: of programs, only those that contain `mark`. Without dlflow, no end-to-end tests."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    tests, marked = [], {}
    for each in json.loads(listed.stdout)["tests"]:
        properties = {item["name"]: item["value"] for item in each["properties"]}
        labels = {word for label in properties.get("LABELS", []) for word in label.split("+")}
        if "command" not in each or not labels & KINDS or labels & LEFT_OUT:
            continue
        if "unit" not in labels and not (build / "bin/dlflow").exists():
            continue
        if any(item.startswith("ONEDNN_MAX_CPU_ISA=") for item in properties.get("ENVIRONMENT", [])):
            continue  # the same cases once more
        program = each["command"][0]
        if program not in marked:
            marked[program] = "python" in program or mark in pathlib.Path(program).read_bytes()
        if marked[program]:
            tests += _cases(_test(each, properties, "unit" not in labels))
    return tests


def _test(listed, properties, e2e):
    return {"name": listed["name"], "command": listed["command"], "e2e": e2e,
            "folder": properties.get("WORKING_DIRECTORY", "/"),
            "environment": FEW_SCHEDULES | dict(item.split("=", 1) for item in properties.get("ENVIRONMENT", [])),
            "skipped_status": int(properties.get("SKIP_RETURN_CODE", -1)),
            "skipped_text": "|".join(properties.get("SKIP_REGULAR_EXPRESSION", []))}


def _cases(test):
    """A file of end-to-end tests takes long: its cases are tests of their own."""
    if not test["e2e"]:
        return [test]
    python, _, *script = test["command"]
    listed = subprocess.run([python, "-B", "-c", LIST_CASES, *script], capture_output=True, text=True,
                            env={**os.environ, **test["environment"]}, check=True)
    return [{**test, "name": f"{test['name']} {case}", "command": test["command"] + [case]} for case in listed.stdout.split()]


def version(test, build):
    """Changes when the test may do something else."""
    files = [pathlib.Path(word) for word in test["command"] if word.startswith("/")]
    if test["command"][0].endswith("python3"):
        files += [build / "bin/dlflow", *files[-1].parent.glob("*.py")]
    stats = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file()]
    return repr(sorted(stats))


def passed(test, status, output):
    """None: it was skipped."""
    if status == test["skipped_status"]:
        return None
    if test["skipped_text"] and re.search(test["skipped_text"].encode(), output):
        return None
    return status == 0
