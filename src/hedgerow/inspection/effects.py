"""What a model predicts on average, by the value of a column: as steps, or at points.

Glossary
--------
cell    values of a column that no split tells from each other: numbers between two cuts,
        or categories of one bin; missing values are a cell of their own
effect  mean prediction of a background, with the column set to each value in turn
steps   an effect of constant leaves: exact for every value, as it is the same in a cell
points  an effect that was looked at in some values only
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.frames import FrameLibrary, make_frame
from hedgerow.data.levels import Level
from hedgerow.data.schema import ColumnKind
from hedgerow.errors import DataError, ParameterError, did_you_mean


@dataclass(frozen=True, eq=False)
class Effect:
    """Mean prediction by the value of one column.

    Attributes
    ----------
    name : str
    kind : {"float", "int", "category"}
    positions : float64 or int64, shape (n,)
        Of steps the largest number of each cell, the last being the largest of all; of points
        the numbers that were looked at.  Of a category 0, 1, ...: places in ``levels``.
    levels : tuple
        The categories.
    values : float64, shape (n,) or (n, n_outputs)
        Mean prediction in each cell, at each point, for each category.
    missing : float64, shape () or (n_outputs,)
        The same for missing values.
    unknown : float64 or None
        The same for a category that training has not seen, where that is not read as missing.
    rows : float64 (n,)
        Weight of the background rows in each cell, from the point before to this one, or of
        each category.
    missing_rows, unknown_rows : float
        Weight of the others.
    quantiles : float64 (101,)
        Of the present numbers of the background, from the least to the largest; empty
        without a background, and for categories.
    is_exact : bool
        Whether the effect is steps, known for every value.
    """

    name: str
    kind: ColumnKind
    positions: AnyArray
    levels: tuple[Level, ...]
    values: FloatArray
    missing: FloatArray
    unknown: FloatArray | None
    rows: FloatArray
    missing_rows: float
    unknown_rows: float
    quantiles: FloatArray
    is_exact: bool

    @property
    def n_outputs(self) -> int:
        """Numbers that the model predicts for a row."""
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    @property
    def mean(self) -> FloatArray:
        """Mean of the effect over the values of the background; of all cells alike without rows."""
        every, rows = self._with_others()
        total = rows.sum()
        weights = rows / total if total > 0.0 else np.full(len(rows), 1.0 / len(rows))
        return np.asarray(np.tensordot(weights, every, axes=1))

    @property
    def strength(self) -> FloatArray:
        """Standard deviation of the effect over the values of the background.

        A measure of importance (Greenwell, Boehmke and McCarthy 2018) that knows nothing of
        interactions.
        """
        every, rows = self._with_others()
        total = rows.sum()
        weights = rows / total if total > 0.0 else np.full(len(rows), 1.0 / len(rows))
        squares = np.tensordot(weights, (every - self.mean) ** 2, axes=1)
        return np.sqrt(squares)

    def _with_others(self) -> tuple[FloatArray, FloatArray]:
        """Effects and rows of all cells, that of missing and unknown values behind."""
        values, rows = [self.values, self.missing[None]], [*self.rows, self.missing_rows]
        if self.unknown is not None:
            values.append(self.unknown[None])
            rows.append(self.unknown_rows)
        return np.concatenate(values), np.array(rows, dtype=np.float64)

    def at(self, values: Any) -> FloatArray:
        """The effect at some values.

        Parameters
        ----------
        values : array-like of shape (n_values,)
            Numbers or categories; NaN and None are missing.

        Returns
        -------
        float64, shape (n_values,) or (n_values, n_outputs)
            Between points on the straight line, beyond them that of the last point.
        """
        given = np.asarray(values, dtype=object).reshape(-1)
        absent = np.array([value is None or value != value for value in given], dtype=np.bool_)
        found = np.empty((len(given), *self.values.shape[1:]))
        found[absent] = self.missing
        present = given[~absent]
        if self.kind == "category":
            place = {level: k for k, level in enumerate(self.levels)}
            other = self.missing if self.unknown is None else self.unknown
            some = [self.values[place[v]] if v in place else other for v in present]
            found[~absent] = np.array(some).reshape(len(present), *self.values.shape[1:])
        elif self.is_exact:
            typed = present.astype(np.int64 if self.kind == "int" else np.float64)
            cell = np.searchsorted(self.positions[:-1], typed, side="left")
            found[~absent] = self.values[cell]
        else:
            found[~absent] = self._between(present.astype(np.float64))
        return found

    def _between(self, numbers: FloatArray) -> FloatArray:
        x = self.positions.astype(np.float64)
        columns = self.values.reshape(len(x), -1).T
        lines = [np.interp(numbers, x, column) for column in columns]
        return np.stack(lines, axis=-1).reshape(len(numbers), *self.values.shape[1:])

    def output(self, number: int) -> Effect:
        """The effect on one output alone."""
        if self.values.ndim == 1:
            return self
        unknown = None if self.unknown is None else self.unknown[number]
        return replace(
            self, values=self.values[:, number], missing=self.missing[number], unknown=unknown
        )


@dataclass(frozen=True, eq=False)
class PartialDependence:
    """Effects of several columns on what a model predicts.

    Attributes
    ----------
    effects : tuple of Effect
    kind : {"raw", "value", "probability"}
        What is averaged.
    mean : float64, shape () or (n_outputs,)
        Mean prediction of the background.
    output_names : tuple of str
        Of several outputs.
    is_accumulated : bool
        Whether these are accumulated local effects: their mean over the rows is 0.
    """

    effects: tuple[Effect, ...]
    kind: str
    mean: FloatArray
    output_names: tuple[str, ...]
    is_accumulated: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(effect.name for effect in self.effects)

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def __getitem__(self, key: str | int) -> Effect:
        """The effect of a column, by its name or its place."""
        return self.effects[place_of_name(key, self.names)]

    @property
    def strength(self) -> FloatArray:
        """Of each effect its standard deviation over the background: (n[, n_outputs])."""
        return np.array([effect.strength for effect in self.effects])

    def strongest(self, n: int) -> PartialDependence:
        """The ``n`` columns whose effects vary most, the strongest first."""
        strength = self.strength.reshape(len(self.effects), -1).max(axis=1)
        order = np.argsort(-strength, kind="stable")[:n]
        return replace(self, effects=tuple(self.effects[k] for k in order))

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """All effects as a data frame, one row for each value and output.

        Returns
        -------
        data frame
            Columns ``column``, ``value`` (text), ``output``, ``effect``, ``rows``.
        """
        names = self.output_names or ("",)
        columns: dict[str, list[Any]] = {
            name: [] for name in ("column", "value", "output", "effect", "rows")
        }
        for effect in self.effects:
            for label, value, rows in _lines(effect):
                for name, number in zip(names, np.atleast_1d(value).tolist(), strict=True):
                    for key, entry in zip(
                        columns, (effect.name, label, name, number, rows), strict=True
                    ):
                        columns[key].append(entry)
        return make_frame(columns, backend)


def _lines(effect: Effect) -> Iterator[tuple[str, FloatArray, float]]:
    for k, position in enumerate(effect.positions.tolist()):
        label = str(effect.levels[k]) if effect.kind == "category" else repr(position)
        yield label, effect.values[k], float(effect.rows[k])
    yield "missing", effect.missing, effect.missing_rows
    if effect.unknown is not None:
        yield "unknown", effect.unknown, effect.unknown_rows


def place_of_name(key: str | int, names: Sequence[str]) -> int:
    """Place of a name; a number is taken as it is.

    Raises
    ------
    ParameterError
        If there is none.
    """
    if isinstance(key, str):
        if key not in names:
            raise ParameterError(f"there is no column {key!r} here.{did_you_mean(key, names)}")
        return list(names).index(key)
    return key


@dataclass(frozen=True, eq=False)
class JointEffect:
    """Mean prediction by the values of two columns, in every pair of cells.

    Attributes
    ----------
    first, second : Effect
        Of each column alone.
    values : float64, shape (n_first, n_second) or (n_first, n_second, n_outputs)
        Cells of missing values (and of unknown ones, where they are a cell) are the last.
    rows : float64 (n_first, n_second)
        Weight of the background rows in each pair.
    kind : str
    """

    first: Effect
    second: Effect
    values: FloatArray
    rows: FloatArray
    kind: str

    @property
    def names(self) -> tuple[str, str]:
        """Of the two columns."""
        return self.first.name, self.second.name

    @property
    def present(self) -> FloatArray:
        """The effects of pairs of present values."""
        return self.values[: len(self.first.positions), : len(self.second.positions)]


def check_rows(n_rows: int, what: str) -> None:
    """Refuse to average over nothing."""
    if n_rows == 0:
        raise DataError(f"{what} has no rows: give at least one.")
