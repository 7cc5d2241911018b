"""Callbacks of fit(): the same state on all ranks, metrics of all ranks, and learning rates adapted to the number of ranks."""

from __future__ import annotations

from typing import Any, Callable, Dict, NoReturn, Optional, Union

import numpy as np
import tensorflow as tf

from dlflow.horovod.basics import refuse, size
from dlflow.horovod.tensorflow import mpi_ops
from dlflow.horovod.tensorflow.compression import Compression

Logs = Optional[Dict[str, Any]]


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives all ranks the model and the optimizer of `root_rank` after the first batch, when the optimizer's state exists."""

    def __init__(self, root_rank: int, device: str = ""):
        super().__init__()
        self._root, self._is_done = root_rank, False

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self._is_done:
            return
        of_optimizer = self.model.optimizer.variables
        mpi_ops.broadcast_variables([*self.model.variables, *(of_optimizer() if callable(of_optimizer) else of_optimizer)], self._root)
        self._is_done = True


class MetricAverageCallback(tf.keras.callbacks.Callback):
    """Replaces the metrics of an epoch by their means over all ranks, for the callbacks after it."""

    def __init__(self, device: str = ""):
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        names = sorted(logs or {})
        if logs is None or not names:
            return
        own = [tf.constant(float(logs[name]), tf.float64) for name in names]
        means = mpi_ops.reduced(own, [f"metric.{name}" for name in names], None, Compression.none)
        logs.update({name: float(mean) for name, mean in zip(names, means)})


class LearningRateScheduleCallback(tf.keras.callbacks.Callback):
    """Sets the learning rate to `initial_lr` times `multiplier`, a number or a function of the epoch, from epoch `start_epoch` until
    `end_epoch` (exclusive): at the beginning of each epoch, or, if not `staircase`, of each batch, with fractional epochs.

    momentum_correction: scales momenta, which contain the rates of past updates, with the rate. (Goyal et al., Accurate, Large Minibatch
    SGD, 2017, section 2.)
    """

    def __init__(self, initial_lr: float, multiplier: Union[float, Callable[[float], float]], start_epoch: int = 0,
                 end_epoch: Optional[int] = None, staircase: bool = True, momentum_correction: bool = True,
                 steps_per_epoch: Optional[int] = None):
        super().__init__()
        self._initial, self._first, self._end = initial_lr, start_epoch, end_epoch
        self._multiplier: Callable[[float], float] = multiplier if callable(multiplier) else lambda _: multiplier  # type: ignore[return-value]
        self._staircase, self._corrects, self._steps, self._epoch = staircase, momentum_correction, steps_per_epoch, 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self._steps = self._steps or self.params.get("steps")
        if not self._staircase and not self._steps:
            raise ValueError(f"{type(self).__name__} needs `steps_per_epoch`: Keras gives no number of batches per epoch")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        is_in = self._first <= self._epoch and (self._end is None or self._epoch < self._end)
        if is_in and (batch == 0 or not self._staircase):
            self._set_rate(self._initial * self._multiplier(self._epoch + (0 if self._staircase else batch / self._steps)))  # type: ignore[operator]

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["lr"] = self._rate()

    def _rate(self) -> float:
        return float(np.asarray(self.model.optimizer.learning_rate))

    def _set_rate(self, rate: float) -> None:
        optimizer, before = self.model.optimizer, self._rate()
        optimizer.learning_rate = rate
        if not self._corrects or rate == before or before == 0 or not getattr(optimizer, "momentum", 0):
            return
        if hasattr(optimizer, "get_slot"):
            raise NotImplementedError(f"momentum_correction is for Keras's present optimizers, not for a legacy {type(optimizer).__name__}: "
                                      "give momentum_correction=False")
        for one in getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or []:  # missing before the first batch
            one.assign(one * (rate / before))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from `initial_lr` divided by the number of ranks to `initial_lr`, batch by batch during the first epochs."""

    def __init__(self, initial_lr: float, warmup_epochs: int = 5, momentum_correction: bool = True, steps_per_epoch: Optional[int] = None,
                 verbose: int = 0):
        super().__init__(initial_lr, self._part, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self._verbose = verbose

    def _part(self, epoch: float) -> float:
        """The multiplier, which rises linearly to 1 at the end of the last warm-up epoch."""
        done = (epoch + 1 / self._steps) / self._end  # type: ignore[operator]
        return (1 + done * (size() - 1)) / size()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self._verbose and epoch + 1 == self._end:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self._rate():g}.")


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, name, {"BestModelCheckpoint": "tf.keras.callbacks.ModelCheckpoint(save_best_only=True) on rank 0",
                            r"(CommitState|UpdateBatchState|UpdateEpochState)Callback": "tf.keras.callbacks.BackupAndRestore"})
