"""Learning rate schedules.

``learning_rate`` of an estimator is a number, a sequence of ``n_estimators`` numbers,
or a callable of the number of previous rounds, which is 0 for the first round.  A callable must
return the same number on every call for the same round: it is called more than once, also when a
fit resumes.

Glossary
--------
rate      factor on the values of the trees of a round
schedule  function that returns the rate of each round; a model file of an estimator can
          hold the schedules of this module, as well as numbers and sequences
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, TypeAlias, cast

import numpy as np

from hedgerow.argument_types import Interval, is_function
from hedgerow.errors import ParameterError, brief

LearningRate: TypeAlias = "float | Sequence[float] | Callable[[int], float]"

_POSITIVE = Interval(0.0, math.inf, low_open=True, high_open=True)
_FACTOR = Interval(0.0, 1.0, low_open=True)
_LONGEST = 12
"""Largest number of rates that a message or a fingerprint shows in full."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The same rate in every round.

    Parameters
    ----------
    rate : float > 0
        Factor on leaf values.

    Examples
    --------
    >>> Constant(0.1)(0), Constant(0.1)(99)
    (0.1, 0.1)
    """

    rate: float

    def __post_init__(self) -> None:
        _check(self, rate=_POSITIVE)

    def __call__(self, rounds_before: int) -> float:
        """Return the rate after ``rounds_before`` rounds."""
        return self.rate


@dataclass(frozen=True, slots=True)
class ExponentialDecay:
    """``start * factor ** rounds_before``, but at least ``lowest``.

    Parameters
    ----------
    start : float > 0
        Rate of the first round.
    factor : float in (0, 1]
        Ratio of the rates of successive rounds.
    lowest : float > 0, default=1e-4
        With lower rates trees have no noticeable effect, but the same cost.

    Examples
    --------
    >>> rate = ExponentialDecay(0.4, factor=0.5)
    >>> [rate(number) for number in range(4)]
    [0.4, 0.2, 0.1, 0.05]
    """

    start: float
    factor: float
    lowest: float = 1e-4

    def __post_init__(self) -> None:
        _check(self, start=_POSITIVE, factor=_FACTOR, lowest=_POSITIVE)

    def __call__(self, rounds_before: int) -> float:
        """Return the rate after ``rounds_before`` rounds."""
        return float(max(self.lowest, self.start * self.factor**rounds_before))


@dataclass(frozen=True, slots=True)
class CosineDecay:
    """From ``start`` to ``end`` along half a period of the cosine, then ``end``.

    The rate stays near ``start`` for a while, falls, and approaches ``end`` slowly
    (Loshchilov and Hutter 2017, without restarts).

    Parameters
    ----------
    start, end : float > 0
        Rates of the first round and from round ``n_rounds`` on.
    n_rounds : int >= 2
        Number of rounds from ``start`` to ``end``, both included; usually ``n_estimators``.

    Examples
    --------
    >>> rate = CosineDecay(0.3, 0.1, n_rounds=5)
    >>> [round(rate(number), 3) for number in range(6)]
    [0.3, 0.271, 0.2, 0.129, 0.1, 0.1]
    """

    start: float
    end: float
    n_rounds: int

    def __post_init__(self) -> None:
        two = Interval(2, math.inf, integer=True)  # the first round and the last
        _check(self, start=_POSITIVE, end=_POSITIVE, n_rounds=two)

    def __call__(self, rounds_before: int) -> float:
        """Return the rate after ``rounds_before`` rounds."""
        if rounds_before >= self.n_rounds - 1:
            return self.end
        share = 0.5 + 0.5 * math.cos(math.pi * rounds_before / (self.n_rounds - 1))
        return self.end + (self.start - self.end) * share


@dataclass(frozen=True, slots=True)
class StepDecay:
    """The rate is multiplied by ``factor`` every ``every`` rounds, but is at least ``lowest``.

    Parameters
    ----------
    start : float > 0
        Rate of the first rounds.
    factor : float in (0, 1]
        Each rate as a fraction of the one before.
    every : int >= 1
        Number of rounds with the same rate.
    lowest : float > 0, default=1e-4
        Rate below which it does not fall.

    Examples
    --------
    >>> rate = StepDecay(0.4, factor=0.5, every=2)
    >>> [rate(number) for number in range(5)]
    [0.4, 0.4, 0.2, 0.2, 0.1]
    """

    start: float
    factor: float
    every: int
    lowest: float = 1e-4

    def __post_init__(self) -> None:
        count = Interval(1, math.inf, integer=True)
        _check(self, start=_POSITIVE, factor=_FACTOR, every=count, lowest=_POSITIVE)

    def __call__(self, rounds_before: int) -> float:
        """Return the rate after ``rounds_before`` rounds."""
        return float(max(self.lowest, self.start * self.factor ** (rounds_before // self.every)))


Schedule: TypeAlias = "Constant | ExponentialDecay | CosineDecay | StepDecay"
SCHEDULES: dict[str, type[Schedule]] = {
    kind.__name__: kind for kind in (Constant, ExponentialDecay, CosineDecay, StepDecay)
}


def _check(schedule: Any, **allowed: Interval) -> None:
    """Raise ``ParameterError`` if a parameter of a schedule is out of range."""
    for name, interval in allowed.items():
        value = getattr(schedule, name)
        if value not in interval:
            raise ParameterError(
                f"{name} of a {type(schedule).__name__} must be {interval}; got {brief(value)}."
            )


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
    """Return a learning rate as parameters store it: a sequence becomes a tuple of floats.

    Checks that do not need the rounds are made here.

    Raise ``ParameterError`` if the length of a sequence differs from the number of rounds,
    or a rate is not a finite number above 0.
    """
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
    """Return the rate of the round after ``rounds_before`` others.

    Raise ``ParameterError`` if a callable returns anything but a finite number above 0; the
    message names the round.
    """
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
    """Return text that identifies a learning rate, for fits that resume.

    A schedule of this module has the same text for any number of rounds; a
    sequence, or a callable of unknown code, is identified by the rates of all rounds.
    """
    if is_number(rate) or isinstance(rate, tuple(SCHEDULES.values())):
        return repr(getattr(rate, "item", lambda: rate)())
    rates = np.array(rate_record(rate, n_estimators), dtype="<f8")
    if len(rates) <= _LONGEST:
        return repr(rates.tolist())
    digest = hashlib.blake2b(rates.tobytes(), digest_size=8).hexdigest()
    return f"{len(rates)} rates from {rates[0]:g} to {rates[-1]:g} ({digest})"


def schedule_record(schedule: Schedule) -> list[Any]:
    """Return a schedule as JSON: its name, then its parameters in order."""
    plain = (getattr(value, "item", lambda value=value: value)() for value in astuple(schedule))
    return [type(schedule).__name__, *plain]


def schedule_of_record(record: Any) -> Schedule:
    """Return the schedule of a record from :func:`schedule_record`.

    Raise ``ValueError`` if the record is not that of a schedule.
    """
    if not isinstance(record, list) or not record or record[0] not in SCHEDULES:
        raise ValueError("no schedule of a learning rate")
    kind = SCHEDULES[cast(str, record[0])]
    if len(record) - 1 != len(fields(kind)):
        raise ValueError(f"{record[0]} has {len(fields(kind))} parameters")
    return kind(*record[1:])


__all__ = [
    "Constant",
    "CosineDecay",
    "ExponentialDecay",
    "LearningRate",
    "StepDecay",
]
