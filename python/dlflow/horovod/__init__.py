"""Horovod's interface on dlflow's runtime, for scripts that know nothing of dlflow.

With the folder `path` of this package on PYTHONPATH, `import horovod.torch as hvd` gives dlflow.horovod.torch. No MPI, nothing to
compile. docs/user/porting-from-horovod.md says what is covered.
"""

from typing import Any, NoReturn

__version__ = "0.28.1"  # of the interface


def run(*args: Any, **kwargs: Any) -> NoReturn:
    """Starting ranks is for the engine."""
    raise NotImplementedError("dlflow starts the ranks, not horovod.run(): make the script a step with `resources: {ranks: N}` and leave "
                              "out num_proc")
