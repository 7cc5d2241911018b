"""Every Catch2 case must be a separate ctest test. CMake splits names at `;` and `[`: the rest would become a test whose filter matches
nothing, which Catch2 reports as a success."""

import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
CASE = re.compile(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)')


def names(source):
    return ["".join(re.findall(r'"([^"]*)"', found)) for found in CASE.findall(source)]


def main():
    sources = sorted(TESTS.rglob("*.cpp"))
    all_names = [(path, name) for path in sources for name in names(path.read_text())]
    bad = [f"{path.relative_to(TESTS)}: '{name}'" for path, name in all_names if set(name) & set(";[]")]
    print(f"{len(all_names)} names in {len(sources)} files")
    if not all_names or bad:
        sys.exit("a test's name must not have ; [ or ]:\n" + "\n".join(bad))


main()
