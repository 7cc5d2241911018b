"""Errors under the names that Horovod scripts use."""


class HorovodInternalError(RuntimeError):
    """A collective failed: a rank died or left (`session_ended`), or the ranks' requests differ."""

    def __init__(self, message: str = "", session_ended: bool = False):
        super().__init__(message)
        self.session_ended = session_ended
