"""Check names in options: functions for the argument ``type`` of ``add_argument``."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Collection


def name_in(known: Collection[str]) -> Callable[[str], str]:
    """Return a function that accepts one of these names."""

    def check(name: str) -> str:
        if name not in known:
            raise ArgumentTypeError(f"unknown: {name!r}; known: {', '.join(known)}")
        return name

    return check


def names_in(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return a function that accepts several of these names, separated by commas."""
    check = name_in(known)
    return lambda names: [check(name) for name in names.split(",")]
