"""What a client is told when a request cannot be answered."""

from __future__ import annotations

from hedgerow.errors import HedgerowError


class RequestError(HedgerowError):
    """A request that cannot be answered.

    Parameters
    ----------
    status : int
        Of HTTP.
    message : str
        What was given, and what is allowed.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
