"""Training that continues after a rank was lost, based on the engine's passes.

Horovod replaces lost processes while the others wait. Here all ranks of the pass end with the status that makes the engine run the step
again, and the next pass continues from the last commit, possibly with another number of ranks. So commit() writes a file into the folder
that a step with `checkpoint: {}` has. The same file serves a step that reaches its walltime: the engine warns by SIGUSR1, and the next
commit() is the last one of the pass.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import signal
import sys
from typing import Any, Callable, Dict, List, NoReturn, Optional

from dlflow import _folder
from dlflow.horovod.common.exceptions import HorovodInternalError

RUN_ME_AGAIN = 75  # EX_TEMPFAIL


def _checkpoints() -> Optional[pathlib.Path]:
    folder = os.environ.get("DLFLOW_CHECKPOINTS")
    return pathlib.Path(folder) if folder else None


class _Warning:
    """Whether the engine has asked this rank to save and to end."""

    came = False

    @classmethod
    def listen(cls) -> None:
        """Only if a commit can be saved: otherwise the signal still ends the program."""
        if _checkpoints():
            signal.signal(signal.SIGUSR1, lambda *_: setattr(cls, "came", True))


class ObjectState:
    """The shared state of a training's ranks: Python objects, each stored as an attribute under its keyword.

    `bcast_object` returns rank 0's object on all ranks, `get_rank` the rank of this process.
    """

    _numbers = itertools.count()

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int], **kwargs: Any):
        self._saved_state: Dict[str, Any] = kwargs
        self._set_attributes()
        self._bcast_object, self._rank = bcast_object, get_rank
        self._reset_callbacks: List[Callable[[], None]] = []
        self._number = next(ObjectState._numbers)

    def _set_attributes(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Functions to be called before sync() in a pass that continues from a commit: the number of ranks may have changed."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Collective. If a rank is lost, the training continues from here. If the engine has requested it, the pass ends here."""
        self.save()
        self._write()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Collective. Ends the pass on all ranks if the engine has requested it."""
        if _checkpoints() and self._bcast_object(_Warning.came):  # every rank calls it; rank 0 decides
            print("dlflow.horovod: saved before the walltime; the next pass continues from here", file=sys.stderr, flush=True)
            sys.exit(RUN_ME_AGAIN)

    def _file(self) -> Optional[pathlib.Path]:
        folder = _checkpoints()
        return folder / f"horovod-state-{self._number}" if folder else None

    def _write(self) -> None:
        file = self._file()
        if file is None or self._rank() != 0:
            return
        file.parent.mkdir(parents=True, exist_ok=True)  # missing in a step without `checkpoint:`
        _folder.replace(file, lambda stream: self._dump(self._committed(), stream))

    def _read(self) -> bool:
        """Whether a commit of an earlier pass exists; rank 0 then has loaded it."""
        file = self._file()
        found = file is not None and self._rank() == 0 and file.exists()
        if found:
            with open(str(file), "rb") as stream:
                self._take(self._parse(stream))
        return bool(self._bcast_object(found))

    def save(self) -> None:
        """Keeps a copy of the current state."""
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        """Returns to the last saved state."""
        self._set_attributes()

    def sync(self) -> None:
        """Gives all ranks the state of rank 0. Collective."""
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attributes()

    def _committed(self) -> Any:
        """The state of the last save()."""
        return self._saved_state

    def _take(self, committed: Any) -> None:
        self._saved_state = committed
        self._set_attributes()

    def _dump(self, committed: Any, stream: Any) -> None:
        import pickle
        pickle.dump(committed, stream)

    def _parse(self, stream: Any) -> Any:
        import pickle
        return pickle.load(stream)


def _end_pass(error: HorovodInternalError) -> NoReturn:
    """Requests another pass only after a lost rank; a disagreement would just repeat."""
    if not error.session_ended or not _checkpoints():
        raise error
    print(f"dlflow.horovod: {error}. This pass ends; the next one continues from the last commit", file=sys.stderr, flush=True)
    sys.exit(RUN_ME_AGAIN)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function whose first argument is a state, which starts from the last commit of an earlier pass."""
    @functools.wraps(func)
    def wrapper(state: ObjectState, *args: Any, **kwargs: Any) -> Any:
        _Warning.listen()
        try:
            if state._read():
                state.on_reset()
            state.sync()
            return func(state, *args, **kwargs)
        except HorovodInternalError as error:
            _end_pass(error)
    return wrapper
