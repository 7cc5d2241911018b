"""The share of a training step in oneDNN's convolutions and products of matrices, and their speed compared with this core's sgemm.

One rank, one thread, fast mode. ONEDNN_VERBOSE lists each primitive with its shapes and time; the rest of a step is dlflow's own loops
(attention, normalization, 3x3 convolutions by Winograd's algorithm, depthwise convolution on small maps, dropout, updates) and the loading
of data. Depthwise convolutions are bound by memory and do not count as products.
"""

import argparse
import collections
import dataclasses
import re
import statistics

import peers
import training

CONVOLUTION = re.compile(r"(?:g(\d+))?mb(\d+)_ic(\d+)oc(\d+)_ih(\d+)oh(\d+)kh(\d+)\w*_iw(\d+)ow(\d+)kw(\d+)")
INNER_PRODUCT = re.compile(r"mb(\d+)ic(\d+)(?:ih(\d+)iw(\d+))?oc(\d+)")


def convolution(shapes, transposed=False):
    groups, mb, ic, oc, ih, oh, kh, iw, ow, kw = (int(n or 1) for n in CONVOLUTION.match(shapes).groups())
    places = ih * iw if transposed else oh * ow
    return 2 * mb * ic * oc // groups * places * kh * kw


def inner_product(shapes):
    mb, ic, ih, iw, oc = (int(n or 1) for n in INNER_PRODUCT.match(shapes).groups())
    return 2 * mb * ic * ih * iw * oc


def matmul(shapes):
    left, right = ([int(n) for n in shape.split("x")] for shape in shapes.split(":")[:2])
    count = 2
    for n in (*left, right[-1]):
        count *= n
    return count


OPERATIONS = {"convolution": convolution, "deconvolution": lambda shapes: convolution(shapes, transposed=True),
              "inner_product": inner_product, "matmul": matmul}


@dataclasses.dataclass
class Step:
    """A step of training; times in seconds."""

    samples_per_s: float
    seconds: float
    products: float  # part of `seconds`
    operations: float  # of the products
    others: dict  # parts of `seconds`, by kind of primitive


def measured(model):
    network = training.NETWORKS[model]
    steps = min(network.steps, 60000 // network.batch)  # the number of pictures in Fashion-MNIST
    metrics, printed = training.train(model, 1, steps * network.batch, {"ONEDNN_VERBOSE": "1"}, epochs=1, validation=0,
                                      precision={"reduction": "fast"})
    times = collections.defaultdict(list)  # by kind and shapes
    for line in printed.splitlines():
        words = line.split(",")
        if words[1:2] == ["exec"]:
            times[words[3], words[4], words[5], words[-2]].append(float(words[-1]) / 1e3)
    products, operations, others = 0.0, 0.0, collections.Counter()
    for (kind, program, _, shapes), each in times.items():
        per_step = len(each) / steps
        seconds = statistics.median(each) * per_step  # the median ignores the first of each, which touches new memory
        if "_dw:" in program:
            others["depthwise convolution"] += seconds
        elif kind in OPERATIONS:
            products += seconds
            operations += OPERATIONS[kind](shapes) * per_step
        else:
            others[kind] += seconds
    speed = metrics[f"{network.unit}_per_s"]
    samples = network.batch * (training.TOKENS if network.unit == "tokens" else 1)
    return Step(speed, samples / speed, products, operations, others)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    for model in parser.parse_args().models or training.NETWORKS:
        before = peers.of_onednn()
        step = measured(model)
        peak = max(before, peers.of_onednn()) * 1e9
        others = ", ".join(f"{kind} {seconds / step.seconds:.0%}" for kind, seconds in step.others.most_common(3))
        unit = training.NETWORKS[model].unit
        print(f"{model}: {step.samples_per_s:.0f} {unit}/s, {step.seconds * 1e3:.1f} ms a step, sgemm {peak / 1e9:.0f} GFLOP/s\n"
              f"  products {step.products / step.seconds:.0%} of the step, "
              f"{step.operations / step.products / 1e9:.0f} GFLOP/s, {step.operations / step.products / peak:.0%} of sgemm; "
              f"whole step {step.operations / step.seconds / peak:.0%} of sgemm\n"
              f"  other primitives {sum(step.others.values()) / step.seconds:.0%} ({others}); "
              f"the rest {1 - (step.products + sum(step.others.values())) / step.seconds:.0%}", flush=True)


if __name__ == "__main__":
    main()
