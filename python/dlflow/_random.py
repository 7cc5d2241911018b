"""The state of the random number generators that this program uses."""

from __future__ import annotations

import array
import hashlib
import random
import sys
from typing import Any, Dict, List


def capture() -> Dict[str, Any]:
    version, words, gauss = random.getstate()
    state: Dict[str, Any] = {"python": [version, array.array("I", words).tobytes(), gauss]}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        kind, words, *rest = numpy.random.get_state()
        state["numpy"] = [kind, words.tobytes(), *rest]
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore(state: Dict[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(array.array("I", words)), gauss))
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" in state:
        kind, data, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.frombuffer(data, dtype="uint32"), *rest))
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"])


def restore_on(states: List[Dict[str, Any]], rank: int, ranks: int) -> bool:
    """Whether this rank continues its generators. With another number of ranks, each starts anew from a seed made of the saved states."""
    if len(states) == ranks:
        restore(states[rank])
        return True
    seed = hashlib.sha256(states[0]["python"][1] + f"{rank}/{ranks}".encode()).digest()
    number = int.from_bytes(seed[:4], "little")
    random.seed(number)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(number)
    if torch is not None:
        torch.manual_seed(number)
    return False
