"""Parts of a checkpoint that every rank has another of. Each rank writes a file of its own, and the rank of that number reads it."""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from dlflow import _environment, _folder, _tree

Merge = Callable[[Sequence[Any]], Any]


class PerRank:
    """A part of a checkpoint that every rank has another of: `checkpoint(step, queue=dlflow.PerRank(queue))`, and the same for resume().

    `part`: as other parts are. `merge`: for another number of ranks than saved it: of the states of all those ranks, in their order, what
    each rank loads. Without it resume() refuses another number.
    """

    def __init__(self, part: Any, merge: Optional[Merge] = None):
        self.part = part
        self.merge_ranks = merge


def is_one(part: Any) -> bool:
    """Things that know of themselves that they are such a part have `merge_ranks`, too, or `load_shards`."""
    return hasattr(part, "merge_ranks") or hasattr(part, "load_shards")


def save(place: pathlib.Path, rank: int, states: Mapping[str, Any]) -> Dict[str, Any]:
    """What rank 0 is to know of it: the states as JSON, the files; or why they could not be written."""
    trees: Dict[str, Any] = {}
    files: _folder.Written = {}
    try:
        for name, state in states.items():
            tensors = _tree.Tensors()
            trees[name] = _tree.encode(state, tensors)
            _folder.write_tensors(place, _file(name, rank), tensors.by_name, {}, files)
    except Exception as error:  # rank 0 tells it to all
        return {"failure": f"rank {rank}: {error}"}
    return {"trees": trees, "files": files}


def load(path: pathlib.Path, name: str, trees: Sequence[Any], place: Tuple[int, int], merge: Optional[Merge]) -> Any:
    """What the rank of this number loads; `place`: its number and how many there are."""
    rank, ranks = place
    if len(trees) == ranks:
        return _decoded(path, name, rank, trees[rank])
    held = f"{path} has the {name} of {len(trees)} rank{'s' * (len(trees) != 1)}, each its own, and there {'is' if ranks == 1 else 'are'} {ranks} now"
    if merge is None:
        raise RuntimeError(f"{held}: go on with {len(trees)}, or give PerRank a function `merge`")
    _environment.say(f"{held}: they are merged")
    return merge([_decoded(path, name, other, tree) for other, tree in enumerate(trees)])


def load_shards(path: pathlib.Path, name: str, ranks: int, part: Any) -> None:
    """For parts that are too large to be copied: they get the mapped tensors of all ranks, by the names that state_dict() gave them."""
    part.load_shards([_folder.read_tensors(path, _file(name, rank)) for rank in range(ranks)])


def _decoded(path: pathlib.Path, name: str, rank: int, tree: Any) -> Any:
    return _tree.decode(tree, _folder.read_tensors(path, _file(name, rank)))


def _file(name: str, rank: int) -> str:
    return f"{name}-{rank}{_folder.TENSORS}"
