"""Finds the smallest validation loss of several trainings, each with a history.csv in its folder."""

import csv
import json
import os
import pathlib
import sys

best = {}
for folder in sys.argv[1].split():
    with open(pathlib.Path(folder) / "history.csv", newline="") as file:
        loss = min(float(row["val_loss"]) for row in csv.DictReader(file))
    if not best or loss < best["val_loss"]:
        best = {"val_loss": loss}
        print(f"{folder}: {loss}")
with open(os.environ["DLFLOW_SUMMARY"], "w") as file:
    json.dump(best, file)
