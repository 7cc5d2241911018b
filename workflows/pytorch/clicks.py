"""Writes click logs in Criteo's format, and prepares them for a model:

    clicks.py write SAMPLES SEED FILE
    clicks.py prepare FILE ROWS FOLDER

A line is a click (0 or 1), 13 counts and 26 categories in hexadecimal, separated by tabs; all but the first may be empty. Written logs
have planted structure: a click depends on the counts, on each category, and on pairs of categories. FOLDER gets dense.npy (logarithms of counts),
ids.npy (categories modulo ROWS) and labels.npy.
"""

import pathlib
import sys

import numpy
import torch

COUNTS, CATEGORIES, KINDS = 13, 26, 20_000
PLANTED, SIZE = 512, 4  # vectors per field that determine clicks, and numbers in each vector


def write(samples, seed, path):
    structure, chance = torch.Generator().manual_seed(0), torch.Generator().manual_seed(int(seed))
    weights = torch.randn(COUNTS, generator=structure)
    vectors = torch.randn(CATEGORIES, PLANTED, SIZE + 1, generator=structure)
    dense = torch.randn(int(samples), COUNTS, generator=chance)
    kinds = (torch.rand(int(samples), CATEGORIES, generator=chance) ** 8 * KINDS).long()  # some are frequent, most are rare
    of_kinds = vectors[torch.arange(CATEGORIES), kinds % PLANTED]
    sums = of_kinds.sum(1)
    pairs = (sums[:, :SIZE].square() - of_kinds[..., :SIZE].square().sum(1)).sum(1) / 2
    logits = -1 + 0.15 * dense @ weights + 0.5 * sums[:, SIZE] + 0.03 * pairs
    labels = torch.rand(int(samples), generator=chance) < torch.sigmoid(logits)
    counts = torch.expm1(dense + 2).clamp(min=0).long()
    hashes = (kinds + KINDS * torch.arange(CATEGORIES)) * 2654435761 % (1 << 32)
    with open(path, "w") as file:
        for label, row, categories in zip(labels.tolist(), counts.tolist(), hashes.tolist()):
            file.write("\t".join([str(int(label)), *map(str, row), *(f"{category:08x}" for category in categories)]) + "\n")


def parsed(line, place):
    fields = line.rstrip("\n").split("\t")
    if len(fields) != 1 + COUNTS + CATEGORIES:
        raise SystemExit(f"error: {place}: {len(fields)} fields: a line has a click, {COUNTS} counts and {CATEGORIES} categories")
    try:
        counts = [max(0, int(field or 0)) for field in fields[1:1 + COUNTS]]
        return int(fields[0]), counts, [int(field or "0", 16) for field in fields[1 + COUNTS:]]
    except ValueError as error:
        raise SystemExit(f"error: {place}: {error}") from None


def prepare(path, rows, folder):
    with open(path) as file:
        labels, counts, categories = zip(*(parsed(line, f"{path}:{number}") for number, line in enumerate(file, 1)))
    place = pathlib.Path(folder)
    place.mkdir(parents=True)
    numpy.save(place / "dense.npy", numpy.log1p(numpy.array(counts, dtype=numpy.float32)))
    numpy.save(place / "ids.npy", (numpy.array(categories) % int(rows)).astype(numpy.int32))
    numpy.save(place / "labels.npy", numpy.array(labels, dtype=numpy.float32))


if __name__ == "__main__":
    {"write": write, "prepare": prepare}[sys.argv[1]](*sys.argv[2:])
