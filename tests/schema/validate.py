#!/usr/bin/env python3
"""Compares the JSON Schema of `dlflow schema` with workflows that are right and workflows that are not.

usage: validate.py DLFLOW GOOD_FOLDER BAD_FOLDER
"""
import json
import pathlib
import re
import subprocess
import sys

SKIPPED = 77

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing} (apt-get install python3-jsonschema python3-yaml)")
    sys.exit(SKIPPED)


class Yaml12Loader(yaml.SafeLoader):
    """YAML 1.2's core schema, as editors and dlflow read it: `on` is a word, 1e-3 a number."""


Yaml12Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("null", r"^(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^([-+]?[0-9]+)$", list("-+0123456789")),
    ("float", r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$", list("-+.0123456789")),
]:
    Yaml12Loader.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(pattern), first)


def mistakes(validator, file):
    """The schema's complaints about a file, one a line."""
    document = yaml.load(file.read_text(), Loader=Yaml12Loader)
    return [f"{file}: {'.'.join(map(str, e.absolute_path))}: {e.message}"
            for e in validator.iter_errors(document)]


def main():
    dlflow, good, bad = sys.argv[1:]
    schema = json.loads(subprocess.check_output([dlflow, "schema"]))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    good_files = sorted(pathlib.Path(good).glob("*.yaml"))
    bad_files = sorted(pathlib.Path(bad).glob("*.yaml"))
    failures = [line for file in good_files for line in mistakes(validator, file)]
    failures += [f"{file}: the schema finds nothing wrong" for file in bad_files
                 if not mistakes(validator, file)]
    if not good_files or not bad_files:
        failures.append(f"no files in {good} or {bad}")
    print("\n".join(failures) or f"{len(good_files)} valid and {len(bad_files)} invalid workflows")
    sys.exit(1 if failures else 0)


main()
