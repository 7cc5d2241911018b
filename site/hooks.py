"""What GitHub reads and MkDocs does not: links to files outside of docs/, lists and tables without a blank line before."""

import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
ITEM = re.compile(r" *([-*]|\d+\.) ")


def outside(page, target):
    """The file of the repository that a link of `page` leads to, if it is not in docs/."""
    if re.match(r"[a-z]+:", target):
        return None
    file = (page.parent / target).resolve()
    return None if file.is_relative_to(DOCS) else file


def copy_of(file):
    """Where the site has a copy: as text, so that a browser shows it."""
    return f"source/{file.relative_to(ROOT).as_posix()}.txt"


def on_files(files, config):
    for page in DOCS.rglob("*.md"):
        for _, target, _ in LINK.findall(page.read_text()):
            file = outside(page, target)
            if file and file.is_file() and not files.get_file_from_path(copy_of(file)):
                files.append(File.generated(config, copy_of(file), abs_src_path=str(file)))
    return files


def on_page_markdown(markdown, page, **_):
    here = DOCS / page.file.src_uri

    def link(match):
        file = outside(here, match.group(2))
        if file is None:
            return match.group()
        if not file.is_file():
            return f"`{match.group(1)}`"  # a folder
        return f"[{match.group(1)}]({os.path.relpath(DOCS / copy_of(file), here.parent)})"
    return spaced(LINK.sub(link, markdown))


def spaced(markdown):
    lines, fenced, before = [], False, ""
    for line in markdown.splitlines():
        fence = line.lstrip().startswith("```")
        if not fenced and not fence:
            starts = (ITEM.match(line) and not ITEM.match(before) and not before.startswith(" ")) or \
                     (line.startswith("|") and not before.startswith("|"))
            if starts and before.strip():
                lines.append("")
            indent = len(line) - len(line.lstrip())
            line = " " * {2: 4, 3: 4}.get(indent, indent) + line.lstrip()
        fenced ^= fence
        before = line
        lines.append(line)
    return "\n".join(lines)
