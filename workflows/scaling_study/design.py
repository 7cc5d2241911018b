"""Lists the jobs of the study in a random order: each way, number of ranks and repetition. Ways that are not available here are named and left out.

    design.py DATA        the folder with the two unpacked files, whose first samples are used
"""

import json
import pathlib
import random
import struct
import subprocess
import sys

import dlflow

NEEDS = {"ours": "dlflow", "ddp-gloo": "torch.distributed", "ddp-dlflow": "dlflow.torch", "horovod-dlflow": "dlflow.torch", "horovod": "horovod.torch"}


def take(count):
    """Writes the first samples."""
    pathlib.Path("samples").mkdir()
    for name, header, size in (("train-images-idx3-ubyte", 16, 784), ("train-labels-idx1-ubyte", 8, 1)):
        content = (pathlib.Path(sys.argv[1]) / name).read_bytes()
        pathlib.Path("samples", name).write_bytes(content[:4] + struct.pack(">I", count) + content[8:header + count * size])


def every(way, given, **more):
    return [{"name": f"{way}-{ranks}-{seed}", "way": way, "ranks": ranks, "seed": seed, **more} for ranks in given.ranks for seed in range(1, given.repeat + 1)]


def write(path, jobs):
    random.Random(1).shuffle(jobs)
    pathlib.Path(path).write_text(json.dumps(jobs))


def main():
    given = dlflow.params(ways=[""], ranks=[1], repeat=5, samples=60000, python="python3", horovod="python3", lbann="none", tarantella="none")
    take(given.samples)
    jobs = []
    for way in given.ways:
        python = given.horovod if way == "horovod" else given.python
        if way not in NEEDS:
            sys.exit(f"error: 'ways' has '{way}'; it can have {', '.join(NEEDS)}")
        found = subprocess.run([python, "-c", f"import {NEEDS[way]}"], capture_output=True, text=True)
        if found.returncode != 0:
            print(f"left out: {way}: {python} says {found.stderr.strip().splitlines()[-1]}")
            continue
        jobs += every(way, given, python=python)
    write("jobs.json", jobs)
    for way, image in (("lbann", given.lbann), ("tarantella", given.tarantella)):
        write(f"{way}.json", [{"name": "no-image", "way": way, "ranks": 1, "seed": 0}] if image == "none" else every(way, given))


main()
