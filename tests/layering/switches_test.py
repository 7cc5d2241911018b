"""Fails if `default:` in a switch over an enum of dlflow hides a forgotten enumerator from the compiler (-Wswitch)."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOREIGN = ("Json::", "dnnl::", "YAML::")  # enums of libraries, which may grow without us
SWITCH = re.compile(r"\bswitch \(")
OURS = re.compile(r"\bcase ((?:\w+::)+k?\w+|DLFLOW_\w+):")


def body(text, start):
    """The text inside the braces after `start`, without the bodies of inner switches."""
    depth, begin = 0, text.index("{", start)
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin + 1:at]
    sys.exit("a switch without its end")


def without_inner(code):
    while match := SWITCH.search(code):
        inner = body(code, match.start())
        code = code[:match.start()] + code[code.index(inner, match.start()) + len(inner) + 1:]
    return code


def main():
    wrong, switches = [], 0
    for top in ("base", "engine", "runtime", "steps"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".cu"):
                continue
            text = file.read_text()
            for match in SWITCH.finditer(text):
                code = without_inner(body(text, match.start()))
                ours = [label for label in OURS.findall(code) if not label.startswith(FOREIGN)]
                switches += bool(ours)
                if ours and re.search(r"\bdefault:", code):
                    line = text.count("\n", 0, match.start()) + 1
                    wrong.append(f"{file.relative_to(ROOT)}:{line}: has cases of {ours[0]} and a default")
    print(f"{switches} switches over our enums")
    for place in wrong:
        print("error:", place)
    sys.exit(bool(wrong) or switches < 20)


if __name__ == "__main__":
    main()
