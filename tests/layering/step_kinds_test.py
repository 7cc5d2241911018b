"""Fails if the engine compares the name of a step kind: differences between kinds belong in the table, engine/model/step_kinds.cpp."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "engine/model/step_kinds.cpp"
PROGRAMS = ROOT / "engine/cli/main.cpp"  # the other table: the kinds that dlflow runs itself

# Words that are names of other things, too: a key, a split of the data, a folder, a verb.
AMBIGUOUS = {"train", "checkpoint", "predict"}


def kinds():
    return re.findall(r'^      \.name = "([\w-]+)"', TABLE.read_text(), re.MULTILINE)


def comparison(names):
    """A pattern for code that compares or looks up one of the names."""
    word = '"(?:%s)"' % "|".join(names)
    return re.compile(rf'[=!]= *{word}|{word} *[=!]=|find_step_kind\({word}|(?:cmp|is)\([^)]*{word}')


def mention(names):
    """A pattern for a name that is always that of a kind."""
    return re.compile('"(?:%s)"' % "|".join(name for name in names if name not in AMBIGUOUS))


def main():
    names = kinds()
    if len(names) < 5:
        sys.exit(f"{TABLE}: the names of the step kinds were not found")
    compared, mentioned, wrong = comparison(names), mention(names), []
    for file in sorted((ROOT / "engine").rglob("*")):
        if file.suffix not in (".h", ".cpp") or file == TABLE:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            code = line.split("//")[0]
            if compared.search(code) or (file != PROGRAMS and mentioned.search(code)):
                wrong.append(f"{file.relative_to(ROOT)}:{number}: {code.strip()}")
    for place in wrong:
        print("error:", place)
    if wrong:
        print("error: ask the table for what differs between step kinds (engine/model/step_kinds.h), not for a name")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
