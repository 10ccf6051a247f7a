"""Marks of test cases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], n_fast: int = 1) -> list[Any]:
    """Cases of a parametrized test; all but the first ``n_fast`` run with ``-m slow``."""
    return [
        case if k < n_fast else pytest.param(case, marks=pytest.mark.slow)
        for k, case in enumerate(cases)
    ]
