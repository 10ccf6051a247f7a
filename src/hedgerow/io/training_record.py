"""Validation of the training record of a model.

A record describes how a model was trained, for display: learning curves, parameters, folds.
Files need not be trusted, so every entry that any part of the library reads has a rule in this
module.  Entries without a rule are kept but never read.

Entries on which predictions depend have further rules, which need the forest
(:mod:`hedgerow.io.validate`).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from hedgerow.data.inputs import OPERATIONS
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.model.model import AVERAGED, BLEND
from hedgerow.params import check_each

_Rule: TypeAlias = tuple[Callable[[Any], bool], str]
"""Test of a value, and a description of valid values for error messages."""

_MOST = 2**63 - 1


def is_list(value: object) -> bool:
    """Return whether a value is a list in JSON (a list, tuple or array)."""
    return isinstance(value, list | tuple | np.ndarray)


def is_number(value: object) -> bool:
    """Return whether a value is a number, including infinities and NaN."""
    if type(value) is float:  # most are, and questions about abstract classes take a microsecond
        return True
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def is_finite(value: object) -> bool:
    """Return whether a value is a finite number."""
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, numbers.Integral):  # may have hundreds of digits
        return is_number(value) and -_MOST <= value <= 2 * _MOST  # type: ignore[operator]
    return is_number(value) and math.isfinite(value)  # type: ignore[arg-type]


def is_count(value: object) -> bool:
    """Return whether a value is an integer of at least 0."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and 0 <= value <= _MOST  # type: ignore[operator]


def all_of(values: Any, rule: Callable[[Any], bool]) -> bool:
    """Return whether a value is a list whose items all satisfy a rule."""
    return is_list(values) and all(map(rule, values))


def numbers_in(
    record: Any, name: str, rule: Callable[[Any], bool] = is_finite
) -> list[float] | None:
    """Return the list of numbers under a name in a mapping; None for anything else."""
    found: Any = record.get(name) if isinstance(record, Mapping) else None
    return [float(value) for value in found] if all_of(found, rule) else None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _maps_to(value: Any, rule: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(map(rule, value.values()))


def _is_history(value: Any) -> bool:
    """Check curves by validation set and metric; out-of-bag rows need "improvement"."""
    if not _maps_to(value, lambda curves: _maps_to(curves, lambda of: all_of(of, is_number))):
        return False
    return "improvement" in value.get("out_of_bag", ("improvement",))


def _holds(needed: bool = True, **rules: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return the rule of an object whose entries follow rules, if they are needed or there."""
    return lambda value: (
        isinstance(value, Mapping)
        and all(rule(value.get(name)) for name, rule in rules.items() if needed or name in value)
    )


def _is_finite_or_none(value: Any) -> bool:
    return value is None or is_finite(value)


_is_member = _holds(weight=is_finite, n_estimators=is_count)
_is_tried = _holds(rounds=is_count, score=_is_finite_or_none, weight=_is_finite_or_none)
_is_folds = _holds(
    needed=False,
    early_stopping=_is_text,
    patience=is_count,
    rounds_factor=is_finite,
    stride=lambda found: is_finite(found) and 0.0 < found < _MOST,
    folds=lambda found: all_of(found, is_count) and len(found) == 2,
    tried=lambda found: all_of(found, _is_tried),
)
_COUNT: _Rule = is_count, "a nonnegative integer"
_TEXT: _Rule = _is_text, "text"

_RULES: dict[str, _Rule] = {
    "n_rows": _COUNT,
    "copies": _COUNT,
    "init_rounds": _COUNT,
    AVERAGED: _COUNT,
    "watched": _TEXT,
    "attributes": (lambda value: _maps_to(value, _is_text), "an object of texts"),
    "validation_sets": (lambda value: all_of(value, _is_text), "a list of texts"),
    "stopped_by": _TEXT,
    "best_round": (
        lambda value: value is None or is_count(value),
        "a nonnegative integer, or null",
    ),
    "history": (_is_history, "an object of objects of lists of numbers"),
    "init_scores": (
        lambda value: _maps_to(value, lambda scores: _maps_to(scores, is_number)),
        "an object of objects of numbers",
    ),
    "out_of_bag": (lambda value: _maps_to(value, is_number), "an object of numbers"),
    "folds": (_is_folds, "an object with results of folds"),
    BLEND: (
        lambda value: all_of(value, _is_member) and len(value) > 0,
        "a list of objects with weight and n_estimators",
    ),
    "refit": (_holds(n_rows=is_count, decay=is_finite), "an object with n_rows and decay"),
}


def check_training_record(training: Any, n_features: int) -> None:
    """Raise ``ModelFormatError`` if a known entry is invalid."""
    if not isinstance(training, Mapping):
        raise ModelFormatError("training is not a JSON object.")
    for name, (rule, words) in _RULES.items():
        if name in training and not rule(training[name]):
            raise ModelFormatError(f"training: {name} must be {words}.")
    parameters = training.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise ModelFormatError("training: parameters must be an object.")
    try:
        check_each(parameters)
    except ParameterError as error:
        raise ModelFormatError(f"training: {error}") from None
    for name, fits in _BY_COLUMN.items():
        value = parameters.get(name)
        if value is not None and not fits(value, n_features):
            raise ModelFormatError(f"training: {name} does not fit the {n_features} columns.")


def _one_each(value: Any, n_features: int, rule: Callable[[Any], bool]) -> bool:
    return all_of(value, rule) and len(value) == n_features


_BY_COLUMN: dict[str, Callable[[Any, int], bool]] = {
    "monotone_constraints": lambda value, n: _one_each(
        value, n, lambda sign: isinstance(sign, numbers.Integral) and sign in (-1, 0, 1)
    ),
    "feature_penalties": lambda value, n: _one_each(value, n, is_finite),
    "feature_weights": lambda value, n: _one_each(value, n, is_finite),
    "max_bins_by_feature": lambda value, n: _one_each(value, n, is_count),
    "interaction_constraints": lambda value, n: (
        isinstance(value, str)
        or all_of(value, lambda group: all_of(group, lambda item: is_count(item) and item < n))
    ),
    "feature_crosses": lambda value, n: all_of(
        value, lambda each: all_of(each, _is_text) and len(each) == 3 and each[-1] in OPERATIONS
    ),
}
"""Parameters that refer to columns, in their resolved form."""
