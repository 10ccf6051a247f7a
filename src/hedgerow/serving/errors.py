"""Errors that clients receive."""

from __future__ import annotations

from hedgerow.errors import HedgerowError


class RequestError(HedgerowError):
    """A request that cannot be answered.

    Parameters
    ----------
    status : int
        HTTP status.
    message : str
        Text that says what the client sent, and what is allowed.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
