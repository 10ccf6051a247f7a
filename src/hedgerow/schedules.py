"""Learning rate schedules.

``learning_rate`` of an estimator is a number, a sequence of ``n_estimators`` numbers,
or a callable of the number of previous rounds, which is 0 for the first round.  A callable must
return the same number on every call for the same round: it is called more than once, also when a
fit resumes.

Glossary
--------
rate      factor on the values of the trees of a round
schedule  function that returns the rate of each round
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hedgerow.argument_types import Interval, is_function
from hedgerow.errors import ParameterError, brief

LearningRate: TypeAlias = "float | Sequence[float] | Callable[[int], float]"

_POSITIVE = Interval(0.0, math.inf, low_open=True, high_open=True)
_LONGEST = 12
"""Largest number of rates that a message or a fingerprint shows in full."""


def is_number(rate: object) -> bool:
    """Return whether a learning rate is one number for all rounds."""
    if type(rate) is float:  # asked in every round; the other questions take longer
        return True
    if isinstance(rate, np.ndarray):
        return rate.ndim == 0
    return not callable(rate) and not isinstance(rate, Sequence)


def is_schedule(rate: object) -> bool:
    """Return whether a learning rate is a function of the round, or has a number for each."""
    return is_function(rate) or not (is_number(rate) or isinstance(rate, str | bytes | type))


def read_rate(rate: Any, n_estimators: int) -> Any:
    """Return a learning rate as parameters store it: a sequence becomes a tuple of floats."""
    if not is_schedule(rate) or is_function(rate):
        return rate
    rates = rate.tolist() if isinstance(rate, np.ndarray) else list(rate)
    if len(rates) != n_estimators:
        raise ParameterError(
            f"learning_rate has {len(rates)} numbers, but there are n_estimators={n_estimators} "
            "rounds: give one number for each."
        )
    return tuple(_checked(value, number) for number, value in enumerate(rates))


def rate_at(rate: Any, rounds_before: int, n_first: int = 0) -> float:
    """Return the rate of the round after ``rounds_before`` others."""
    if callable(rate):
        return _checked(rate(rounds_before), rounds_before)
    return float(rate[rounds_before - n_first] if isinstance(rate, tuple) else rate)


def _checked(value: Any, rounds_before: int) -> float:
    if value not in _POSITIVE:
        raise ParameterError(
            f"learning_rate of round {rounds_before + 1} must be a finite number above 0; got "
            f"{brief(value)}."
        )
    return float(value)


def rate_record(rate: Any, n_rounds: int, n_first: int = 0) -> Any:
    """Return the record of a rate: the number, or the rates of the rounds after ``n_first``."""
    if is_number(rate):
        return rate
    return [rate_at(rate, number, n_first) for number in range(n_first, n_rounds)]


def rate_text(rate: Any, n_estimators: int) -> str:
    """Return text that identifies a learning rate, for fits that resume."""
    if is_number(rate):
        return repr(getattr(rate, "item", lambda: rate)())
    rates = np.array(rate_record(rate, n_estimators), dtype="<f8")
    if len(rates) <= _LONGEST:
        return repr(rates.tolist())
    digest = hashlib.blake2b(rates.tobytes(), digest_size=8).hexdigest()
    return f"{len(rates)} rates from {rates[0]:g} to {rates[-1]:g} ({digest})"
