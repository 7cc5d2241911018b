"""hvd.elastic: training that continues from its last commit; see dlflow.horovod.common.elastic."""

from dlflow.horovod.common.elastic import run
from dlflow.horovod.torch.elastic.sampler import ElasticSampler
from dlflow.horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]
