"""DistributedGradientTape and DistributedOptimizer: gradients are the mean over all ranks.

All gradients of a step are exchanged together after the backward pass, identified by their places in the list of variables.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Type

import tensorflow as tf

from dlflow.horovod.basics import Average, size
from dlflow.horovod.tensorflow import mpi_ops
from dlflow.horovod.tensorflow.compression import Compression, Compressor


class _Reduction:
    """The settings of gradient reduction."""

    def __init__(self, compression: Type[Compressor], op: int, predivide: float, **refused: Any):
        given = sorted(name for name, value in refused.items() if value)
        if given:
            raise NotImplementedError(f"{', '.join(given)}: not supported here. Leave it out: all gradients of a step are sent together "
                                      "in any case; for several backward passes a step, add up gradients before apply_gradients()")
        if predivide != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        self._compression, self._op = compression, op
        self._scales = (1 / predivide, predivide)

    @tf.autograph.experimental.do_not_convert
    def __call__(self, gradients: Sequence[Any]) -> List[Any]:
        """Skips variables without a gradient."""
        results = list(gradients)
        if size() == 1:
            return results
        places = [place for place, gradient in enumerate(results) if gradient is not None]
        names = [f"gradient.{place}" for place in places]
        reduced = mpi_ops.reduced([results[place] for place in places], names, self._op, self._compression, *self._scales)
        for place, gradient in zip(places, reduced):
            results[place] = gradient
        return results


class DistributedGradientTape(tf.GradientTape):
    """`gradtape`, whose gradient() is reduced over all ranks by `op`. Sparse gradients become dense.

    gradient_predivide_factor: the mean's divisor is split into this factor before the sum, and the rest after it.
    """

    def __init__(self, gradtape: tf.GradientTape, device_dense: str = "", device_sparse: str = "",
                 compression: Type[Compressor] = Compression.none, sparse_as_dense: bool = False, op: int = Average,
                 gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Any = None, process_set: Any = None):
        self.__dict__.update(gradtape.__dict__)
        self._reduction = _Reduction(compression, op, gradient_predivide_factor, num_groups=num_groups, groups=groups,
                                     process_set=process_set)

    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        gradients = super().gradient(target, sources, *args, **kwargs)
        return tf.nest.pack_sequence_as(sources, self._reduction(tf.nest.flatten(gradients)))


class _OfKeras2:
    _reduction: _Reduction

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        gradients, variables = zip(*grads_and_vars)
        return super().apply_gradients(zip(self._reduction(gradients), variables), *args, **kwargs)  # type: ignore[misc]


class _OfKeras3:
    _reduction: _Reduction

    def apply(self, grads: Any, *args: Any, **kwargs: Any) -> Any:
        """Also called by apply_gradients()."""
        return super().apply(self._reduction(grads), *args, **kwargs)  # type: ignore[misc]


def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, device_dense: str = "", device_sparse: str = "",
                         compression: Type[Compressor] = Compression.none, sparse_as_dense: bool = False,
                         gradient_predivide_factor: float = 1.0, op: int = Average, backward_passes_per_step: int = 1,
                         average_aggregated_gradients: bool = False, num_groups: int = 0, groups: Any = None,
                         process_set: Any = None) -> Any:
    """A Keras optimizer like `optimizer` that reduces gradients over all ranks by `op`. Sparse gradients become dense."""
    if not hasattr(optimizer, "get_config") or not hasattr(optimizer, "apply_gradients"):
        raise TypeError(f"hvd.DistributedOptimizer takes an optimizer of Keras (tf.keras.optimizers), not a {type(optimizer).__name__}")
    reduction = _Reduction(compression, op, gradient_predivide_factor, num_groups=num_groups, groups=groups, process_set=process_set,
                           backward_passes_per_step=backward_passes_per_step != 1)
    own = type(optimizer)
    mixin = _OfKeras3 if hasattr(optimizer, "apply") else _OfKeras2
    # Keeps the class's name and module, so that a saved model can be loaded without Horovod.
    made = type(own.__name__, (mixin, own), {"__module__": own.__module__}).from_config(optimizer.get_config())
    object.__setattr__(made, "_reduction", reduction)  # otherwise Keras would track it
    return made
