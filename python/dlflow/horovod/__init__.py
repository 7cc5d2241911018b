"""Horovod's interface on dlflow's runtime, for scripts written for Horovod.

With the folder `path` of this package on PYTHONPATH, `import horovod.torch as hvd` loads dlflow.horovod.torch. It needs no MPI and no
compilation. docs/user/porting-from-horovod.md lists what is covered.
"""

from typing import Any, NoReturn

__version__ = "0.28.1"  # version of the interface


def run(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: the engine starts the ranks."""
    raise NotImplementedError("dlflow starts the ranks, not horovod.run(): make the script a step with `resources: {ranks: N}` and leave "
                              "out num_proc")
