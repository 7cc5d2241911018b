"""Comments of headers define their type: none begins with What, Whatever, Who, Whoever, Of or On."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from cases import main  # noqa: E402

TYPE = re.compile(r"\s*(struct|class|enum|using|namespace)\b")
RIDDLE = re.compile(r"\s*/// (What|Whatever|Who|Whoever|Of|On|Over|Before|After|As)\b")


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


if __name__ == "__main__":
    main()
