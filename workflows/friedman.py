"""Writes a table of a known function: `friedman.py ROWS SEED NOISE FILE.csv`. Ten features are uniform in [0, 1); y depends on
five of them, with normal noise of deviation NOISE. Function: Friedman, Multivariate adaptive regression splines, Annals of
Statistics 19 (1991), equation 61."""

import csv
import math
import random
import sys


def main() -> None:
    rows, seed, noise = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    rng = random.Random(seed)
    with open(sys.argv[4], "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{i}" for i in range(1, 11)), "y"])
        for _ in range(rows):
            x = [rng.random() for _ in range(10)]
            y = 10 * math.sin(math.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4] + rng.gauss(0, noise)
            writer.writerow([f"{value:.6f}" for value in (*x, y)])


main()
