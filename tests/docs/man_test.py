"""Man pages as the program writes them: one for each verb, with every option of its help, and valid roff."""

import re
import shutil
import subprocess
import sys

import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import support  # noqa: E402


class ManPages(support.Case):
    def setUp(self):
        super().setUp()
        self.dlflow("man-pages", "man")
        self.pages = {page.stem: page for page in (self.folder / "man").glob("*.1")}

    def help_of(self, page):
        return self.dlflow(*page.split("-")[1:], "--help")[0]

    def verbs_in(self, text):
        listed = text.partition("Subcommands:\n")[2].partition("\n\n")[0]
        return re.findall(r"^  ([a-z][a-z-]*) ", listed, re.MULTILINE)

    def test_every_verb_has_a_page(self):
        wanted, found = set(), ["dlflow"]
        while found:
            page = found.pop()
            wanted.add(page)
            found += [f"{page}-{verb}" for verb in self.verbs_in(self.help_of(page))]
        self.assertGreater(len(wanted), 20)
        self.assertEqual(wanted, set(self.pages))

    def test_a_page_has_every_option_of_the_help(self):
        for name, page in self.pages.items():
            text = page.read_text().replace("\\-", "-")
            for option in re.findall(r"--[a-z][a-z-]*", self.help_of(name).partition("Examples:")[0]):
                self.assertIn(option, text, name)
            for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"):
                self.assertIn(f"\n.SH {section}\n", text, name)

    def test_nothing_in_a_page_is_taken_for_a_request(self):
        known = (".TH ", ".SH ", ".TP", ".nf", ".fi")
        for name, page in self.pages.items():
            for line in page.read_text().splitlines():
                if line.startswith((".", "'")):
                    self.assertTrue(line.startswith(known), f"{name}: {line}")

    def test_mandoc_finds_no_error(self):
        if not shutil.which("mandoc"):
            self.skipTest("needs mandoc")
        linted = subprocess.run(["mandoc", "-T", "lint", "-W", "error", *self.pages.values()],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual((linted.returncode, linted.stdout), (0, ""))


if __name__ == "__main__":
    support.main()
