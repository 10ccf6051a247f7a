"""Marks of test cases."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def every_second(*columns: Iterable[Any]) -> list[Any]:
    """Return all combinations of some values; mark half of them as slow.

    With three or more arguments, every pair of values is in a fast combination.
    """
    return [
        pytest.param(
            *(value for _, value in chosen),
            marks=pytest.mark.slow if sum(number for number, _ in chosen) % 2 else (),
        )
        for chosen in itertools.product(*map(enumerate, columns))
    ]


def crossed(**columns: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Parametrize all combinations of the values of some arguments, given as {id: value}.

    The fast combinations are just enough to contain each value; the others are marked as slow.
    """
    names, longest = list(columns), max(map(len, columns.values()))
    fast = {
        tuple(list(values)[k % len(values)] for values in columns.values()) for k in range(longest)
    }
    cases = [
        pytest.param(
            *(columns[name][key] for name, key in zip(names, keys, strict=True)),
            id="-".join(keys),
            marks=() if keys in fast else pytest.mark.slow,
        )
        for keys in itertools.product(*columns.values())
    ]
    return pytest.mark.parametrize(names, cases)
