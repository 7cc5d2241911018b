"""The training program's interface to the engine: the request to stop, checkpoints, and resuming from them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import sys
import time
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Union

from dlflow import _environment, _folder, _per_rank, _random, _ranks, _signals, _tree
from dlflow._folder import Info, Written

_FORMAT = 1  # of state.json
_RUN_ME_AGAIN = 75
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = ("rng", "state", "manifest", "values")
_SHARDED, _PER_RANK = "sharded", "per_rank"

_folder_given: Optional[pathlib.Path] = None
_is_agreed = False


@dataclasses.dataclass
class _Last:
    """The last checkpoint that this program wrote or read, or its initial state."""
    step: int = 0
    epoch: int = 0
    path: Optional[pathlib.Path] = None
    at: float = dataclasses.field(default_factory=time.monotonic)


_last = _Last()


@dataclasses.dataclass
class Saved:
    """The checkpoint that a program resumes from; false, with initial values, if there is none."""
    step: int = 0  #: number of optimizer steps done
    epoch: int = 0
    samples: int = 0
    metrics: Dict[str, float] = dataclasses.field(default_factory=dict)
    values: Dict[str, Any] = dataclasses.field(default_factory=dict)  #: as passed to checkpoint()
    path: Optional[pathlib.Path] = None

    def __bool__(self) -> bool:
        return self.path is not None

    def part(self, name: str) -> Any:
        """The state saved under this name, such as a dictionary of arrays. None if there is no checkpoint."""
        if self.path is None:
            return None
        return _load_part(self.path, name, _folder.read_state(self.path))


def should_stop(group: Any = None) -> bool:
    """Whether the engine has asked this program to save and to end: the walltime is near, or a user stopped the run.

    Every rank calls it at the same place, and all get the same answer. It costs a sum of one number over the ranks of torch.distributed
    or of `group`. Always false outside of dlflow.
    """
    global _is_agreed
    if not _environment.is_step():
        return False
    _ranks.choose(group)
    _signals.listen()
    if not _is_agreed:
        _is_agreed = _ranks.agreement("should_stop").any(_signals.is_requested())
    return _is_agreed


def should_save(step: int, epoch: int, group: Any = None) -> bool:
    """Whether a checkpoint is due by the step's `checkpoint: {every: …}`: `1 epoch` (the default, also elsewhere), `200 steps`, `30m`.

    `step` and `epoch` count those that are done. Every rank calls it at the same place, and all get the same answer.
    """
    number, unit = (_environment.variable("DLFLOW_CHECKPOINT_EVERY") or "1 epochs").split()
    every = int(number)
    if unit == "epochs":
        return epoch - _last.epoch >= every
    if unit == "steps":
        return step - _last.step >= every
    _ranks.choose(group)
    return _ranks.agreement("should_save").any(time.monotonic() - _last.at >= every)


def stop(group: Any = None) -> NoReturn:
    """Ends this program so that it runs again. Call it after checkpoint(), on every rank; it waits for all ranks."""
    _ranks.choose(group)
    _ranks.agreement("stop").any(False)
    sys.stdout.flush()
    sys.exit(_RUN_ME_AGAIN)


def resume(*, folder: Union[str, pathlib.Path, None] = None, rng: bool = True, group: Any = None, **parts: Any) -> Saved:
    """Loads the newest complete checkpoint into `parts`, and returns where training continues. Skips a damaged one with a message.

    `parts`: the same names as for checkpoint(): models, optimizers, samplers, … with `load_state_dict`. Call it on every rank, after the
    ranks have connected. `folder`: the folder of checkpoints outside of dlflow; in a step it is `$DLFLOW_CHECKPOINTS`.
    """
    _ranks.choose(group)
    if _environment.is_step():
        _signals.listen()
    directory = _directory(folder)
    path = _newest(directory)
    if path is None:
        return Saved()
    saved = _read(path, parts, rng)
    _environment.say(f"continues from {path}")
    _note(saved.step, saved.epoch, path)
    return saved


def load(path: Union[str, pathlib.Path], *, group: Any = None, **parts: Any) -> Saved:
    """Loads a checkpoint of another step or program into `parts`, to evaluate it or to train on from its weights: `path` itself, or the
    newest complete one in that folder. Call it on every rank. Raises FileNotFoundError if there is none."""
    _ranks.choose(group)
    place = pathlib.Path(path)
    if (place / _folder.MANIFEST).exists():
        _folder.verify(place)
        return _read(place, parts, rng=False)
    found = _newest(place)
    if found is None:
        raise FileNotFoundError(f"{place} has no complete checkpoint: give load() the folder that checkpoint() wrote into, or a checkpoint in it")
    return _read(found, parts, rng=False)


def _read(path: pathlib.Path, parts: Mapping[str, Any], rng: bool) -> Saved:
    info = _folder.read_manifest(path)[0]
    state = _folder.read_state(path)
    if not isinstance(state, dict) or state.get("python") != _FORMAT:
        raise RuntimeError(f"{path} was not saved by dlflow.checkpoint() of this version: train into another folder")
    for name, part in parts.items():
        _restore(path, name, part, state, parts)
    if rng:
        _restore_random(path, state)
    values = _tree.decode(state["values"], _tensors_if(path, "values"))
    return Saved(info.step, info.epoch, info.samples, info.metrics, values, path)


def checkpoint(step: int, *, epoch: int = 0, samples: int = 0, metrics: Optional[Mapping[str, Any]] = None,
               values: Optional[Mapping[str, Any]] = None, folder: Union[str, pathlib.Path, None] = None, keep: int = 2, rng: bool = True,
               group: Any = None, **parts: Any) -> pathlib.Path:
    """Saves `parts` as a checkpoint, completely or not at all. Every rank calls it; it returns when all data is on disk.

    `parts`: objects with `state_dict()`, or dictionaries of tensors and arrays; `model` and `optimizer` become files of these names.
    Rank 0 writes the state that all ranks share. All ranks write what PyTorch 2 has sharded over them (FSDP2, DTensor), and state that
    differs between ranks: that of `dlflow.torch.compression`, and `PerRank(part)` for your own parts. `values`: small values of your
    own. Each rank's random state is also saved, unless `rng` is false. `uses: checkpoint` selects by `metrics`.

    Only the newest checkpoints are kept: N with `checkpoint: {keep: N}` of the step, or `keep` outside of dlflow.
    """
    _ranks.choose(group)
    _check_names(parts)
    directory = _directory(folder)
    told = _environment.variable("DLFLOW_CHECKPOINT_KEEP")
    info = Info(int(step), int(epoch), int(samples), {name: float(value) for name, value in (metrics or {}).items()})
    save = _Save(directory, info, dict(values or {}), int(told) if told else keep, _ranks.agreement("checkpoint"))
    path = save.run(parts, rng)
    _note(info.step, info.epoch, path)
    return path


def _note(step: int, epoch: int, path: pathlib.Path) -> None:
    global _last
    _last = _Last(step, epoch, path)


def _check_names(parts: Mapping[str, Any]) -> None:
    for name in parts:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise ValueError(f"a part of a checkpoint cannot be called {name!r}")


def _directory(folder: Union[str, pathlib.Path, None]) -> pathlib.Path:
    global _folder_given
    if folder is not None:
        _folder_given = pathlib.Path(folder)
    if _environment.is_step():
        of_step = _environment.variable("DLFLOW_CHECKPOINTS")
        if of_step is not None:
            return pathlib.Path(of_step)
    if _folder_given is None and _environment.is_step():
        raise ValueError("the step has no place for checkpoints: write `checkpoint: {}` in its workflow, or give resume() or checkpoint() a folder")
    if _folder_given is None:
        raise ValueError("outside of dlflow, checkpoints need a folder: give resume() or checkpoint() a folder")
    return _folder_given


def _newest(directory: pathlib.Path) -> Optional[pathlib.Path]:
    """Returns the same on all ranks: rank 0 looks, and sends the result to the others. Ranks that are not yet connected look themselves."""
    ranks = _ranks.met()
    if ranks is None:
        return _folder.newest(directory, _environment.say)
    ranks.meet("dlflow.resume()")
    found = str(_folder.newest(directory, _environment.say) or "").encode() if ranks.rank == 0 else None
    name = ranks.share(found, "dlflow.resume()").decode()
    return pathlib.Path(name) if name else None


def _state_of(name: str, part: Any) -> Any:
    part = _unwrapped(part)
    state = getattr(part, "state_dict", None)
    if callable(state):
        return state()
    if isinstance(part, (Mapping, list, tuple)):
        return part
    raise TypeError(f"{name} is a {type(part).__name__}: a part of a checkpoint has state_dict(), or is a dictionary of tensors or arrays")


def _unwrapped(part: Any) -> Any:
    """The part without wrappers: a checkpoint does not depend on the number of ranks."""
    if isinstance(part, _per_rank.PerRank):
        return part.part
    is_wrapper = type(part).__name__ in ("DataParallel", "DistributedDataParallel")
    return part.module if is_wrapper and hasattr(part, "module") else part


class _Save:
    """Writes one checkpoint, from all ranks' parts to the folder on disk."""

    def __init__(self, directory: pathlib.Path, info: Info, values: Dict[str, Any], keep: int, ranks: _ranks.Alone):
        if keep < 1:
            raise ValueError(f"at least 1 checkpoint must be kept, not {keep}")
        self._directory, self._info, self._values, self._keep, self._ranks = directory, info, values, keep, ranks
        self._is_first = ranks.rank == 0
        self._state: Dict[str, Any] = {"python": _FORMAT, "ranks": ranks.size, "parts": {}, _SHARDED: []}
        self._written: Written = {}

    def run(self, parts: Mapping[str, Any], rng: bool) -> pathlib.Path:
        self._ranks.meet("dlflow.checkpoint()")
        target = self._directory / _folder.name_of(self._info.step)
        is_own = target == _last.path  # otherwise an earlier training wrote it
        states = {name: _state_of(name, part) for name, part in parts.items()}
        of_each = {name: states.pop(name) for name, part in parts.items() if _per_rank.is_one(part)}
        sharded = _sharded(states)
        random_states = self._ranks.gather(_tree.to_bytes(_random.capture()), "dlflow.checkpoint()") if rng else []
        with _Outcome(self._ranks) as outcome:
            if self._is_first and not (is_own and _folder.holds(target, self._info)):  # an identical one is not saved again
                outcome.temporary, _ = _folder.begin(self._directory, self._info.step)
                self._write_replicated(outcome.temporary, {name: state for name, state in states.items() if name not in sharded})
                self._write_small(outcome.temporary, random_states)
        if sharded:
            self._write_sharded(outcome, {name: parts[name] for name in sharded}, parts)
        failure = self._write_of_each(outcome, of_each) if of_each else None
        with _Outcome(self._ranks) as last:
            last.temporary = outcome.temporary
            if failure:
                raise RuntimeError(failure)
            if outcome.temporary is not None:
                _folder.finish(outcome.temporary, target, self._info, self._state, self._written, self._keep)
        return target

    def _write_replicated(self, temporary: pathlib.Path, states: Mapping[str, Any]) -> None:
        for name in ("model", "optimizer"):  # every checkpoint contains these files
            if name not in states:
                self._write_tensors(temporary, name, _tree.Tensors())
        for name, state in states.items():
            tensors = _tree.Tensors()
            self._state["parts"][name] = _tree.encode(state, tensors)
            if tensors.by_name or name in ("model", "optimizer"):
                self._write_tensors(temporary, name, tensors)

    def _write_small(self, temporary: pathlib.Path, random_states: List[bytes]) -> None:
        tensors = _tree.Tensors()
        self._state["values"] = _tree.encode(self._values, tensors)
        if tensors.by_name:
            self._write_tensors(temporary, "values", tensors)
        tensors = _tree.Tensors()
        self._state["rng"] = [_tree.encode(_tree.from_bytes(state), tensors, str(rank)) for rank, state in enumerate(random_states)]
        if tensors.by_name:
            self._write_tensors(temporary, "rng", tensors)

    def _write_tensors(self, temporary: pathlib.Path, name: str, tensors: _tree.Tensors) -> None:
        metadata = {}
        if name == "model":
            metadata = {"epoch": str(self._info.epoch), "format": "pt" if "torch" in sys.modules else "np", "step": str(self._info.step)}
        _folder.write_tensors(temporary, name + _folder.TENSORS, tensors.by_name, metadata, self._written)

    def _write_sharded(self, outcome: "_Outcome", parts: Mapping[str, Any], all_parts: Mapping[str, Any]) -> None:
        """Every rank writes its shards; rank 0 collects the list of files."""
        from dlflow.torch import sharded
        place = self._place(outcome)
        if place is None:
            return
        own = sharded.save(place, parts, all_parts)
        for told in self._ranks.gather(_tree.to_bytes(own), "dlflow.checkpoint()"):
            self._written.update({name: (size, digest) for name, (size, digest) in _tree.from_bytes(told).items()})
        self._state[_SHARDED] = sorted(parts)

    def _write_of_each(self, outcome: "_Outcome", states: Mapping[str, Any]) -> Optional[str]:
        """Every rank writes its own state; rank 0 collects the files, and returns the reason if a rank failed."""
        place = self._place(outcome)
        if place is None:
            return None
        own = json.dumps(_per_rank.save(place, self._ranks.rank, states)).encode()
        told = [json.loads(text) for text in self._ranks.gather(own, "dlflow.checkpoint()")]
        for one in told:
            if "failure" in one:
                return str(one["failure"])
            self._written.update({name: (size, digest) for name, (size, digest) in one["files"].items()})
        self._state[_PER_RANK] = {name: [one["trees"][name] for one in told] for name in states}
        return None

    def _place(self, outcome: "_Outcome") -> Optional[pathlib.Path]:
        """The folder in which all ranks write; None if the checkpoint already exists."""
        name = self._ranks.share(str(outcome.temporary or "").encode() if self._is_first else None, "dlflow.checkpoint()").decode()
        return pathlib.Path(name) if name else None


