"""Marks of test cases."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], n_fast: int = 1) -> list[Any]:
    """Return cases of a parametrized test; all but the first ``n_fast`` run with ``-m slow``."""
    return [
        case if k < n_fast else pytest.param(case, marks=pytest.mark.slow)
        for k, case in enumerate(cases)
    ]


def half_slow(cases: Iterable[Any]) -> list[Any]:
    """Return cases of a parametrized test; every second one runs with ``-m slow``.

    A tuple is one case of several arguments.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.slow if k % 2 else (),
        )
        for k, case in enumerate(cases)
    ]


def every_second(*columns: Iterable[Any]) -> list[Any]:
    """Return half of all combinations of some values; the others run with ``-m slow``.

    Every pair of values is in a fast one where there are three columns or more.
    """
    return [
        pytest.param(
            *(value for _, value in chosen),
            marks=pytest.mark.slow if sum(number for number, _ in chosen) % 2 else (),
        )
        for chosen in itertools.product(*map(enumerate, columns))
    ]


def crossed(**columns: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Return all combinations of the values of some arguments, each given as {id: value}.

    As many of them are fast as it takes for each value to be in one; the others run with
    ``-m slow``.
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
