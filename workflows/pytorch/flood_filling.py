"""A flood-filling network (Januszewski et al., Nature Methods 15, 2018), which draws one neurite at a time. Its field of view moves over the
volume; its input is the picture and its drawing so far.

    flood_filling.py train VOLUMES                 by dlflow.torch.exact; each virtual rank gets two cubes of a volume per step
    flood_filling.py segment VOLUMES CHECKPOINTS   the test volume, whose blocks are divided among the ranks

Settings come from the step's `with:`, VOLUMES from volumes.py."""

import functools
import math
import pathlib
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import dlflow
import dlflow.torch
from volumes import blocks, compare, merged, settings

FIELD, DELTA, VISITS = 13, 4, 2  # side of the field of view, length of a move, fields of view per cube in training
HALF, CUBE = FIELD // 2, FIELD + 2 * DELTA
SURE, UNSURE, MOVE = (math.log(p / (1 - p)) for p in (0.95, 0.05, 0.9))  # logits
EACH = 2  # cubes per virtual rank: with only one, PyTorch's 3-D convolutions take twice as long per cube
BRIGHT, SMALLEST = 0.5, 100  # least brightness of a seed, least size of an object in voxels


class Network(nn.Module):
    """Corrects the drawing in the field of view, in logits, from the picture and the drawing there."""

    def __init__(self, channels=8, modules=4):
        super().__init__()
        torch.manual_seed(0)
        convolution = functools.partial(nn.Conv3d, out_channels=channels, kernel_size=3, padding=1)
        self.first = nn.Sequential(convolution(2), nn.ReLU(), convolution(channels))
        self.residual = nn.ModuleList(nn.Sequential(nn.ReLU(), convolution(channels), nn.ReLU(), convolution(channels)) for _ in range(modules))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv3d(channels, 1, 1))

    def forward(self, images, drawn):
        values = self.first(torch.stack([images, drawn], 1).contiguous(memory_format=torch.channels_last_3d))
        for module in self.residual:
            values = values + module(values)
        return drawn + self.last(values)[:, 0]


