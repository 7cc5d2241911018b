"""Errors that scripts for Horovod know by these names."""


class HorovodInternalError(RuntimeError):
    """A collective failed: a rank died or left (`session_ended`), or ranks disagree."""

    def __init__(self, message: str = "", session_ended: bool = False):
        super().__init__(message)
        self.session_ended = session_ended
