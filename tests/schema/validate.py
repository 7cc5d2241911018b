#!/usr/bin/env python3
"""Compares the JSON Schemas of `dlflow schema KIND` with files that are right and files that are not.

usage: validate.py DLFLOW SOURCE_FOLDER
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
    print(f"skipped here: {missing} (apt-get install python3-jsonschema python3-yaml)")
    sys.exit(SKIPPED)


class Yaml12Loader(yaml.SafeLoader):
    """YAML 1.2's core schema with merge keys, as editors and dlflow read it: `on` is a word, 1e-3 a number."""


Yaml12Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("merge", r"^<<$", ["<"]),
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


# Where the files of each kind are that are right; those in bad/KIND are not.
GOOD = {"workflow": "workflows", "profile": "cluster-profiles", "model": "workflows/models"}


def failures_of(kind, dlflow, source):
    schema = json.loads(subprocess.check_output([dlflow, "schema", kind]))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    good = sorted((source / GOOD[kind]).glob("*.yaml"))
    bad = sorted((source / "tests/schema/bad" / kind).glob("*.yaml"))
    failures = [line for file in good for line in mistakes(validator, file)]
    failures += [f"{file}: the schema finds nothing wrong" for file in bad if not mistakes(validator, file)]
    if not good or not bad:
        failures.append(f"no files of kind {kind}")
    print(f"{kind}: {len(good)} valid and {len(bad)} invalid files")
    return failures


def main():
    dlflow, source = sys.argv[1:]
    failures = [line for kind in GOOD for line in failures_of(kind, dlflow, pathlib.Path(source))]
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


main()
