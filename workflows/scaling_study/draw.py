"""Plots speed-up, efficiency, accuracy and exposed communication over ranks, with 95 % intervals: draw.py SUMMARY.csv PICTURE.png"""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

PANELS = {"speed_up": "speed-up", "efficiency": "efficiency", "accuracy": "accuracy", "exposed": "exposed communication"}

rows = list(csv.DictReader(open(sys.argv[1])))
not_run = [f"{row['way']}: not run: {row['not_run']}" for row in rows if row["not_run"]]
rows = [row for row in rows if not row["not_run"]]
figure, panels = pyplot.subplots(1, 4, figsize=(16, 4), layout="constrained")
for panel, (name, title) in zip(panels, PANELS.items()):
    for way in dict.fromkeys(row["way"] for row in rows):
        own = [row for row in rows if row["way"] == way and row[name]]
        panel.errorbar([int(row["ranks"]) for row in own], [float(row[name]) for row in own],
                       [float(row[name + "_half"] or 0) for row in own], marker="o", capsize=3, label=way)
    panel.set(title=title, xlabel="ranks", xticks=sorted({int(row["ranks"]) for row in rows}))
panels[0].legend()
figure.suptitle("; ".join(not_run), fontsize="small")
figure.savefig(sys.argv[2], dpi=100)