class _Outcome:
    """The result of rank 0's work: a failure there fails all ranks and removes the temporary folder."""

    def __init__(self, ranks: _ranks.Alone):
        self._ranks = ranks
        self.temporary: Optional[pathlib.Path] = None

    def __enter__(self) -> "_Outcome":
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if error is not None and self.temporary is not None:
            _folder.abandon(self.temporary)
        failure = "" if error is None else f"the checkpoint was not saved: {error}"
        told = self._ranks.outcome(failure if self._ranks.rank == 0 else None, "dlflow.checkpoint()")
        if told and error is None:
            raise RuntimeError(told)


def _sharded(states: Mapping[str, Any]) -> List[str]:
    """The parts that PyTorch has sharded over the ranks."""
    if _environment.torch_distributed() is None:
        return []
    return [name for name, state in states.items() if _holds_shards(state)]


def _holds_shards(state: Any) -> bool:
    if isinstance(state, Mapping):
        return any(_holds_shards(value) for value in state.values())
    if isinstance(state, (list, tuple)):
        return any(_holds_shards(value) for value in state)
    return type(state).__name__ in ("DTensor", "ShardedTensor")


def _tensors_if(path: pathlib.Path, name: str) -> Mapping[str, Any]:
    return _folder.read_tensors(path, name + _folder.TENSORS) if (path / (name + _folder.TENSORS)).exists() else {}


