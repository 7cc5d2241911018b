"""Errors that scripts for Horovod know by these names."""


class HorovodInternalError(RuntimeError):
    """A collective failed: a rank died or left (`session_ended`), or ranks disagree."""

    def __init__(self, message: str = "", session_ended: bool = False):
        super().__init__(message)
        self.session_ended = session_ended


class HostsUpdatedInterrupt(RuntimeError):
    """Never raised: the ranks of a pass stay the same. It is here for scripts that catch it."""

    def __init__(self, skip_sync: bool = False):
        super().__init__()
        self.skip_sync = skip_sync
