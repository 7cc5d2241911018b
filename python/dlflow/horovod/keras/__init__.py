"""`import horovod.keras as hvd`: the same as horovod.tensorflow.keras."""

from dlflow.horovod.tensorflow.keras import *  # noqa: F401, F403
from dlflow.horovod.tensorflow.keras import __getattr__, callbacks  # noqa: F401
