"""A mistake of mistakes_test.py: the user's text and the three parts of the answer; and short forms of it."""

import dataclasses
import re
import textwrap


@dataclasses.dataclass(frozen=True)
class Mistake:
    name: str
    argv: tuple
    place: str  # where: file, line and column; or the option, verb, job
    cause: str  # what is wrong
    cure: str   # what to type, or to do
    files: dict = dataclasses.field(default_factory=dict)
    status: int = 2
    before: tuple = ()  # commands that come first, and are right


def steps(text, head=""):
    return {"w.yaml": f"name: w\n{head}steps:\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "  ") + "\n"}


def invalid(name, text, place, cause, cure, head="", more=None):
    """A mistake that `validate` finds."""
    return Mistake(name, ("validate", "w.yaml"), place, cause, cure, {**steps(text, head), **(more or {})})


def fails(name, text, cause, cure, more=None, place="a failed"):
    """A mistake that only a run finds."""
    return Mistake(name, ("run", "w.yaml"), place, cause, cure, {**steps(text), **(more or {})}, 1)


def doubted(name, text, place, cause, cure, head="", more=None):
    """Probably a mistake: `validate` warns of it."""
    return Mistake(name, ("validate", "w.yaml"), place, cause, cure, {**steps(text, head), **(more or {})}, 0)


def typed(name, argv, place, cause, cure, files=None, before=()):
    """A mistake in the command line."""
    return Mistake(name, tuple(argv), place, cause, cure, files or {}, 2, before)


def raw(name, text, place, cause, cure):
    """A mistake in the YAML of a workflow."""
    return Mistake(name, ("validate", "w.yaml"), place, cause, cure, {"w.yaml": text})


def profile(name, text, place, cause, cure):
    """A mistake in a profile."""
    return typed(name, ["profile", "show", "p.yaml"], place, cause, cure, {"p.yaml": text})


def data(name, argv, place, cause, cure, files=None):
    """A mistake in what becomes a data set."""
    return typed(name, ["data", "pack", *argv, "-o", "d"], place, cause, cure, files or {"t.csv": TABLE})


def trained(name, options, place, cause, cure, model, status=2):
    """A mistake in the training of a table."""
    step = {"model": "m.yaml", "data": "d", "epochs": 1, "lr": 0.01} | dict(re.findall(r"(\w+): ({.*?}|[^,]+)(?:, |$)", options))
    with_ = ", ".join(f"{key}: {value}" for key, value in step.items())
    return Mistake(name, ("run", "w.yaml"), place, cause, cure,
                   {**steps("a: {uses: train, with: {%s}}" % with_), "m.yaml": model, "t.csv": TABLE}, status,
                   (("data", "pack", "t.csv", "-o", "d", "--target", "y"),))


ONE = steps("a: {run: [echo]}", "params: {lr: 1}\n")
MODEL = "input: [1, 28, 28]\nlayers:\n"
TRAIN = "a: {uses: train, with: {model: m.yaml, data: d, epochs: 1, lr: 0.1}}"
TRAIN_SOME = "a: {uses: train, with: {model: m.yaml, data: /d, epochs: 1, lr: 0.1, %s}}"
TRAINED = "a: {uses: train, with: {model: '${{ params.m }}', data: /d, epochs: 1, lr: 0.1}}\n%s"
MODEL_OF_A = "'${{ steps.a.outputs.model }}'"
CONV = "name: m\n" + MODEL + "  - conv2d: {channels: 8, kernel: 3}\n  - flatten\n  - linear: {features: 10}\n"

RUN = (("run", "w.yaml"),)
X = "params: {x: 1}\n"
TABLE = "a,b,y\n" + "".join(f"{i},{2 * i},{3 * i}\n" for i in range(40))
REGRESSION = "name: m\ninput: [2]\nlayers:\n  - linear: {features: 1}\nloss: mse\n"
