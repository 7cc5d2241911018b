"""The pages of docs/ and beside README.md, except the changelog, have short cells and paragraphs and valid links, and the index leads to
every page."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from cases import main  # noqa: E402

INDEX = ROOT / "docs/index.md"
PAGES = sorted((ROOT / "docs").rglob("*.md")) + sorted(set(ROOT.glob("*.md")) - {ROOT / "CHANGELOG.md"})
CELL_WORDS = 25
PARAGRAPH_WORDS = 90
LINK = re.compile(r"\]\(([^)\s]+)\)")


def lines_outside_fences(page):
    """(number, line) of each line outside fenced blocks."""
    fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip("> ").startswith("```"):
            fenced = not fenced
            yield number, ""
        elif not fenced:
            yield number, line


def is_row(line):
    return line.strip().startswith("|")


def cells(page):
    """(number, text) of each cell of a table."""
    for number, line in lines_outside_fences(page):
        if is_row(line):
            for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]:
                yield number, cell


def paragraphs(page):
    """(number of its first line, text) of each paragraph; an item of a list is one."""
    first, words = 0, []
    for number, line in [*lines_outside_fences(page), (0, "")]:
        text = line.strip().lstrip("> ")
        ends = not text or text.startswith("#") or is_row(line)
        if (ends or re.match(r"([-*]|\d+\.) ", text)) and words:
            yield first, " ".join(words)
            words = []
        if not ends:
            first = first if words else number
            words.append(text)


def anchors(page):
    """GitHub's anchors of the headings of a page."""
    names = set()
    for _, line in lines_outside_fences(page):
        if line.startswith("#"):
            heading = re.sub(r"\]\([^)]*\)", "]", line.lstrip("#").strip().lower())
            name = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
            count = 0
            while (unique := f"{name}-{count}" if count else name) in names:
                count += 1
            names.add(unique)
    return names


def links(page):
    """(number, file, anchor) of each link to something in this repository."""
    for number, line in lines_outside_fences(page):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if not re.match(r"[a-z]+:", target):
                path, _, anchor = target.partition("#")
                yield number, (page.parent / path).resolve() if path else page, anchor


class Pages(unittest.TestCase):
    def complain(self, complaints):
        self.assertEqual([], complaints, "\n" + "\n".join(complaints))

    def where(self, page, number):
        return f"{page.relative_to(ROOT)}:{number}"

    def test_no_cell_of_a_table_is_long(self):
        folder = re.compile(r"\b(engine|runtime|steps)/\w+")  # of the table of includes
        self.complain([f"{self.where(page, number)}: {words} words in a cell, more than {CELL_WORDS}"
                       for page in PAGES for number, text in cells(page) if (words := len(folder.sub("", text).split())) > CELL_WORDS])

    def test_no_paragraph_is_long(self):
        self.complain([f"{self.where(page, number)}: {len(text.split())} words in a paragraph, more than {PARAGRAPH_WORDS}"
                       for page in PAGES for number, text in paragraphs(page) if len(text.split()) > PARAGRAPH_WORDS])

    def test_every_link_leads_somewhere(self):
        self.complain([f"{self.where(page, number)}: {file}{'#' if anchor else ''}{anchor} is not there"
                       for page in PAGES for number, file, anchor in links(page)
                       if not file.exists() or (anchor and anchor not in anchors(file))])

    def test_the_index_leads_to_every_page(self):
        reached, found = {INDEX}, [INDEX]
        while found:
            for _, file, _ in links(found.pop()):
                if file in PAGES and file not in reached:
                    reached.add(file)
                    found.append(file)
        self.complain([f"{page.relative_to(ROOT)}: no link leads here from docs/index.md"
                       for page in PAGES if page not in reached and page.parent != ROOT])

    def test_only_pages_for_contributors_have_names_of_tests_and_numbers_of_promises(self):
        name = re.compile(r"\b(tests/[a-z]\S*|[a-z]\w*_test)\b|\(P\d+\)")
        theirs = re.compile(r"`distributed_test`")  # PyTorch's
        self.complain([f"{self.where(page, number)}: {found.group()} belongs on a page of docs/contributor"
                       for page in PAGES if page.name != "CONTRIBUTING.md" and page.parent.name != "contributor"
                       for number, line in enumerate(page.read_text().splitlines(), 1)
                       for found in name.finditer(theirs.sub("", line))])

    def test_every_failure_has_an_answer_and_a_test(self):
        pages = [ROOT / "docs" / page for page in ("user/failure.md", "contributor/failures.md")]
        self.assertEqual(*([line for _, line in lines_outside_fences(page) if line.startswith("## ")] for page in pages))
        texts = [text.strip() for _, text in cells(pages[1])]
        self.assertGreater(len(texts), 300)
        self.complain([f"an empty cell in the row of {texts[place - place % 3]}" for place, text in enumerate(texts) if not text])

    def test_every_test_that_a_page_names_exists(self):
        page = ROOT / "docs/contributor/failures.md"
        files = [file for pattern in ("*.py", "*.cpp", "CMakeLists.txt") for file in (ROOT / "tests").rglob(pattern)]
        known = {file.stem for file in files} | {name for file in files for name in re.findall(r"dlflow_test\((\w+)", file.read_text())}
        self.complain([f"{self.where(page, number)}: {name} is not there" for number, cell in cells(page)
                       for name in re.findall(r"\btests/[\w/]+\.py\b|(?<![\w/])\w+_(?:test|fuzz)\b", cell)
                       if name not in known and not (ROOT / name).exists()])

    def test_every_case_that_the_facts_about_slurm_name_exists(self):
        page = ROOT / "docs/contributor/slurm-facts.md"
        cases = "|".join(found[1] or found[2] for pattern in ("*.py", "*.cpp") for file in (ROOT / "tests").rglob(pattern)
                         for found in re.finditer(r'def test_(\w+)|TEST_CASE\(\s*"([^"]*)"', file.read_text()))
        rows = page.read_text().partition("| sharp edge |")[2].splitlines()
        names = [name for row in rows if is_row(row) for name in re.findall(r"`([^`]*)`", row.split("|")[3])]
        self.assertGreater(len(names), 20)
        self.complain([f"{page.name}: {name} is not there" for name in names
                       if not re.search("[^|]*".join(map(re.escape, name.split("…"))), cases)])

    def test_every_page_that_a_source_names_exists(self):
        named = re.compile(r"\bdocs/[\w/-]+\.md\b")
        files = [file for folder in ("base", "engine", "runtime", "steps", "workflows", "cluster-profiles", "tests", "bench")
                 for file in (ROOT / folder).rglob("*") if file.suffix in (".h", ".cpp", ".cu", ".py", ".yaml", ".sh")]
        self.complain([f"{file.relative_to(ROOT)} names {page}, which is not there" for file in files
                       for page in named.findall(file.read_text(errors="replace")) if not (ROOT / page).exists()])


if __name__ == "__main__":
    main()
