"""The static site of docs/: MkDocs' strict mode finds no mistake, no page fetches from a network, and a browser shows it correctly from
a disk, on wide and narrow screens, light and dark."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MKDOCS = pathlib.Path(os.environ["DLFLOW_BIN"]).parent / "mkdocs/bin/mkdocs"
sys.path.insert(0, str(ROOT / "tests/support"))
import browser  # noqa: E402
from cases import main  # noqa: E402

LUMINANCE = """(color) => { const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map(
  (c) => c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }"""


def build(root, site):
    return subprocess.run([MKDOCS, "build", "--strict", "--config-file", root / "site/mkdocs.yml", "--site-dir", site],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not MKDOCS.exists():
            raise unittest.SkipTest("needs mkdocs-material from PyPI: ./dev docs")
        cls.folder = tempfile.TemporaryDirectory(prefix="dlflow-site.")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.site = pathlib.Path(cls.folder.name)
        cls.built = build(ROOT, cls.site)

    def pages(self):
        return {page: page.read_text() for page in self.site.rglob("*.html")}

    def test_strict_mode_finds_no_mistake(self):
        self.assertEqual(self.built.returncode, 0, self.built.stdout)
        self.assertTrue((self.site / "user/failure.html").exists())

    def test_no_page_fetches_from_the_network(self):
        for page, text in self.pages().items():
            self.assertEqual([], re.findall(r'\bsrc="https?:[^"]*"|<link[^>]* href="https?:[^"]*"', text), page)

    def test_the_pages_of_the_repository_are_rendered_and_declare_their_charset(self):
        for name, heading in (("readme", "limits"), ("changelog", "090-not-published-yet"), ("contributing", "tests")):
            text = (self.site / f"{name}.html").read_text(encoding="utf-8")
            self.assertIn('<meta charset="utf-8">', text)
            self.assertIn(f'<h2 id="{heading}">', text)
            self.assertNotIn("mermaid", text)
        self.assertIn('href="readme.html"', (self.site / "index.html").read_text())
        # A plain server sends no charset: only HTML says its own.
        self.assertEqual([], list(self.site.rglob("*.txt")) + list(self.site.rglob("*.md")))

    def test_each_page_leads_to_the_next_but_the_last(self):
        pages = {page: text for page, text in self.pages().items() if "source" not in page.parts and page.name != "404.html"}
        self.assertGreater(len(pages), 40)
        ends = [page for page, text in pages.items() if ("md-footer__link--prev" in text) + ("md-footer__link--next" in text) < 2]
        self.assertEqual(len(ends), 2, ends)

    def page_of_a_copy(self, repository):
        """A page of the site of a copy whose ADDRESS has this repository."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("docs", "site"):
                shutil.copytree(ROOT / name, root / name)
            for page in ROOT.glob("*.md"):
                shutil.copy(page, root)
            (root / "ADDRESS").write_text(f"repository: {repository}\ncontact:\n")
            built = build(root, root / "built")
            self.assertEqual(built.returncode, 0, built.stdout)
            return (root / "built/user/failure.html").read_text()

    def test_no_page_has_an_address_until_the_project_has_one(self):
        self.assertNotRegex(self.page_of_a_copy(""), 'class="md-source"|rel="edit"')
        text = self.page_of_a_copy("https://example.org/group/dlflow")
        self.assertIn('<a href="https://example.org/group/dlflow"', text)
        self.assertIn('href="https://example.org/group/dlflow/edit/main/docs/user/failure.md"', text)

    def test_links_to_sources_lead_to_copies(self):
        page = self.pages()[self.site / "contributor/reading.html"]
        copies = re.findall(r'href="(\.\./source/[^"#]+)"', page)
        self.assertGreater(len(copies), 20)
        for copy in copies:
            self.assertTrue((self.site / "contributor" / copy).exists(), copy)

    def test_tables_and_lists_are_rendered(self):
        for page, text in self.pages().items():
            plain = re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
            self.assertIsNone(re.search(r"\|---\||^<p>[-*] ", plain, re.MULTILINE), page)
            self.assertNotRegex(text, r"<p><div|</pre></div>\n[A-Z]", page)  # text beside a block is a paragraph

    def opened(self, page, width=1280, dark=False):
        if not browser.find():
            self.skipTest("needs chromium")
        window = browser.Browser()
        self.addCleanup(window.close)
        window.resize(width, 900)
        window.media(dark=dark)
        window.open(self.site / page)
        return window

    def test_the_site_can_be_searched_from_a_disk(self):
        window = self.opened("user/python.html")
        window.click(".md-search__input")
        window.type("walltim")
        window.press("e")  # the theme searches when a key was pressed
        found = window.run("""new Promise((done) => { const look = () => { const links = document.querySelectorAll('.md-search-result__link');
          links.length ? done([...links].map((link) => link.href)) : setTimeout(look, 50); }; look(); })""")
        self.assertTrue(any("/user/failure.html" in link for link in found), found)
        self.assertFalse(any("/source/" in link for link in found), found)
        self.assertEqual(window.complaints, [])

    def test_copying_a_session_copies_only_its_commands(self):
        window = self.opened("index.html")
        copied = window.run("""[...document.querySelectorAll('pre > code')].map((code) => {
          code.setAttribute('data-md-copying', ''); const text = code.innerText; code.removeAttribute('data-md-copying'); return text.trimEnd(); })""")
        self.assertIn("dlflow run first.yaml\ndlflow run first.yaml", copied)
        window.open(self.site / "user/sharing.html")  # its blocks do not say that they are sessions
        self.assertGreater(window.run("document.querySelectorAll('.gp').length"), 2)

    def test_no_page_is_wider_than_a_narrow_screen(self):
        window = self.opened("index.html", width=400)
        for page in ("index", "readme", "user/failure", "user/format/steps", "user/format/train", "operator/security", "contributor/architecture", "contributor/features"):
            window.open(self.site / f"{page}.html")
            self.assertEqual(400, window.run("document.documentElement.scrollWidth"), page)
            wide = "[...document.querySelectorAll('.md-typeset__table')].filter((t) => t.getBoundingClientRect().right > 400).length"
            self.assertEqual(0, window.run(wide), page)
        window.open(self.site / "user/format/steps.html")
        self.assertEqual('"meaning"', window.run("getComputedStyle(document.querySelector('td:last-child'), '::before').content")[:8] + '"')

    def test_headings_can_be_read_on_light_and_dark_pages(self):
        for dark in (False, True):
            window = self.opened("user/failure.html", dark=dark)
            for heading in ("h1", "h2"):
                light, ground = window.run(f"""(() => {{ const luminance = {LUMINANCE}; const canvas = document.createElement('canvas').getContext('2d');
                  const drawn = (...colors) => {{ for (const c of colors) {{ canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }}
                    return luminance('' + canvas.getImageData(0, 0, 1, 1).data); }};
                  const ground = getComputedStyle(document.body).backgroundColor;
                  return [drawn(ground, getComputedStyle(document.querySelector('.md-typeset {heading}')).color), drawn(ground)]; }})()""")
                contrast = (max(light, ground) + 0.05) / (min(light, ground) + 0.05)
                self.assertEqual(ground < 0.1, dark)
                self.assertGreater(contrast, 7, f"{heading}, dark: {dark}")  # WCAG's AAA


if __name__ == "__main__":
    main()
