"""Writes the rows of all jobs (rows.csv) and their means with 95 % confidence intervals (summary.csv), and prints the latter.
Speed-up and efficiency are relative to the same repetition of the same way on the fewest ranks.
"""

import csv
import json
import pathlib
import statistics

import dlflow

MEASURES = ("images_per_s", "speed_up", "efficiency", "accuracy", "exposed")
T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # Student's t, by degrees of freedom


def mean_and_half(values):
    """The mean, and half of its 95 % interval; no interval for a single value, and neither if a value is missing."""
    if len(values) < 2 or None in values:
        return "" if None in values else values[0], ""
    return statistics.mean(values), T[min(len(values) - 1, len(T)) - 1] * statistics.stdev(values) / len(values) ** 0.5


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def main():
    given = dlflow.params(files=[""], in_images=[[""]])
    rows = [json.loads(pathlib.Path(path).read_text()) for path in sum(given.in_images, given.files)]
    not_run = {row["way"]: row["not_run"] for row in rows if "not_run" in row}
    rows = sorted((row for row in rows if row["way"] not in not_run), key=lambda row: (row["way"], row["ranks"], row["repeat"]))
    first = {}
    for row in rows:
        fewest = first.setdefault((row["way"], row["repeat"]), row)
        row["speed_up"] = fewest["ranks"] * row["images_per_s"] / fewest["images_per_s"]
        row["efficiency"] = row["speed_up"] / row["ranks"]
    write("rows.csv", rows)
    summary = []
    for way, ranks in dict.fromkeys((row["way"], row["ranks"]) for row in rows):
        line = {"way": way, "ranks": ranks}
        for name in MEASURES:
            line[name], line[name + "_half"] = mean_and_half([row[name] for row in rows if (row["way"], row["ranks"]) == (way, ranks)])
        summary.append(line)
    write("summary.csv", [line | {"not_run": ""} for line in summary] + [dict.fromkeys(summary[0], "") | {"way": way, "not_run": why} for way, why in not_run.items()])
    print(f"{'way':16}{'ranks':>6}" + "".join(f"{name:>22}" for name in MEASURES))
    for line in summary:
        cells = (f"{line[name]:.4g}" + (f" ± {line[name + '_half']:.2g}" if line[name + "_half"] != "" else "") if line[name] != "" else "-" for name in MEASURES)
        print(f"{line['way']:16}{line['ranks']:6}" + "".join(f"{cell:>22}" for cell in cells))
    for way, why in not_run.items():
        print(f"{way}: not run: {why}")


main()
