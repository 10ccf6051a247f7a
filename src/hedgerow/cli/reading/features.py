"""Conversion of named columns to the arrays of a fit or a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, distinct
from hedgerow.cli.reading.tables import NamedColumns, holds_text
from hedgerow.cli.usage import UsageError
from hedgerow.data.categories.columns import NearlyNumbers, nearly_numbers, odd_text_of

if TYPE_CHECKING:
    from hedgerow.estimators.file_fit import TargetFacts

_MOST_CLASSES_OF_NUMBERS = 10

Target: TypeAlias = "AnyArray | Mapping[str, AnyArray]"
"""One target, or several by name."""


def matrix_of(columns: Mapping[str, AnyArray]) -> AnyArray:
    """Return columns of numbers as a matrix."""
    return np.column_stack(list(columns.values()))


def text_columns(columns: Mapping[str, AnyArray]) -> frozenset[str]:
    """Return the names of the text columns."""
    return frozenset(name for name, column in columns.items() if holds_text(column))


def numbered_matrix(
    table: NamedColumns, names: Sequence[str], y: AnyArray, train: AnyArray, task: str
) -> tuple[AnyArray, int]:
    """Return columns as a matrix of numbers; text becomes the mean target of its level."""
    target = np.zeros(len(y))
    if y.ndim == 2:
        target = np.mean((y - y[train].mean(axis=0)) / (y[train].std(axis=0) + 1e-300), axis=1)
    elif task == "regression":
        target = y.astype(np.float64)
    else:
        labels, counts = np.unique(y[train], return_counts=True)
        target[y == labels[counts.argmax()]] = 1.0
    texts = text_columns(table.features(names))
    columns = [
        _means(table.columns[name], target, train) if name in texts else table.role(name)
        for name in names
    ]
    wide = any(column.dtype != np.float64 for column in columns)
    return np.column_stack([c.astype(object) if wide else c for c in columns]), len(texts)


def _means(column: AnyArray, target: AnyArray, train: AnyArray) -> AnyArray:
    """Return the mean target of the training rows of each level; NaN for unknown and missing."""
    known = np.array([value is not None for value in column])
    levels, codes = np.unique(column[known].astype(str), return_inverse=True)
    place = np.full(len(column), len(levels))
    place[known] = codes
    counts = np.bincount(place[train], minlength=len(levels) + 1)
    sums = np.bincount(place[train], target[train], minlength=len(levels) + 1)
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    means[-1] = np.nan
    return means[place]


def target(table: NamedColumns, name: str, *, may_be_infinite: bool = False) -> AnyArray:
    """Return the target column, which must not have missing values."""
    column = table.role(name)
    if column.dtype == object:
        missing = np.array([value is None for value in column], dtype=bool)
    else:
        numbers = column.astype(np.float64)
        missing = np.isnan(numbers) if may_be_infinite else ~np.isfinite(numbers)
    if missing.any():
        what = "missing" if may_be_infinite else "missing or infinite"
        raise UsageError(
            f"{table.path}: target {name!r} is {what} in {int(missing.sum())} row(s), "
            f"the first is row {int(missing.argmax()) + 1}; remove these rows"
        )
    return column


def targets(table: NamedColumns, names: Sequence[str]) -> Target:
    """Return the target column, or several by name, whose values may be ends of intervals."""
    if len(names) == 1:
        return target(table, names[0])
    return {name: target(table, name, may_be_infinite=True) for name in names}


def guess_task(y: Target, path: str, name: str) -> tuple[str, str]:
    """Return ``("classification" | "regression", why)`` for a target column."""
    if isinstance(y, Mapping):
        return "regression", f"{len(y)} targets"
    if y.dtype == object:
        found = odd_text_of(y)
        if found is not None:
            where = f"row {found[1] + 1} has {found[0].odd!r}"
            _refuse_odd_text(found[0], path, name, where)
        return "classification", "the target is text"
    return _task_of_numbers(distinct(y))


def guess_task_of(facts: TargetFacts, path: str, name: str) -> tuple[str, str]:
    """Guess the task from the targets of files, as :func:`guess_task` does."""
    if facts.n_targets > 1:
        return "regression", f"{facts.n_targets} targets"
    if facts.is_text:
        found = nearly_numbers(facts.values.tolist(), facts.masses)
        if found is not None:
            _refuse_odd_text(found, path, name, f"{found.odd!r} is none")
        return "classification", "the target is text"
    return _task_of_numbers(facts.values, has_more=facts.has_more)


def _refuse_odd_text(found: NearlyNumbers, path: str, name: str, where: str) -> None:
    """Raise ``UsageError`` for a target of numbers that a few other values make text."""
    if _task_of_numbers(distinct(np.array(found.numbers)))[0] == "regression":
        raise UsageError(
            f"{path}: target {name!r} is text, but {found}; {where}: mend or remove such rows, or "
            "use --task classification"
        )


def _task_of_numbers(values: AnyArray, *, has_more: bool = False) -> tuple[str, str]:
    """Guess the task from the different numbers of a target; ``has_more``: some are left out."""
    n_values = len(values)
    few = not has_more and n_values <= _MOST_CLASSES_OF_NUMBERS
    if few and np.array_equal(values, np.floor(values)):
        return "classification", f"the target has {n_values} distinct whole numbers"
    more = "more than " if has_more else ""
    return "regression", f"the target has {more}{n_values} distinct numbers"


def as_targets(y: Target, task: str, path: str, name: str = "y") -> Target:
    """Return :func:`class_labels` of one target, called ``name``, or of several."""
    if isinstance(y, Mapping):
        return {label: class_labels(column, task, path, label) for label, column in y.items()}
    return class_labels(y, task, path, name)


def class_labels(column: AnyArray, task: str, path: str, name: str) -> AnyArray:
    """Return the target in the form of the estimator: labels or float64."""
    if task in ("regression", "ranking"):
        if column.dtype == object:
            raise UsageError(
                f"{path}: target {name!r} holds text ({column[0]!r} in row 1); {task} needs "
                "numbers: use --task classification, or another --target"
            )
        return column.astype(np.float64)
    if column.dtype == object:
        return column.astype(str)
    if task == "classification":
        refuse_fractions(column, path, name)
    integers = column.astype(np.int64)
    return integers if np.array_equal(integers, column) else column


def refuse_fractions(values: AnyArray, path: str, name: str) -> None:
    """Raise ``UsageError`` if numbers of a target are no classes."""
    broken = values != np.floor(values)
    if broken.any():
        raise UsageError(
            f"{path}: target {name!r} holds {values[int(np.argmax(broken))]:g}, which is no class; "
            "classification needs text or whole numbers: use --task regression, or another --target"
        )
