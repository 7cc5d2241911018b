"""Parts of a checkpoint that differ between ranks. Each rank writes its own file, and the rank with the same number reads it."""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from dlflow import _environment, _folder, _tree

Merge = Callable[[Sequence[Any]], Any]


class PerRank:
    """A part of a checkpoint that differs between ranks: `checkpoint(step, queue=dlflow.PerRank(queue))`, and the same for resume().

    `part`: like other parts. `merge`: called if the number of ranks has changed; takes the states of all saved ranks, in order, and
    returns the state that each rank loads. Without it, resume() refuses another number of ranks.
    """

    def __init__(self, part: Any, merge: Optional[Merge] = None):
        self.part = part
        self.merge_ranks = merge


def is_one(part: Any) -> bool:
    """Whether the part differs between ranks. Parts other than PerRank declare this by `merge_ranks` or `load_shards`."""
    return hasattr(part, "merge_ranks") or hasattr(part, "load_shards")


def save(place: pathlib.Path, rank: int, states: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns rank 0's information about this rank: the states as JSON and the files, or the reason for a failure."""
    trees: Dict[str, Any] = {}
    files: _folder.Written = {}
    try:
        for name, state in states.items():
            tensors = _tree.Tensors()
            trees[name] = _tree.encode(state, tensors)
            _folder.write_tensors(place, _file(name, rank), tensors.by_name, {}, files)
    except Exception as error:  # rank 0 reports it to all
        return {"failure": f"rank {rank}: {error}"}
    return {"trees": trees, "files": files}


def load(path: pathlib.Path, name: str, trees: Sequence[Any], place: Tuple[int, int], merge: Optional[Merge]) -> Any:
    """Returns the state that this rank loads; `place`: its number and the number of ranks."""
    rank, ranks = place
    if len(trees) == ranks:
        return _decoded(path, name, rank, trees[rank])
    held = f"{path} has the {name} of {len(trees)} rank{'s' * (len(trees) != 1)}, each its own, and there {'is' if ranks == 1 else 'are'} {ranks} now"
    if merge is None:
        raise RuntimeError(f"{held}: use {len(trees)}, or give PerRank a function `merge`")
    _environment.say(f"{held}: they are merged")
    return merge([_decoded(path, name, other, tree) for other, tree in enumerate(trees)])


def load_shards(path: pathlib.Path, name: str, ranks: int, part: Any) -> None:
    """For parts that are too large to be copied: passes them the mapped tensors of all ranks, under the names from state_dict()."""
    part.load_shards([_folder.read_tensors(path, _file(name, rank)) for rank in range(ranks)])


def _decoded(path: pathlib.Path, name: str, rank: int, tree: Any) -> Any:
    return _tree.decode(tree, _folder.read_tensors(path, _file(name, rank)))


def _file(name: str, rank: int) -> str:
    return f"{name}-{rank}{_folder.TENSORS}"
