"""Conformal prediction: scores of calibration rows, and their quantiles.

Glossary
--------
score        nonconformity of a target and its prediction; any function that does not
             depend on the calibration rows
calibration  scores of rows that the model was not trained on
threshold    the ``ceil((n + 1) level)``-th smallest of n scores.  The score of a new,
             exchangeable row is above it with probability at most ``1 - level``, and at
             least ``1 - level - 1 / (n + 1)`` if all scores differ
group        rows with a separate threshold (Mondrian), from the scores of the group; the
             same guarantee holds in each group

weight       relative likelihood of a row among the rows to predict compared with the
             calibration rows

Source: Vovk, Gammerman and Shafer 2005; Lei et al. 2018; Tibshirani, Barber, Candes and
Ramdas 2019 (weights).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.cuda.arrays import on_host
from hedgerow.errors import DataError, brief
from hedgerow.objectives.distributions.predicted import check_level

_PLAY = 1e-9
"""Tolerance in comparisons with levels, because float64 cannot represent decimal fractions."""
_ALL: Hashable = None
"""Group of all rows if there are no groups."""


def rows_needed(level: float) -> int:
    """Return the fewest calibration rows for ``level``: the least n with ``(n+1) level <= n``.

    Examples
    --------
    >>> from hedgerow.estimators.conformal.scores import rows_needed
    >>> rows_needed(0.9), rows_needed(0.95)
    (9, 19)
    """
    return max(1, math.ceil(1.0 / (1.0 - level) - 1.0 - _PLAY))


def threshold_rank(n_rows: int, level: float) -> int:
    """Return ``ceil((n + 1) level)``, at least 1."""
    return max(1, math.ceil((n_rows + 1) * level - _PLAY))


def threshold_of(scores: FloatArray, level: float, weight: FloatArray | None = None) -> float:
    """Return the threshold of some scores; infinite if there are too few.

    Parameters
    ----------
    scores : float64 (n_rows,)
    level : float in (0, 1)
    weight : float64 (n_rows,), optional
        Relative weights: rows of weight 2 are twice as frequent among the rows to predict.
        The weight of a new row is :func:`expected_weight`, which gives no guarantee;
        :func:`thresholds_of` uses the row's own weight.
    """
    n = len(scores)
    if weight is None:
        rank = threshold_rank(n, level)
        return math.inf if rank > n else float(np.partition(scores, rank - 1)[rank - 1])
    if n == 0:
        return math.inf
    return float(thresholds_of(scores, level, weight, np.array([expected_weight(weight)]))[0])


def thresholds_of(
    scores: FloatArray, level: float, weight: FloatArray, own: FloatArray
) -> FloatArray:
    """Return the threshold of each row to predict, with its ``own`` weight.

    The threshold is the smallest score up to which the weights reach ``level`` of the total
    weight.  The total includes the row itself, with an infinite score (Tibshirani et al.
    2019).  A row with a very large weight has no finite threshold.

    Parameters
    ----------
    scores, weight : float64 (n_rows,)
    level : float in (0, 1)
    own : float64 (n_new_rows,)

    Returns
    -------
    float64 (n_new_rows,)
    """
    order = np.argsort(scores, kind="stable")
    mass = np.cumsum(weight[order])
    at = np.searchsorted(mass, _goal(float(weight.sum()), own, len(scores), level))
    return np.append(scores[order], math.inf)[at]


def expected_weight(weight: FloatArray) -> float:
    """Return the mean weight of rows that are as frequent as their weights."""
    return float((weight * weight).sum() / weight.sum())


def thresholds_by_column(
    values: FloatArray,
    level: float,
    weight: FloatArray | None = None,
    own: FloatArray | None = None,
) -> FloatArray:
    """Return the threshold of each column of ``values``, float64 (n_rows, n_columns).

    ``own`` holds the weights of the rows to predict, one for each column; the
    default is the weight of :func:`threshold_of`.
    """
    n = len(values)
    if weight is None:
        rank = threshold_rank(n, level)
        if rank > n:
            return np.full(values.shape[1], math.inf)
        return np.asarray(np.partition(values, rank - 1, axis=0)[rank - 1])
    if own is None:
        own = np.full(values.shape[1], expected_weight(weight))
    order = np.argsort(values, axis=0, kind="stable")
    reached = np.cumsum(weight[order], axis=0) >= _goal(float(weight.sum()), own, n, level)
    found = np.take_along_axis(values, order, axis=0)
    at = reached.argmax(axis=0)
    return np.where(reached.any(axis=0), found[at, np.arange(values.shape[1])], math.inf)


def _goal(total: float, own: FloatArray, n_rows: int, level: float) -> FloatArray:
    """Return ``level`` times the total weight, including the row to predict."""
    return (total + own) * (level - _PLAY / n_rows)


@dataclass(frozen=True, eq=False)  # with slots, Python before 3.11.4 replaces __getstate__
class Calibration:
    """Scores of calibration rows, by group.

    Attributes
    ----------
    scores : mapping of group to float64
    weights : mapping of group to float64 or None
    """

    scores: Mapping[Hashable, FloatArray]
    weights: Mapping[Hashable, FloatArray | None]

    def __getstate__(self) -> dict[str, Any]:
        """Return lists, because some serialisers do not support mappings with such keys."""
        scores, weights = self.scores, self.weights
        return {
            "groups": list(scores),
            "scores": [*scores.values()],
            "weights": [*weights.values()],
        }

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, list):  # a pickle of an earlier version
            scores, weights = state
        else:
            scores = dict(zip(state["groups"], state["scores"], strict=True))
            weights = dict(zip(state["groups"], state["weights"], strict=True))
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "weights", weights)

    @staticmethod
    def of(scores: FloatArray, weight: FloatArray | None, groups: AnyArray | None) -> Calibration:
        """Group the scores of rows; rows of weight 0 are ignored."""
        found: dict[Hashable, FloatArray] = {}
        masses: dict[Hashable, FloatArray | None] = {}
        for group, rows in rows_by_group(groups, len(scores)).items():
            if weight is not None:
                rows = rows[weight[rows] > 0.0]
            found[group] = scores[rows]
            masses[group] = None if weight is None else weight[rows]
        return Calibration(found, masses)

    def check(self, level: float) -> None:
        """Raise unless every group has enough rows for ``level``."""
        check_level(level)
        for group, scores in self.scores.items():
            check_enough(len(scores), level, group)

    def thresholds(
        self, level: float, groups: AnyArray | None, n_rows: int, own: FloatArray | None = None
    ) -> FloatArray:
        """Return the threshold of each of ``n_rows`` rows to predict, with ``own`` weights.

        Raise ``DataError`` if a group is new, or has too few calibration rows for the level.
        """
        check_level(level)
        found = np.empty(n_rows)
        for group, rows in rows_by_group(groups, n_rows).items():
            check_known(group, self.scores)
            scores = self.scores[group]
            check_enough(len(scores), level, group)
            weight = self.weights[group]
            if own is None or weight is None:
                found[rows] = threshold_of(scores, level, weight)
            else:
                found[rows] = thresholds_of(scores, level, weight, own[rows])
        return found


def check_enough(n_rows: int, level: float, group: Hashable) -> None:
    """Raise ``DataError`` if there are too few calibration rows for the level."""
    if n_rows < rows_needed(level):
        where, join = (
            ("", "") if group is _ALL else (f" of group {brief(group)}", ", or join groups")
        )
        raise DataError(
            f"level={level:g} needs at least {rows_needed(level)} calibration rows{where}; there "
            f"are {n_rows}: give more rows, a lower level{join}."
        )


def check_known(group: Hashable, known: Mapping[Hashable, Any]) -> None:
    """Raise ``DataError`` if a group has no calibration rows."""
    if group not in known:
        raise DataError(
            f"group {brief(group)} has no calibration rows; groups with calibration rows: "
            f"{', '.join(map(repr, list(known)[:10]))}."
        )


def rows_by_group(groups: AnyArray | None, n_rows: int) -> dict[Hashable, npt.NDArray[np.intp]]:
    """Return the row numbers of each group, in the order of first occurrence."""
    if groups is None:
        return {_ALL: np.arange(n_rows)}
    found: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups.tolist()):
        found.setdefault(group, []).append(row)
    return {group: np.array(rows, dtype=np.intp) for group, rows in found.items()}


def read_groups(group: Any, X: Any, n_rows: int) -> AnyArray | None:
    """Read the group of each row.

    Raise ``DataError`` if there is no such column, the length is wrong, or a group is
    missing.

    Parameters
    ----------
    group : str, int, array-like of shape (n_rows,) or None
        Name or position of a column of X, or the groups themselves.
    X : table
    """
    if group is None:
        return None
    found = np.asarray(
        _column(X, group) if isinstance(group, str | int | np.integer) else on_host(group)
    )
    if found.ndim != 1 or len(found) != n_rows:
        raise DataError(
            f"group must hold one group for each of the {n_rows} rows, or name a column of X; it "
            f"has shape {found.shape}."
        )
    missing = np.array([one is None or one != one for one in found.tolist()], dtype=bool)
    if missing.any():
        raise DataError(f"group is missing in row {int(np.argmax(missing))}: fill it first.")
    return found


def _column(X: Any, name: Any) -> Any:
    named = hasattr(X, "columns")
    try:
        if isinstance(name, str):
            if named:
                return X[name]
        elif named:
            return X[list(X.columns)[name]]
        else:
            dense = X[:, [name]]
            return (dense.toarray() if hasattr(dense, "toarray") else dense)[:, 0]
    except (KeyError, IndexError, TypeError):
        pass
    except Exception as fault:  # frame libraries raise different errors
        raise DataError(f"group={name!r}: no such column of X ({fault}).") from fault
    raise DataError(f"group={name!r}: X has no such column.")
