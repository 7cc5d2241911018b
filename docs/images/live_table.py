#!/usr/bin/env python3
"""The live table as a picture: runs a workflow on a terminal of its own and draws what `dlflow` has drawn there.

usage: docs/images/live_table.py [WORD-OF-THE-FRAME [ARGUMENT...]] > docs/images/live-table.svg

Two frames: the last that has the word (default: "epoch 2/3"), and the last of all. ARGUMENTs are those of `dlflow run`.
"""

import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
from html import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS, ROWS = 80, 24
COLUMN, LINE, MARGIN = 8.4, 18, 14  # pixels; COLUMN is what browsers make of a 14 px monospaced font
FILLS = {"31": "#f47067", "32": "#57ab5a", "33": "#c69026", "36": "#39c5cf"}
REDRAW = re.compile(r"\033\[\d+A\r\033\[J")
STYLE = re.compile(r"\033\[([\d;]*)m")


def watch(command):
    """All that `command` writes to a terminal."""
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    env.pop("NO_COLOR", None)
    process = subprocess.Popen(command, cwd=ROOT, stdin=side, stdout=side, stderr=side, env=env, start_new_session=True)
    os.close(side)
    written = b""
    try:
        while data := os.read(terminal, 65536):
            written += data
    except OSError:  # its end, on Linux
        pass
    if process.wait() != 0:
        sys.exit(f"{command} ends with {process.returncode}\n{written.decode()}")
    return written.decode().replace("\r\n", "\n")


def runs(line):
    """(column, text, attributes) of each part of a line that looks alike."""
    column, attributes = 0, {}
    parts = STYLE.split(line)
    for index, part in enumerate(parts):
        if index % 2 == 0:
            if part.strip():
                yield column, part, attributes
            column += len(part)
        elif part in FILLS:
            attributes = {**attributes, "fill": FILLS[part]}
        else:
            attributes = {"1": {**attributes, "font-weight": "bold"}, "2": {**attributes, "opacity": "0.6"}}.get(part, {})


def drawn(line, y):
    for column, text, attributes in runs(line):
        skipped = len(text) - len(text.lstrip())
        shown = text.strip()
        settings = "".join(f' {key}="{value}"' for key, value in attributes.items())
        yield (f'<text x="{MARGIN + (column + skipped) * COLUMN:.1f}" y="{y}" textLength="{len(shown) * COLUMN:.1f}"'
               f'{settings}>{escape(shown)}</text>')


def picture(lines):
    width, height = MARGIN * 2 + COLUMNS * COLUMN, MARGIN * 2 + len(lines) * LINE
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
           'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="14" fill="#d1d7e0" '
           'xml:space="preserve">')
    yield f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#151b23"/>'
    for number, line in enumerate(lines):
        yield from drawn(line, MARGIN + LINE * number + 14)
    yield "</svg>"


def main():
    word = sys.argv[1] if len(sys.argv) > 1 else "epoch 2/3"
    command = ["dlflow", "run", "workflows/fashion-mnist.yaml", *sys.argv[2:]]
    frames = REDRAW.split(watch([ROOT / "build/bin/dlflow", *command[1:]]))
    under_way = [frame for frame in frames if word in frame]
    if not under_way:
        sys.exit(f"no frame has {word!r}; the last is\n{frames[-1]}")
    prompt = "\033[32m$\033[0m " + " ".join(command)
    lines = [prompt, *under_way[-1].rstrip("\n").split("\n"), "", *frames[-1].rstrip("\n").split("\n")]
    print("\n".join(picture(lines)))


main()