def _load_part(path: pathlib.Path, name: str, state: Any, merge: Optional[_per_rank.Merge] = None) -> Any:
    of_each = state.get(_PER_RANK, {})
    if name in of_each:
        ranks = _ranks.met()
        place = (ranks.rank, ranks.size) if ranks else (_environment.rank(), _environment.ranks())
        return _per_rank.load(path, name, of_each[name], place, merge)
    if name not in state["parts"]:
        raise KeyError(f"{path} has no {name!r}; it has {', '.join([*state['parts'], *state[_SHARDED], *of_each])}: leave it out, or train "
                       f"into another folder")
    return _tree.decode(state["parts"][name], _tensors_if(path, name))


def _restore(path: pathlib.Path, name: str, part: Any, state: Any, parts: Mapping[str, Any]) -> None:
    if name in state[_SHARDED]:
        from dlflow.torch import sharded
        return sharded.load(path, name, part, parts)
    if name in state.get(_PER_RANK, {}) and hasattr(part, "load_shards"):
        return _per_rank.load_shards(path, name, len(state[_PER_RANK][name]), part)
    loaded = _load_part(path, name, state, getattr(part, "merge_ranks", None))
    part = _unwrapped(part)
    load = getattr(part, "load_state_dict", None)
    if callable(load):
        load(loaded)
    elif isinstance(part, dict):
        part.clear()
        part.update(loaded)
    else:
        raise TypeError(f"{name} is a {type(part).__name__}, which has no load_state_dict(): take resume().part({name!r})")


def _restore_random(path: pathlib.Path, state: Any) -> None:
    if not state["rng"]:
        return
    states = _tree.decode(state["rng"], _tensors_if(path, "rng"))
    ranks = _environment.ranks()
    if not _random.restore_on(states, _environment.rank(), ranks):
        held = "of 1 rank" if len(states) == 1 else f"of {len(states)} ranks"
        _environment.say(f"{path} has the random numbers {held}, and there are {ranks} now: they start afresh")
