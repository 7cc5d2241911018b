"""The values that the workflow gives a step: parameters, matrix values, and `with:`."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict

from dlflow import _environment

_PREFIXES = ("DLFLOW_PARAM_", "DLFLOW_MATRIX_")


class Parameters(Dict[str, Any]):
    """A dictionary whose values are also attributes: `p["lr"]`, `p.lr`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the workflow gives no {name!r}; it gives {', '.join(self) or 'nothing'}. Give params() a "
                                 f"default, or the step a value: with: {{{name}: …}}") from None


def params(**defaults: Any) -> Parameters:
    """Returns the parameters (`params:`), the matrix values of this element, and the step's `with:`; the last value of a name counts.

    `params(lr=0.1, epochs=3)`: gives defaults for values that the workflow does not set, and a value gets the type of its default.
    Others are parsed as YAML. Names are in lower case, with `_` in place of `-`. Outside of dlflow there are only the defaults.
    """
    names = {_variable(name): name for name in defaults}
    found = Parameters(defaults)
    for prefix in _PREFIXES:
        for variable, text in os.environ.items():
            if variable.startswith(prefix):
                short = variable[len(prefix):]
                name = names.get(short, short.lower())
                found[name] = _typed(name, text, defaults)
    for key, value in _with().items():
        name = names.get(_variable(key), re.sub(r"\W", "_", key).lower())
        found[name] = _typed(name, value, defaults)
    return found


def _variable(name: str) -> str:
    """The variable's name as the engine spells it, byte by byte."""
    return re.sub(rb"[^A-Z0-9]", b"_", name.encode().upper()).decode()


def _with() -> Dict[str, Any]:
    path = _environment.variable("DLFLOW_WITH")
    if path is None:
        return {}
    with open(path) as file:
        values: Dict[str, Any] = json.load(file)
    return values


def _value_in(text: str) -> Any:
    """Parses JSON, or a number in YAML's spelling. `010` stays a text, as it may be a name."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    if re.fullmatch(r"0x[0-9a-fA-F]+|0o[0-7]+", text):
        return int(text, 0)
    if re.fullmatch(r"[+-]?(?!0\d)(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?", text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return text


def _typed(name: str, value: Any, defaults: Dict[str, Any]) -> Any:
    """Converts to the default's type. A variable is text: lists, numbers and booleans are encoded as JSON."""
    default = defaults.get(name)
    if isinstance(default, str):
        return value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, str):
        value = _value_in(value)
    if default is None or type(value) is type(default):
        return value
    if type(default) is float and type(value) is int:
        return float(value)
    if type(default) is int and type(value) is float and value.is_integer():
        return int(value)
    raise ValueError(f"{name} is {value!r} in the workflow: the script needs a value of type {type(default).__name__}, as {default!r} is")
