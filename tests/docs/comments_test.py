"""Comments are plain English: a type's comment names the type, and almost no comment begins with a word that opens riddles."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from cases import main  # noqa: E402

TYPE = re.compile(r"\s*(struct|class|enum|using|namespace)\b")
RIDDLE = re.compile(r"\s*/// (What|Whatever|Who|Whoever|Of|On|Over|Before|After|As)\b")
BLOCK = re.compile(r"(.*?)//[/!]?<? ?(.*)")
OPENING = re.compile(r"(What|Whatever|Who|Whoever|Whose|Of|By(?! default)|Nobody|Nothing|Else)\b")


def openings(text):
    """First lines of comment blocks; a comment after code is a block of its own."""
    found, is_inside = [], False
    for line in text.splitlines():
        comment = BLOCK.match(line)
        has_code = comment and comment[1].strip()
        if comment and comment[1].count('"') % 2 == 0 and (has_code or not is_inside):
            found.append(comment[2])
        is_inside = comment and not has_code
    return found


def riddles(text):
    """The lines where the comment of a type, or of a whole header, begins with one of these words."""
    found, first = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*///(?!<)", line):
            first = first or (number, line)
            continue
        if first and TYPE.match(line) and RIDDLE.match(first[1]):
            found.append(first[0])
        if not line.lstrip().startswith("template"):
            first = None
    return found


class Comments(unittest.TestCase):
    def test_riddles_are_found(self):
        self.assertEqual(riddles("/// What computes.\n/// More.\nenum class Device { Cpu };\n"), [1])
        self.assertEqual(riddles("/// Over all samples.\nstruct Evaluation {\n"), [1])
        self.assertEqual(riddles("/// The device.\nenum class Device { Cpu };\n/// What it says.\nint says();\n"), [])

    def test_no_comment_above_a_type_is_a_riddle(self):
        headers = [header for folder in ("base", "engine", "runtime", "steps") for header in (ROOT / folder).rglob("*.h")]
        found = [f"{header.relative_to(ROOT)}:{line}" for header in headers for line in riddles(header.read_text())]
        self.assertGreater(len(headers), 100)
        self.assertEqual([], found, "\n" + "\n".join(found))

    def test_openings_are_found(self):
        text = '/// A bucket.\n/// Of gradients.\nint a;  ///< Of steps.\nauto url = "http://host";\n// By default, on.\n'
        self.assertEqual(openings(text), ["A bucket.", "Of steps.", "By default, on."])
        self.assertEqual([bool(OPENING.match(text)) for text in openings(text)], [False, True, False])

    def test_fewer_than_one_comment_in_two_hundred_begins_like_a_riddle(self):
        folders = ("base", "bench", "engine", "runtime", "steps", "tests")
        sources = [source for folder in folders for source in (ROOT / folder).rglob("*.*") if source.suffix in (".cpp", ".cu", ".h")]
        comments = [(source, comment) for source in sources for comment in openings(source.read_text())]
        found = [f"{source.relative_to(ROOT)}: {comment}" for source, comment in comments if OPENING.match(comment)]
        self.assertGreater(len(comments), 10_000)
        self.assertLess(len(found) / len(comments), 0.005, "\n" + "\n".join(found))

    def test_the_report_counts_parameters_and_shared_lines(self):
        sys.path.insert(0, str(ROOT / "docs/contributor"))
        import report
        text = "int sum(int a, std::map<int, int> b, int c, int d,\n  int e, int f = 1);\nreturn call(a, b, c, d, e, f);\n// int g(int a, int b);\n"
        self.assertEqual(report.long_parameter_lists(pathlib.Path("base/sum.h"), text), {("base", "sum", 6)})
        lines = [f"int line_{number} = 0;\n" for number in range(9)]
        self.assertEqual(report.shared_runs(["".join(lines), "int x = 1;\n" + "".join(lines[1:8])]), 1)
        self.assertEqual(report.shared_runs(["".join(lines), "".join(lines[:5]) + "int x = 1;\n" + "".join(lines[5:])]), 0)


if __name__ == "__main__":
    main()
