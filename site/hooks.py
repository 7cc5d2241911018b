"""Converts Markdown that GitHub supports and MkDocs does not: links to files outside of docs/, lists and tables without a blank line before them."""

import os
import pathlib
import re

import yaml
from mkdocs.structure.files import File, InclusionLevel
from pygments.lexers import find_lexer_class_for_filename

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
ITEM = re.compile(r" *([-*]|\d+\.) ")
SESSION = re.compile(r"^```\n(?=\$ )", re.MULTILINE)
DIAGRAM = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)  # GitHub draws it; here it would need a script from a network


def place_of(file):
    """The page of the site for a file of the repository; each source file has its own page."""
    if file.is_relative_to(DOCS) and file.suffix != ".txt":
        return file.relative_to(DOCS).as_posix()
    if file.parent == ROOT and file.suffix == ".md":
        return file.name.lower()
    return f"source/{file.relative_to(ROOT).as_posix()}.md"


def file_of(page):
    """The file that a page of the site shows."""
    at_root = {place_of(file): file for file in ROOT.glob("*.md")}
    return at_root.get(page.file.src_uri, DOCS / page.file.src_uri)


def targets(file):
    """The files of the repository that a page links to."""
    paths = {path for _, path, _ in LINK.findall(file.read_text()) if path and not re.match(r"[a-z]+:", path)}
    return {(file.parent / path).resolve() for path in paths}


def source_page(file):
    lexer = find_lexer_class_for_filename(file.name)
    language = lexer.aliases[0] if lexer else "text"
    return f"---\nsearch: {{exclude: true}}\n---\n# {file.relative_to(ROOT)}\n\n~~~~~~{language}\n{file.read_text()}\n~~~~~~\n"


def on_config(config):
    address = yaml.safe_load((ROOT / "ADDRESS").read_text())["repository"]
    if address:
        config.repo_url, config.repo_name, config.edit_uri = address, "Repository", "edit/main/docs/"
        config.theme["features"].append("content.action.edit")
    return config


def on_files(files, config):
    pages = sorted(ROOT.glob("*.md"))
    for page in pages:
        files.append(File.generated(config, place_of(page), abs_src_path=str(page)))
    for file in set().union(*(targets(page) for page in [*DOCS.rglob("*.md"), *pages])):
        if file.is_file() and files.get_file_from_path(place_of(file)) is None:
            files.append(File.generated(config, place_of(file), content=source_page(file), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown, page, **_):
    if page.file.src_uri.startswith("source/"):
        return markdown
    here = file_of(page)

    def link(match):
        text, path, anchor = match.groups(default="")
        file = (here.parent / path).resolve()
        if not path or re.match(r"[a-z]+:", path):
            return match.group()
        if not file.is_file():
            return f"`{text}`"  # a folder
        return f"[{text}]({os.path.relpath(place_of(file), pathlib.PurePath(page.file.src_uri).parent)}{anchor})"
    return spaced(LINK.sub(link, SESSION.sub("```console\n", DIAGRAM.sub("", markdown))))


def on_page_content(html, **_):
    """Gives each cell of a table with three columns or more the heading of its column, which a narrow screen shows in front of it."""
    def labelled(table):
        heads = [re.sub(r"<.*?>", "", head) for head in re.findall(r"<th\b.*?>(.*?)</th>", table.group())]
        rows = re.compile(r"<tr>.*?</tr>", re.DOTALL)
        return rows.sub(lambda row: row_with(heads, row.group()), table.group()) if len(heads) > 2 else table.group()

    def row_with(heads, row):
        labels = iter(heads)
        return re.sub(r"<td\b", lambda _: f'<td data-label="{next(labels)}"', row)
    return re.sub(r"<table>.*?</table>", labelled, html, flags=re.DOTALL)


def spaced(markdown):
    lines, fenced, before = [], False, ""
    for line in markdown.splitlines():
        fence = line.lstrip().startswith("```")
        if not fenced:
            starts = (ITEM.match(line) and not ITEM.match(before) and not before.startswith(" ")) or \
                     (line.startswith("|") and not before.startswith("|")) or fence or before.lstrip().startswith("```")
            if starts and before.strip():
                lines.append("")
        if not fenced and not fence:
            indent = len(line) - len(line.lstrip())
            line = " " * {2: 4, 3: 4}.get(indent, indent) + line.lstrip()
        fenced ^= fence
        before = line
        lines.append(line)
    return "\n".join(lines)
