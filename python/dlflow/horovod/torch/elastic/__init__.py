"""hvd.elastic: training that goes on from its last commit; how, is said in dlflow.horovod.common.elastic."""

from dlflow.horovod.common.elastic import run
from dlflow.horovod.torch.elastic.sampler import ElasticSampler
from dlflow.horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]
