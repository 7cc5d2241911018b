"""The static site of docs/: MkDocs' strict mode finds nothing wrong, and no page fetches anything from a network."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MKDOCS = pathlib.Path(os.environ["DLFLOW_BIN"]).parent / "mkdocs/bin/mkdocs"
sys.path.insert(0, str(ROOT / "tests/support"))
from cases import main  # noqa: E402


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not MKDOCS.exists():
            raise unittest.SkipTest("needs mkdocs-material from PyPI: ./dev docs")
        cls.folder = tempfile.TemporaryDirectory(prefix="dlflow-site.")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.site = pathlib.Path(cls.folder.name)
        cls.built = subprocess.run([MKDOCS, "build", "--strict", "--config-file", ROOT / "site/mkdocs.yml",
                                    "--site-dir", cls.site], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, timeout=300)

    def pages(self):
        return {page: page.read_text() for page in self.site.rglob("*.html")}

    def test_strict_mode_finds_nothing_wrong(self):
        self.assertEqual(self.built.returncode, 0, self.built.stdout)
        self.assertIn(self.site / "user/failure.html", self.pages())

    def test_no_page_fetches_anything(self):
        for page, text in self.pages().items():
            self.assertEqual([], re.findall(r'\bsrc="https?:[^"]*"|<link[^>]* href="https?:[^"]*"', text), page)

    def test_links_to_sources_lead_to_copies(self):
        page = self.pages()[self.site / "contributor/reading.html"]
        copies = re.findall(r'href="(\.\./source/[^"#]+)"', page)
        self.assertGreater(len(copies), 20)
        for copy in copies:
            self.assertTrue((self.site / "contributor" / copy).exists(), copy)

    def test_tables_and_lists_are_no_plain_text(self):
        for page, text in self.pages().items():
            plain = re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
            self.assertIsNone(re.search(r"\|---\||^<p>[-*] ", plain, re.MULTILINE), page)


if __name__ == "__main__":
    main()