class Cubes(torch.utils.data.Dataset):
    """Cubes around voxels of neurites, and masks of the voxels that belong to the neurite in the centre."""

    def __init__(self, volumes, split, count):
        self.images, self.labels = (torch.from_numpy(np.load(volumes / f"{split}-{what}.npy")) for what in ("images", "labels"))
        self.images = (self.images.float() - 128) / 64  # dark voxels are -1, bright ones 1
        margin = slice(CUBE // 2, self.images.shape[1] - CUBE // 2)
        places = (self.labels[:, margin, margin, margin] > 0).nonzero()
        if len(places) == 0:
            sys.exit(f"error: no neurite of {volumes} has {CUBE // 2} voxels around it: give a larger 'side'")
        self.places = places[torch.randint(len(places), (count,), generator=torch.Generator().manual_seed(0))].tolist()

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        volume, *corner = self.places[index]
        cube = (volume, *(slice(first, first + CUBE) for first in corner))
        labels, mirrored = self.labels[cube], [axis for axis in range(3) if torch.rand(()) < 0.5]
        return self.images[cube].flip(mirrored), (labels == labels[(CUBE // 2,) * 3]).float().flip(mirrored)


def around(middle):
    return tuple(slice(place - HALF, place + HALF + 1) for place in middle)


def look(model, images, canvases, middles):
    """Runs the model on the image around each `middle` and draws on its canvas. Returns the new drawing there."""
    fields = [around(middle) for middle in middles]
    drawn = model(*(torch.stack([each[field] for each, field in zip(them, fields)]) for them in (images, canvases)))
    for canvas, field, new in zip(canvases, fields, drawn.detach()):
        canvas[field] = new
    return drawn


def moves(drawn):
    """Yields moves along the neurite, as offsets from the centre: to the surest voxel of each face of the cube at distance DELTA, if it is sure enough."""
    inner = drawn.detach()[(slice(HALF - DELTA, HALF + DELTA + 1),) * 3]
    for axis in range(3):
        for step in (-DELTA, DELTA):
            face = inner.select(axis, DELTA + step)
            surest = int(face.argmax())
            if face.flatten()[surest] >= MOVE:
                move = [place - DELTA for place in divmod(surest, 2 * DELTA + 1)]
                yield [*move[:axis], step, *move[axis:]]


def visits(model, images, targets):
    """Visits the centre of each cube, then places where its neurite continues (or the same place again). Yields the drawing and its target."""
    middles = [[CUBE // 2] * 3 for _ in images]
    canvases = torch.full_like(images, UNSURE)
    canvases[:, CUBE // 2, CUBE // 2, CUBE // 2] = SURE
    for _ in range(VISITS):
        drawn = look(model, images, canvases, middles)
        yield drawn, torch.stack([target[around(middle)] for target, middle in zip(targets, middles)])
        for middle, new in zip(middles, drawn):
            ways = list(moves(new)) or [[0] * 3]
            middle[:] = [place + step for place, step in zip(middle, ways[int(torch.randint(len(ways), ()))])]


def f1_of(model, cubes):
    """The F1 score over the voxels of all visits."""
    torch.manual_seed(0)
    with torch.no_grad():
        seen = [pair for images, targets in torch.utils.data.DataLoader(cubes, batch_size=20) for pair in visits(model, images, targets)]
    drawn, wanted = (torch.cat(each) > 0 for each in zip(*seen))
    return 2 * int((drawn & wanted).sum()) / int(drawn.sum() + wanted.sum())


def update(optimizer, model, waiting, late):
    """Updates with the gradients of `late` steps before, as if ranks did not wait for each other, and queues the current ones."""
    waiting.append([parameter.grad.clone() for parameter in model.parameters()])
    if len(waiting) > late:
        for parameter, gradient in zip(model.parameters(), waiting.pop(0)):
            parameter.grad = gradient
        optimizer.step()


def train(volumes):
    given = settings()
    if given.cubes % (EACH * given.batch) != 0:
        sys.exit(f"error: 'cubes' is {given.cubes}, no multiple of {EACH * given.batch}: a step takes {EACH} for each of {given.batch} virtual ranks")
    model, factor = Network(), given.batch / given.base_batch
    rate = given.lr * {"sqrt": math.sqrt(factor), "linear": factor}[given.rule]
    loader = torch.utils.data.DataLoader(Cubes(volumes, "train", given.cubes), batch_size=EACH * given.batch, shuffle=True)
    training = dlflow.torch.exact(model, loader, virtual_ranks=given.batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    parts = {"model": model, "optimizer": optimizer, "training": training}
    saved, steps, began = dlflow.resume(**parts), len(training), time.monotonic()
    waiting = saved.part("waiting") or []

    for _ in range(training.epoch, 1):
        for step in training:
            done = step.number + 1
            optimizer.param_groups[0]["lr"] = rate * min(1, done / (0.1 * steps))  # warms up in the first tenth
            for images, targets in step:
                losses = [nn.functional.binary_cross_entropy_with_logits(drawn, 0.05 + 0.9 * wanted)
                          for drawn, wanted in visits(model, images, targets)]
                step.backward(sum(losses) / VISITS)
            update(optimizer, model, waiting, given.late)
            if done % max(1, steps // 50) == 0:
                dlflow.report(step=done, steps=steps, loss=step.loss, step_s=(time.monotonic() - began) / (done - saved.step))
            if dlflow.should_stop() and done < steps:
                dlflow.checkpoint(done, waiting=waiting, **parts)
                dlflow.stop()
    dlflow.checkpoint(steps, epoch=1, waiting=waiting, **parts)
    if training.rank == 0:
        dlflow.report(f1=f1_of(model, Cubes(volumes, "test", 400)), lr=rate)
        print(f"{training.size} ranks: {dlflow.torch.sha256(model, optimizer)}")


def flood(model, image, seed):
    """The canvas after the field of view has followed the neurite at `seed` everywhere, in waves of all places reached at the same time."""
    canvas, wave, seen = torch.full_like(image, UNSURE), [seed], set()
    canvas[tuple(seed)] = SURE
    while wave:
        reached = {}
        for middle, drawn in zip(wave, look(model, [image] * len(wave), [canvas] * len(wave), wave)):
            seen.add(tuple(place // DELTA for place in middle))
            for move in moves(drawn):
                place = [min(max(place + step, HALF), side - HALF - 1) for place, step, side in zip(middle, move, image.shape)]
                reached[tuple(each // DELTA for each in place)] = place
        wave = [place for cell, place in reached.items() if cell not in seen]
    return canvas


def segmented(model, image):
    """The number of the object at each voxel. Each flood starts at the brightest free place."""
    bright = nn.functional.avg_pool3d(image[None], 5, stride=1, padding=2)[0]
    labels, free = torch.zeros(image.shape, dtype=torch.int32), nn.functional.pad(torch.ones([side - 2 * HALF for side in image.shape]), [HALF] * 6) > 0
    seeds = (free & (bright > BRIGHT)).nonzero()
    for seed in seeds[bright[tuple(seeds.T)].argsort(descending=True)].tolist():
        if free[tuple(seed)]:
            drawn = (flood(model, image, seed) > 0) & (labels == 0)
            free[tuple(slice(place - 1, place + 2) for place in seed)] = False
            free &= ~drawn
            if drawn.sum() >= SMALLEST:
                labels[drawn] = labels.max() + 1
    return labels


def segment(volumes, checkpoints):
    dist.init_process_group("dlflow")
    given, model, images = settings(), Network(), Cubes(volumes, "test", 0).images
    dlflow.load(checkpoints, model=model)
    torch.set_num_threads(1)
    places = list(blocks(images.shape[1], given.blocks, given.overlap))
    with torch.no_grad():
        own = {number: segmented(model, images[0][places[number]]).numpy() for number in range(dist.get_rank(), len(places), dist.get_world_size())}
    shards = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(shards, own)
    if dist.get_rank() == 0:
        parts = {number: part for shard in shards for number, part in shard.items()}
        compare(volumes, merged([parts[number] for number in range(len(places))], places, images.shape[1]))


if __name__ == "__main__":
    verb, *folders = sys.argv[1:]
    {"train": train, "segment": segment}[verb](*map(pathlib.Path, folders))
