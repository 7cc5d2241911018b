"""Writes synthetic volumes that resemble electron microscopy of brain tissue, but with known neurites: several for training and one for
the test, with settings from the step's `with:`. Each is a cube of bytes."""

import itertools
import json
import os
import pathlib
import sys
import types

import numpy as np
import torch

import dlflow

FAR, SHORTEST = 6, 20  # voxels: the largest distance to a surface that matters; the least length of a neurite


def settings():
    return types.SimpleNamespace(**json.loads(pathlib.Path(os.environ["DLFLOW_WITH"]).read_text()))


def output(name):
    file = pathlib.Path(os.environ["DLFLOW_OUTPUTS"]) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def curve(random, side):
    """Points one voxel apart on a smooth random curve from a face of the volume until it leaves the volume."""
    point = random.uniform(0, side - 1, 3)
    point[random.integers(3)] = random.choice([0, side - 1])
    direction = random.uniform(0, side - 1, 3) - point
    while ((0 <= point) & (point <= side - 1)).all():
        yield point
        direction = direction / np.linalg.norm(direction) + random.normal(0, 0.08, 3)
        point = point + direction / np.linalg.norm(direction)


def distance_to_tube(points, radius, side):
    """The distance of each voxel to the surface, negative inside; at most FAR."""
    distance = np.full((side,) * 3, float(FAR))
    reach = int(radius) + FAR + 1
    for point in points:
        window = tuple(slice(max(0, int(place) - reach), int(place) + reach + 1) for place in point)
        x, y, z = ((np.arange(side)[part] - place) ** 2 for part, place in zip(window, point))
        distance[window] = np.minimum(distance[window], np.sqrt(x[:, None, None] + y[:, None] + z) - radius)
    return distance


def neurites(random, side, tries):
    """The number of the neurite at each voxel; 0 between neurites, and in the membrane where two touch."""
    labels = np.zeros((side,) * 3, np.uint8)
    nearest, second = np.full(labels.shape, float(FAR)), np.full(labels.shape, float(FAR))
    for _ in range(tries):
        radius = random.uniform(3, 5.5)
        # A neurite ends where it would intersect another one.
        points = list(itertools.takewhile(lambda point: nearest[tuple(point.astype(int))] > radius / 2, curve(random, side)))
        if len(points) >= SHORTEST and labels.max() < 255:
            distance = distance_to_tube(points, radius, side)
            labels[distance < nearest] = labels.max() + 1
            second = np.minimum(second, np.maximum(nearest, distance))
            nearest = np.minimum(nearest, distance)
    labels[(nearest > 0) | (second - nearest < FAR)] = 0
    return labels


def photographed(random, labels, noise):
    """The image: neurites are bright, membranes and the space between are dark; blurred over 3 voxels, with noise."""
    light = torch.nn.functional.avg_pool3d(torch.from_numpy(labels > 0).float()[None], 3, stride=1, padding=1, count_include_pad=False)
    return np.clip(64 + 128 * light[0].numpy() + random.normal(0, noise, labels.shape), 0, 255).astype(np.uint8)


def make():
    given = settings()
    random = np.random.default_rng(given.seed)
    for split, count in (("train", given.count), ("test", 1)):
        labels = [neurites(random, given.side, given.tries) for _ in range(count)]
        np.save(output(f"volumes/{split}-labels.npy"), labels)
        np.save(output(f"volumes/{split}-images.npy"), [photographed(random, each, given.noise) for each in labels])
        print(f"{split}: {count} x {given.side}^3 voxels, {sum(int(each.max()) for each in labels)} neurites, {np.mean(np.array(labels) > 0):.0%} full")


def blocks(side, parts, overlap):
    """The slices of a volume's blocks: `parts` along each axis, each extended by `overlap` voxels on all sides."""
    if side % parts != 0:
        sys.exit(f"error: a volume of {side}^3 voxels has no {parts} equal blocks along each axis: change 'side' or 'blocks'")
    size = side // parts
    for corner in itertools.product(range(0, side, size), repeat=3):
        yield tuple(slice(max(0, first - overlap), min(side, first + size + overlap)) for first in corner)


def same_objects(one, two):
    """Pairs of objects in two segmentations of the same voxels that share at least half of the larger one."""
    sizes, both = [np.bincount(each) for each in (one, two)], (one > 0) & (two > 0)
    for (first, second), count in zip(*np.unique(np.stack([one[both], two[both]], 1), axis=0, return_counts=True)):
        if 2 * count >= max(sizes[0][first], sizes[1][second]):
            yield first, second


def merged(parts, places, side):
    """Merges the segmentations of the blocks into one: an object found in two blocks gets one number."""
    found = np.full((side,) * 3, -1)  # not covered yet
    number = np.arange(sum(part.max() for part in parts) + 1)
    for part, place in zip(parts, places):
        part, before = np.where(part > 0, part + max(0, found.max()), 0), found[place]
        for new, old in same_objects(part[before >= 0], before[before >= 0]):
            number[number == number[old]] = number[new]
        found[place] = np.where(before > 0, before, part)
    return number[found]


def adapted_rand(found, truth):
    """Precision, recall and their harmonic mean over pairs of voxels in the same object. A voxel without a found object is an object by itself."""
    found, truth = found[truth > 0], truth[truth > 0].astype(int)
    alone = int((found == 0).sum())
    together = truth * (found.max() + 1) + found
    in_both, in_found = (float((np.unique(each[found > 0], return_counts=True)[1] ** 2).sum()) + alone for each in (together, found))
    precision, recall = in_both / in_found, in_both / float((np.bincount(truth) ** 2).sum())
    return precision, recall, 2 * precision * recall / (precision + recall)


def compare(volumes, found):
    """Measures a segmentation of the test volume, and draws its middle slice: the image, the neurites, and the found objects."""
    image, truth = (np.load(volumes / f"test-{what}.npy")[0] for what in ("images", "labels"))
    precision, recall, both = adapted_rand(found, truth)
    dlflow.report(rand=both, precision=precision, recall=recall, objects=len(np.unique(found)) - 1, neurites=len(np.unique(truth)) - 1)
    numbers = np.arange(max(found.max(), truth.max()) + 1)[:, None]
    colours = np.where(numbers > 0, np.random.default_rng(1).integers(60, 256, (len(numbers), 3)), 0)
    grey, *drawn = (each[len(each) // 2] for each in (image, truth, found))
    pixels = np.concatenate([np.repeat(grey[..., None], 3, 2), *(colours[each] for each in drawn)], 1).astype(np.uint8)
    output("slice.ppm").write_bytes(b"P6 %d %d 255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes())


if __name__ == "__main__":
    make()
