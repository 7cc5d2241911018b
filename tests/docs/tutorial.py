"""A tutorial as a list of actions: files to save, and commands with the output that the page shows."""

import dataclasses
import re


@dataclasses.dataclass
class File:
    name: str
    text: str


@dataclasses.dataclass
class Command:
    line: int  # of the page
    text: str
    shown: list  # lines of output; none: the page shows none
    status: int


SAVED = re.compile(r"`([\w.-]+)`:$")
STATUS = re.compile(r"<!-- exit status (\d+) -->")
RUN = re.compile(r"\b([a-z][a-z-]*)-[0-9a-f]{8}\b")
# What differs from run to run: spaces of a table, durations, and numbers with a point.
FLEXIBLE = [(r"(?:\\ )+", r" +"), (r"\d+:\d\d(?::\d\d)?", r"[\\d:]+"), (r"\d+\\\.\d+", r"-?[\\d.]+(?:e-\\d+)?"),
            (r"\b\d+ \+(ms|s)\b", r"\\d+ +\\w+"), (r"…", r".*")]


def parse(text):
    """Everything that the reader of the page does, in order."""
    steps, block, kind, saved, before, first, status = [], None, None, None, "", 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```") and block is None:
            block, kind, first, saved = [], line[3:].strip(), number + 1, SAVED.search(before)
        elif line == "```" and block is not None:
            if kind == "console":
                steps += commands(block, first, status)
                status = 0
            elif saved:
                steps.append(File(saved.group(1), "\n".join(block) + "\n"))
            else:
                raise ValueError(f"line {first}: a block that is neither saved as a file nor run")
            block = None
        elif block is not None:
            block.append(line)
        elif found := STATUS.match(line):
            status = int(found.group(1))
        if line.strip():
            before = line
    return steps


def commands(block, first, status):
    """`$ command` and the lines below it; the exit status is that of the last one."""
    found = []
    for number, line in enumerate(block, first):
        if line.startswith("$ "):
            found.append(Command(number, line[2:], [], 0))
        else:
            found[-1].shown.append(line)
    found[-1].status = status
    return found


class Names:
    """The names of runs on the page and of those made here: sweep-7f3a91c0 -> sweep-19b03d55."""

    def __init__(self):
        self.real = {}

    def translated(self, command):
        return RUN.sub(lambda name: self.real.get(name.group(), name.group()), command)

    def fits(self, shown, printed):
        """Whether `printed` is what the page shows; learns the names of runs from it."""
        pattern, new = "", []
        for line in shown:
            pattern += r"(?:.*\n)*?" if line.strip() == "…" else self.pattern(line, new) + r" *\n"
        match = re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in printed.splitlines()))
        if match:
            self.real.update(zip(new, match.groups()))
        return match is not None

    def pattern(self, line, new):
        pieces, end = "", 0
        for name in RUN.finditer(line):
            pieces += flexible(line[end:name.start()])
            known = self.real.get(name.group())
            if known is None and name.group() in new:
                pieces += rf"\{new.index(name.group()) + 1}"
            elif known is None:
                new.append(name.group())
                pieces += rf"({re.escape(name.group(1))}-[0-9a-f]{{8}})"
            else:
                pieces += re.escape(known)
            end = name.end()
        return pieces + flexible(line[end:])


def flexible(text):
    pattern = re.escape(text)
    for what, instead in FLEXIBLE:
        pattern = re.sub(what, instead, pattern)
    return pattern
