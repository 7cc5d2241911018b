#!/usr/bin/env python3
"""The page of `dlflow report` as pictures, taken by a headless Chromium.

usage: docs/images/report.py RUN [RUN...]

Writes report.png (steps, jobs and curves, by day) and report-dark.png (waits and resources, by night) beside this script. A job is
selected, as one would by keyboard. The pictures in the repository are of workflows/optimizers.yaml.
"""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/support"))
from browser import Browser  # noqa: E402

LARGEST = 200_000  # bytes of a picture
WIDTH = 1180


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder, Browser(WIDTH, 1000) as browser:
        page = pathlib.Path(folder) / "report.html"
        subprocess.run([HERE.parents[1] / "build/bin/dlflow", "report", *sys.argv[1:], "-o", page], check=True)
        browser.media()
        browser.resize(WIDTH, 1000)
        browser.open(page)
        browser.run("document.getElementById('gantt').focus()")
        browser.press("ArrowDown", "ArrowDown")
        browser.run("document.activeElement.blur()")
        bottom = browser.run("document.querySelector('#curves').getBoundingClientRect().bottom + scrollY")
        browser.resize(WIDTH, int(bottom) + 20)
        browser.run("scrollTo(0, 0); new Promise((drawn) => setTimeout(drawn, 300))")
        browser.picture(HERE / "report.png")
        browser.media(dark=True)
        browser.resize(WIDTH, 700)
        browser.run("document.querySelector('#waiting').scrollIntoView(); new Promise((drawn) => setTimeout(drawn, 300))")
        browser.picture(HERE / "report-dark.png")
        if browser.complaints:
            sys.exit("\n".join(browser.complaints))
    for name in ("report.png", "report-dark.png"):
        size = (HERE / name).stat().st_size
        print(f"{name}: {size // 1000} kB")
        if size > LARGEST:
            sys.exit(f"{name} is larger than {LARGEST // 1000} kB")


main()
