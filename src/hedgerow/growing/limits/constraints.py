"""Options of single columns by name, read once with the schema of the table.

Glossary
--------
monotone constraint     1: the raw score never falls as the column grows; -1: it never rises
interaction constraint  sets of columns; those that split one branch of a tree, from
                        the root to a leaf, must all lie in one of them
feature penalty         factor on the gain of every split of a column
feature weight          how readily a column is drawn where columns are sampled
cross                   product, difference or ratio of two columns, that trees may split

:func:`resolve_constraints` turns what users write (names, positions, mappings,
sequences, words) into plain tuples in the order of the columns.  The resolved
form means the same as what was given, so resolving it again changes nothing;
the model file records it.  What asks for nothing (all 0, all 1) becomes None,
so that the fit takes the default path.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from hedgerow.argument_types import listed
from hedgerow.data.binning.bins import MOST_BINS
from hedgerow.data.inputs import OPERATIONS
from hedgerow.data.schema import Schema, position_of
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.objectives.base import Objective
from hedgerow.params import BoostParams, read_direction

FEWEST_BINS = 2
_OF_CLASSES = ("softmax", "one_vs_all")
"""Losses of which a prediction depends on the scores of several classes."""
NO_INTERACTIONS, PAIRWISE = "no_interactions", "pairwise"

_Value = TypeVar("_Value")


def resolve_constraints(params: BoostParams, schema: Schema, objective: Objective) -> BoostParams:
    """Replace names by positions in everything that is asked of single columns."""
    found = {
        "monotone_constraints": _monotone(params.monotone_constraints, schema, objective),
        "interaction_constraints": _interactions(params.interaction_constraints, schema),
        "feature_penalties": _penalties(params.feature_penalties, schema),
        "feature_weights": _weights(params.feature_weights, schema),
        "max_bins_by_feature": _max_bins(params, schema),
        "feature_crosses": _crosses(params, schema),
    }
    if all(value is None and getattr(params, name) is None for name, value in found.items()):
        return params
    return replace(params, **found)


def read_signs(given: Any, schema: Schema, name: str) -> tuple[int, ...] | None:
    """Return 1 and -1 for columns that predictions rise and fall with; None if there are none."""
    signs = _by_column(given, name, schema, 0, read_direction)
    return signs if signs is not None and any(signs) else None


def _is_sequence(value: object) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)


def _by_column(
    given: Any, name: str, schema: Schema, default: _Value, read: Callable[[Any, str], _Value]
) -> tuple[_Value, ...] | None:
    """Return one value for each column from a mapping or a sequence; None stays None."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        values, taken = [default] * schema.n_features, set()
        for key, value in given.items():
            at = position_of(key, schema.names, name)
            if at in taken:
                raise ParameterError(f"{name} names column {schema.names[at]!r} twice.")
            taken.add(at)
            values[at] = read(value, f"{name} of column {schema.names[at]!r}")
        return tuple(values)
    if not _is_sequence(given):
        raise ParameterError(
            f"{name} must be a dict of column to value, or a sequence with a value for each of "
            f"the {schema.n_features} columns; got {brief(given)}."
        )
    if len(given) != schema.n_features:
        raise ParameterError(
            f"{name} has {len(given)} values for {schema.n_features} columns: give one for each, "
            "or a dict of those that differ."
        )
    return tuple(
        read(value, f"{name} of column {column!r}")
        for value, column in zip(given, schema.names, strict=True)
    )


def _monotone(given: Any, schema: Schema, objective: Objective) -> tuple[int, ...] | None:
    signs = _by_column(given, "monotone_constraints", schema, 0, read_direction)
    if signs is None or not any(signs):
        return None
    for sign, column in zip(signs, schema.columns, strict=True):
        if sign != 0 and column.kind == "category":
            raise ParameterError(
                f"monotone_constraints: column {column.name!r} is of kind {column.kind!r}, whose "
                "values have no order: leave it out, or give it as numbers."
            )
    if objective.n_outputs > 1 and hasattr(objective, "distribution"):
        raise ParameterError(
            f"monotone_constraints cannot be kept for objective {objective.name!r}: its mean "
            "depends on several raw scores. Use a loss of the mean, such as 'squared_error', "
            "'gamma' or 'poisson'."
        )
    if objective.name in _OF_CLASSES or getattr(objective, "task", None) == "classes":
        raise ParameterError(
            f"monotone_constraints cannot be kept for objective {objective.name!r} with "
            f"{objective.n_outputs} outputs: a probability depends on the scores of all classes, "
            "so it may fall where that of its own class rises. Train a model of two classes "
            "(objective 'logistic') for the class in question; if classes are ordered, one for "
            "each 'is it above class k?'."
        )
    return signs


def _penalties(given: Any, schema: Schema) -> tuple[float, ...] | None:
    factors = _by_column(given, "feature_penalties", schema, 1.0, _factor)
    if factors is None or all(factor == 1.0 for factor in factors):
        return None
    if not any(factors):
        raise ParameterError(
            "feature_penalties are 0 for every column, so that no split has a gain: leave at "
            "least one above 0."
        )
    return factors


def _weights(given: Any, schema: Schema) -> tuple[float, ...] | None:
    weights = _by_column(given, "feature_weights", schema, 1.0, _factor)
    if weights is None or all(weight == weights[0] > 0.0 for weight in weights):
        return None
    if not any(weights):
        raise ParameterError(
            "feature_weights are 0 for every column, so that none can be drawn: leave at least "
            "one above 0."
        )
    return weights


