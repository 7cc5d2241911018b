"""The workflows and forms of .github and CITATION.cff are valid, call only ./dev, and contain only the address in ADDRESS."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKER = pathlib.Path(os.environ["DLFLOW_BIN"]).parent / "tests/checkers/bin/check-jsonschema"
sys.path.insert(0, str(ROOT / "tests/support"))
from cases import main  # noqa: E402

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
CITATION = ROOT / "CITATION.cff"


def read(file):
    return yaml.safe_load(file.read_text())


class Forms(unittest.TestCase):
    def check(self, schema, *files):
        """The checker's exit status and its complaints; its schemas are part of it."""
        if not CHECKER.exists():
            self.skipTest("needs check-jsonschema from PyPI in build/tests/checkers")
        done = subprocess.run([CHECKER, "--builtin-schema", f"vendor.{schema}", *files], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        return done.returncode, done.stdout

    def test_workflows_and_forms_are_valid(self):
        for schema, files in (("github-workflows", WORKFLOWS), ("github-issue-forms", FORMS), ("citation-file-format", [CITATION])):
            self.assertTrue(files, schema)
            self.assertEqual(self.check(schema, *files), (0, "ok -- validation done\n"))

    def test_the_checker_finds_mistakes(self):
        for schema, file, right, wrong in (("github-workflows", WORKFLOWS[0], "runs-on:", "run-on:"),
                                           ("github-issue-forms", FORMS[0], "type: textarea", "type: textaera"),
                                           ("citation-file-format", CITATION, "title:", "titel:")):
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as broken:
                broken.write(file.read_text().replace(right, wrong))
                broken.flush()
                self.assertEqual(self.check(schema, broken.name)[0], 1, schema)

    def test_workflows_run_only_dev(self):
        runs = {}
        for file in WORKFLOWS:
            steps = [step for job in read(file)["jobs"].values() for step in job["steps"]]
            runs[file.stem] = [step["run"] for step in steps if "run" in step]
            for step in steps:
                self.assertRegex(step.get("uses", "actions/checkout@v4"), r"^actions/(checkout|upload-artifact)@v\d+$", file)
            self.assertIn("Not yet run there", file.read_text())
        self.assertEqual(runs, {"test": ["./dev test"], "release": ["./dev test", "./dev package"]})

    def test_each_system_that_install_md_names_as_tested_is_tested(self):
        rows = re.findall(r"^\| Debian \d+ \((\w+)\) \|.*\| `\./dev test`", (ROOT / "docs/operator/install.md").read_text(), re.M)
        job = read(ROOT / ".github/workflows/test.yml")["jobs"]["test"]
        self.assertEqual(job["strategy"]["matrix"], {"debian": rows})
        self.assertEqual(job["container"]["image"], "buildpack-deps:${{ matrix.debian }}-scm")
        self.assertIn(re.search(r"buildpack-deps:(\w+)-scm", (ROOT / ".github/workflows/release.yml").read_text())[1], rows)

    def test_the_citation_has_the_version_of_the_project(self):
        version = re.search(r"project\(dlflow VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(read(CITATION)["version"], version)

    def test_the_projects_address_is_only_in_its_file(self):
        address = read(ROOT / "ADDRESS")
        self.assertEqual(address.keys(), {"repository", "contact"})
        self.assertEqual(read(CITATION).get("repository-code"), address["repository"])
        pages = [*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.*"), *(ROOT / "site").rglob("*.*"), *(ROOT / "cmake").glob("*")]
        self.assertGreater(len(pages), 15)
        for page in pages:
            if page.suffix in (".md", ".yml", ".cmake"):
                self.assertNotRegex(page.read_text(), r"\b(maintainers|security|conduct|authors)@\w|//git(hub|lab)\.", page)


if __name__ == "__main__":
    main()
