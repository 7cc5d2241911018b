"""Errors that scripts for Horovod know by these names."""


class HorovodInternalError(RuntimeError):
    """A collective failed: a rank died or left, or ranks disagree. `dlflow.horovod.torch.elastic.run` goes on after it."""


class HostsUpdatedInterrupt(RuntimeError):
    """Never raised: the ranks of a pass stay the same. It is here for scripts that catch it."""

    def __init__(self, skip_sync: bool = False):
        super().__init__()
        self.skip_sync = skip_sync
