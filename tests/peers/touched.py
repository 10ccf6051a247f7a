"""Whether a test has asked Hedgerow for anything: one that has not says nothing about it."""

from __future__ import annotations

_tests: list[bool] = []


def touch() -> None:
    """Adapters call it where they hand something on."""
    _tests.append(True)


def taken() -> bool:
    """Return whether an adapter was used since the last call."""
    used = bool(_tests)
    _tests.clear()
    return used