def _factor(value: Any, where: str) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    try:
        if is_number and math.isfinite(value) and value >= 0.0:
            return float(value)
    except OverflowError:  # an integer of hundreds of digits
        pass
    raise ParameterError(f"{where} must be a finite number at least 0; got {brief(value)}.")


def _max_bins(params: BoostParams, schema: Schema) -> tuple[int, ...] | None:
    counts = _by_column(
        params.max_bins_by_feature, "max_bins_by_feature", schema, params.max_bins, _bin_count
    )
    if counts is None or all(count == params.max_bins for count in counts):
        return None
    return counts


def _bin_count(value: Any, where: str) -> int:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not FEWEST_BINS <= value <= MOST_BINS:
        raise ParameterError(
            f"{where} must be an integer from {FEWEST_BINS} to {MOST_BINS}; got {brief(value)}."
        )
    return int(value)


def _interactions(given: Any, schema: Schema) -> str | tuple[tuple[int, ...], ...] | None:
    """Return sets of positions; columns in none of them are one more set."""
    name = "interaction_constraints"
    if given is None:
        return None
    if isinstance(given, str):
        if given not in (NO_INTERACTIONS, PAIRWISE):
            raise ParameterError(
                f"{name} must be a list of lists of columns, {PAIRWISE!r} or {NO_INTERACTIONS!r}; "
                f"got {brief(given)}.{did_you_mean(given, (NO_INTERACTIONS, PAIRWISE))}"
            )
        return given if schema.n_features > (1 if given == NO_INTERACTIONS else 2) else None
    lists = list(given) if isinstance(given, Set) else listed(given)
    if lists is None:
        raise ParameterError(f"{name} must be a list of lists of columns; got {brief(given)}.")
    groups = [_group(group, number, schema) for number, group in enumerate(lists)]
    if not groups:
        raise ParameterError(f"{name} is empty: give at least one list of columns, or None.")
    rest = sorted(set(range(schema.n_features)).difference(*groups))
    groups += [tuple(rest)] if rest else []
    if any(len(group) == schema.n_features for group in groups):
        return None
    return tuple(groups)


def _group(group: Any, number: int, schema: Schema) -> tuple[int, ...]:
    where = f"interaction_constraints, list {number}"
    keys = list(group) if isinstance(group, Set) else listed(group)
    if keys is None:
        raise ParameterError(f"{where} must be a list of columns; got {brief(group)}.")
    columns = [position_of(key, schema.names, where) for key in keys]
    if not columns:
        raise ParameterError(f"{where} is empty: leave it out.")
    taken = set()
    for at in columns:
        if at in taken:
            raise ParameterError(f"{where} names column {schema.names[at]!r} twice.")
        taken.add(at)
    return tuple(sorted(columns))


def _crosses(params: BoostParams, schema: Schema) -> tuple[tuple[str, str, str], ...] | None:
    """Return the crosses with names instead of positions, each once."""
    given, name = params.feature_crosses, "feature_crosses"
    if given is None:
        return None
    if not _is_sequence(given):
        raise ParameterError(
            f"{name} must be a list of (column, column, operation), or None; got {brief(given)}."
        )
    crosses = [_cross(cross, f"{name}, entry {k}", schema) for k, cross in enumerate(given)]
    signs = read_signs(params.monotone_constraints, schema, "monotone_constraints") or ()
    ordered = {column for column, sign in zip(schema.names, signs, strict=False) if sign}
    groups = _interactions(params.interaction_constraints, schema)
    for first, second, _ in crosses:
        if not ordered.isdisjoint((first, second)):
            raise ParameterError(
                f"{name} crosses columns {first!r} and {second!r}, but monotone_constraints has a "
                "direction for one of them, which a cross may break: leave one of the two out."
            )
        if groups is None or groups == PAIRWISE:
            continue
        pair = {schema.names.index(first), schema.names.index(second)}
        if groups == NO_INTERACTIONS or not any(pair <= set(group) for group in groups):
            raise ParameterError(
                f"{name} crosses columns {first!r} and {second!r}, but interaction_constraints "
                "does not let them interact: leave one of the two out."
            )
    if crosses and params.zero_as_missing:
        raise ParameterError(
            f"{name} needs zeros as numbers, but zero_as_missing=True makes them missing: leave "
            "one of the two out."
        )
    return tuple(dict.fromkeys(crosses)) or None


def _cross(given: Any, where: str, schema: Schema) -> tuple[str, str, str]:
    if not _is_sequence(given) or len(given) != 3:
        raise ParameterError(f"{where} must be (column, column, operation); got {brief(given)}.")
    *columns, operation = given
    if not isinstance(operation, str) or operation not in OPERATIONS:
        known = ", ".join(map(repr, OPERATIONS))
        raise ParameterError(
            f"{where}: the operation must be one of {known}; got {brief(operation)}."
            f"{did_you_mean(operation, OPERATIONS)}"
        )
    first, second = (schema.columns[position_of(key, schema.names, where)] for key in columns)
    for column in (first, second):
        if column.kind == "category":
            raise ParameterError(
                f"{where}: column {column.name!r} holds categories, which cannot be crossed: "
                "leave it out, or give it as numbers."
            )
    if first.name == second.name:
        raise ParameterError(f"{where} crosses column {first.name!r} with itself: name two.")
    return first.name, second.name, operation
