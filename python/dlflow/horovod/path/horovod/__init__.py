"""Found as `horovod` on PYTHONPATH: becomes dlflow.horovod, and each horovod.X becomes dlflow.horovod.X."""

import importlib
import importlib.abc
import importlib.machinery
import pathlib
import sys
import types
from typing import Any, Optional, Sequence

_REAL = "dlflow.horovod"
_NOT_COVERED = ("mxnet", "spark", "ray", "runner", "data")


class _Loader(importlib.abc.Loader):
    """Returns the existing module under its other name."""

    def __init__(self, module: types.ModuleType):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec  # importlib has replaced it by the alias's


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        package, _, rest = name.partition(".")
        if package != "horovod" or not rest:
            return None
        if rest.split(".")[0] in _NOT_COVERED:
            raise ImportError(f"dlflow's Horovod interface has no {name}: it is for PyTorch, TensorFlow and Keras (horovod.torch, "
                              "horovod.tensorflow, horovod.keras), and dlflow itself starts the ranks", name=name)
        if importlib.util.find_spec(f"{_REAL}.{rest}") is None:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(importlib.import_module(f"{_REAL}.{rest}")))


def _import_real() -> types.ModuleType:
    """Imports dlflow from this file's tree: it may not be on PYTHONPATH."""
    if importlib.util.find_spec("dlflow") is None:
        sys.path.append(str(pathlib.Path(__file__).absolute().parents[4]))
    return importlib.import_module(_REAL)


import importlib.util  # noqa: E402

_own = sys.modules[__name__]
_real = _import_real()
sys.meta_path.insert(0, _Finder())
__version__ = _real.__version__
run = _real.run
__path__ = []  # only the finder provides submodules
