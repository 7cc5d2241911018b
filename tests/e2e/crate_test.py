"""Bundles against the profiles of RO-Crate, by the validator from PyPI, without a network."""

import json
import subprocess
import sys

import support

VENV = support.BIN.parent / "tests/rocrate"

# Puts the terms of RO-Crate 1.1 where the validator keeps what it once downloaded.
FILL_CACHE = """
import importlib.util, pathlib, sys
import requests, requests_cache
url = "https://w3id.org/ro/crate/1.1/context"
session = requests_cache.CachedSession(sys.argv[1], backend="sqlite", expire_after=-1)
terms = pathlib.Path(importlib.util.find_spec("rocrate").origin).parent / "data/ro-crate.jsonld"
response = requests_cache.CachedResponse(url=url, status_code=200, content=terms.read_bytes(),
                                         headers={"Content-Type": "application/ld+json"})
session.cache.save_response(response, session.cache.create_key(requests.Request("GET", url).prepare()))
"""


class Crate(support.Case):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "http"
        subprocess.run([VENV / "bin/python", "-c", FILL_CACHE, self.cache], check=True)
        self.write("w.yaml", """\
            name: crated
            params: {n: 1, label: a b, fast: true, "lr": 0.5}
            steps:
              a:
                matrix: {size: [1, 2]}
                run: 'echo {\\"loss\\":0.5} > $DLFLOW_SUMMARY; echo x > "$DLFLOW_OUTPUTS/an out=put.txt"'
              b: {run: ./b.sh, inputs: [b.sh], needs: [a]}
            """)
        self.write("b.sh", "#!/bin/sh\necho done\n").chmod(0o755)

    def validate(self, profile, top, *arguments):
        """What the validator has to say against the folder."""
        report = self.folder / "report.json"
        subprocess.run([VENV / "bin/rocrate-validator", "validate", "--offline", "--cache-path", self.cache, "--no-paging",
                        "--profile-identifier", profile, "--output-format", "json", "--output-file", report, *arguments, top],
                       env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = json.loads(report.read_text())
        return said["passed"], said["issues"]

    def unpacked(self):
        self.dlflow("unpack", "crated.dlflow")
        return self.folder / "crated"

    def test_a_packed_workflow_is_a_workflow_ro_crate(self):
        self.dlflow("pack", "w.yaml")
        self.assertEqual(self.validate("workflow-ro-crate-1.0", self.unpacked()), (True, []))

    def test_a_packed_run_is_a_workflow_run_crate(self):
        run = self.run_json("w.yaml")["run"]
        self.dlflow("pack", "--from-run", run)
        top = self.unpacked()
        for profile in ("workflow-run-crate-0.5", "process-run-crate-0.5", "workflow-ro-crate-1.0"):
            self.assertEqual(self.validate(profile, top), (True, []))
        metadata = json.loads((top / "ro-crate-metadata.json").read_text())
        entities = {entity["@id"]: entity for entity in metadata["@graph"]}
        results = {result["@id"] for result in entities["#run"]["result"]}
        self.assertIn("run/steps/a/size=1/outputs/an%20out=put.txt", results)
        self.assertEqual(entities["#value-label"]["value"], "a b")

    def test_the_validator_sees_what_is_wrong(self):
        self.dlflow("pack", "w.yaml")
        top = self.unpacked()
        (top / "workflow/b.sh").unlink()
        passed, issues = self.validate("workflow-ro-crate-1.0", top)
        self.assertFalse(passed)
        self.assertIn("b.sh", str(issues))


if __name__ == "__main__":
    if not (VENV / "bin/rocrate-validator").exists():
        print(f"skipped here: roc-validator is not in {VENV}; ./dev test puts it there from PyPI")
        sys.exit(77)
    support.main()
