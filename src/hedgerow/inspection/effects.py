"""Effects: the mean prediction of a background, with a column set to each value in turn.

Glossary
--------
step    numbers between two neighbouring cuts: constant leaves do not separate them
steps   an effect of constant leaves, evaluated in every step: exact for every value
points  an effect evaluated at some values only
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.categories.columns import rounded_categories
from hedgerow.data.categories.levels import Level
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.data.reading.objects import read_objects
from hedgerow.data.reading.temporal import as_trained, text_of_ticks
from hedgerow.data.schema import Column, ColumnKind, Rounding, Temporal
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.shown import MOST_COLUMNS, Viewed, some_of

MAX_TICK = 2**62
"""Numbers beyond it are the end of the last step, not microseconds."""


@dataclass(frozen=True, eq=False, repr=False)
class Effect(Viewed):
    """Mean prediction as a function of one column.

    Attributes
    ----------
    name : str
    kind : {"float", "int", "category"}
    positions : float64 or int64, shape (n,)
        For steps, the largest number of each step, and infinity for the last; for points,
        the evaluated numbers.  For categories 0, 1, ...: positions in ``levels``.
    levels : tuple
        The categories.
    values : float64, shape (n,) or (n, n_outputs)
        Mean prediction in each step, at each point, or for each category.
    missing : float64, shape () or (n_outputs,)
        Mean prediction for missing values.
    unknown : float64 or None
        Mean prediction for unknown categories, if these are not treated as missing.
    rows : float64 (n,)
        Weight of the background rows in each step, between the previous point and this one, or of
        each category.
    missing_rows, unknown_rows : float
        Weight of the rows with missing and with unknown values.
    quantiles : float64 (101,)
        Quantiles of the present numbers of the background, from the smallest to the largest;
        empty without any, and for categories.
    is_exact : bool
        Whether the effect is a step function, exact for every value.
    temporal : {"dates", "times", "durations"} or None
        What the numbers are, if they are microseconds.
    zero_missing_up_to : float or None
        Largest magnitude of the numbers that are missing values; None if no number is.
    rounding : {"none", "down", "to_zero"}
        Conversion of fractional numbers to categories.
    left_out : tuple
        Categories that were not evaluated, because ``n_points`` allows fewer.
    output_names : tuple of str
        Names of several outputs, if they are known.
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
    temporal: Temporal | None = None
    zero_missing_up_to: float | None = None
    rounding: Rounding = "none"
    left_out: tuple[Level, ...] = ()
    output_names: tuple[str, ...] = ()

    def _facts(self) -> dict[str, object]:
        what = "categories" if self.kind == "category" else "steps" if self.is_exact else "points"
        ends = f"{self.values.min():.4g} to {self.values.max():.4g}"
        return {"column": self.name, what: len(self.positions), "effect": ends}

    @property
    def n_outputs(self) -> int:
        """Number of predicted numbers per row."""
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    @property
    def mean(self) -> FloatArray:
        """Mean of the effect over the background's values; without rows, over all values."""
        every, weights = self._with_others()
        return np.asarray(np.average(every, axis=0, weights=weights))

    @property
    def strength(self) -> FloatArray:
        """Standard deviation of the effect over the background's values.

        A measure of importance (Greenwell, Boehmke and McCarthy 2018) that ignores
        interactions.
        """
        every, weights = self._with_others()
        return np.asarray(np.sqrt(np.average((every - self.mean) ** 2, axis=0, weights=weights)))

    def _with_others(self) -> tuple[FloatArray, FloatArray]:
        """Return all values that have rows, missing and unknown ones too, and their rows."""
        values, rows = [self.values, self.missing[None]], [*self.rows, self.missing_rows]
        if self.unknown is not None:
            values.append(self.unknown[None])
            rows.append(self.unknown_rows)
        every, counted = np.concatenate(values), np.array(rows, dtype=np.float64)
        if not counted.any():
            return every, np.ones(len(rows))
        return every[counted > 0.0], counted[counted > 0.0]

    def at(self, values: Any) -> FloatArray:
        """Return the effect at some values.

        Parameters
        ----------
        values : array-like of shape (n_values,)
            Numbers or categories; NaN and None are missing.  A column that held dates, times
            or durations takes these, or microseconds.

        Returns
        -------
        float64, shape (n_values,) or (n_values, n_outputs)
            In steps, the effect of the step; between points, interpolated; constant beyond.

        Raises
        ------
        ParameterError
            For a category in ``left_out``.
        """
        if hasattr(values, "dtype"):
            values = np.asarray(values)
            if values.dtype.kind in "mM":  # NumPy converts nanoseconds to integers
                values = values.astype(f"{values.dtype.kind}8[us]")
        given = np.array(values, dtype=object).reshape(-1)
        absent = np.array([value is None or value != value for value in given], dtype=np.bool_)
        if self.temporal is not None or self.rounding != "none" or self.kind != "category":
            given[~absent] = self._as_numbers(given[~absent])
        if self.zero_missing_up_to is not None and self.kind != "category":
            absent[~absent] = np.abs(given[~absent]) <= self.zero_missing_up_to
        found = np.empty((len(given), *self.values.shape[1:]))
        found[absent] = self.missing
        present = given[~absent]
        if self.kind == "category":
            found[~absent] = self._of_levels(present)
        elif self.is_exact:  # Python compares wide integers and floats without rounding
            cuts = self.positions[:-1].tolist()
            found[~absent] = self.values[[bisect_left(cuts, number) for number in present]]
        else:
            x, numbers = self.positions.astype(np.float64), present.astype(np.float64)
            lines = [np.interp(numbers, x, own) for own in self.values.reshape(len(x), -1).T]
            found[~absent] = np.stack(lines, axis=-1).reshape(len(numbers), *self.values.shape[1:])
        return found

    def _of_levels(self, present: AnyArray) -> FloatArray:
        """Return the effect of categories."""
        place = {level: k for k, level in enumerate(self.levels)}
        other = self.missing if self.unknown is None else self.unknown
        not_evaluated = set(self.left_out)
        some = []
        for level in present:
            if level in not_evaluated:
                n_levels = len(self.levels) + len(self.left_out)
                raise ParameterError(
                    f"column {self.name!r}: the effect of level {brief(level)} was not computed, "
                    f"because n_points={len(self.levels)} keeps the most frequent of {n_levels} "
                    f"levels: compute the effects again with n_points={n_levels}."
                )
            some.append(self.values[place[level]] if level in place else other)
        return np.array(some).reshape(len(present), *self.values.shape[1:])

    def _as_numbers(self, present: AnyArray) -> AnyArray:
        """Return numbers; dates, times and durations are microseconds."""
        column = Column(self.name, "float", temporal=self.temporal)
        part = as_trained(read_objects(present, self.name), column, typed=False)
        shown = str(present[0])[:50] if len(present) else ""
        numbers = part.plain(f"column {self.name!r} holds numbers; got the text {shown!r}.")
        return rounded_categories(numbers, self.rounding)


@dataclass(frozen=True, eq=False, repr=False)
class PartialDependence(Viewed):
    """Effects of several columns on the prediction.

    Attributes
    ----------
    effects : tuple of Effect
    kind : {"raw", "value", "probability"}
        The averaged quantity.
    mean : float64, shape () or (n_outputs,)
        Mean prediction of the background.
    output_names : tuple of str
        Names of several outputs.
    """

    effects: tuple[Effect, ...]
    kind: str
    mean: FloatArray
    output_names: tuple[str, ...]

    def _facts(self) -> dict[str, object]:
        mean = ", ".join(f"{number:.4g}" for number in np.atleast_1d(self.mean)[:MOST_COLUMNS])
        facts: dict[str, object] = {
            "of": f"mean {self.kind}",
            "mean": mean,
            "columns": some_of(self.names),
        }
        return facts | ({"outputs": some_of(self.output_names)} if self.output_names else {})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(effect.name for effect in self.effects)

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def __getitem__(self, key: str | int) -> Effect:
        """Return the effect of a column by name or position."""
        if isinstance(key, str):
            if key not in self.names:
                hint = did_you_mean(key, self.names)
                raise ParameterError(f"there is no column {brief(key)}.{hint}")
            key = self.names.index(key)
        effect = self.effects[key]
        return replace(effect, output_names=self.output_names)

    @property
    def strength(self) -> FloatArray:
        """Standard deviation of each effect over the background: (n[, n_outputs])."""
        return np.array([effect.strength for effect in self.effects])

    def strongest(self, n: int) -> PartialDependence:
        """Return the ``n`` columns whose effects vary most, in descending order."""
        strength = self.strength.reshape(len(self.effects), -1).max(axis=1)
        order = np.argsort(-strength, kind="stable")[:n]
        return replace(self, effects=tuple(self.effects[k] for k in order))

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return all effects as a data frame, one row for each value and output.

        Returns
        -------
        data frame
            Columns ``column``, ``value`` (text), ``output``, ``effect``, ``rows``.
        """
        names = self.output_names or ("",)
        lines = [
            (effect.name, label, name, number, rows)
            for effect in self.effects
            for label, value, rows in _lines(effect)
            for name, number in zip(names, np.atleast_1d(value).tolist(), strict=True)
        ]
        heads = ("column", "value", "output", "effect", "rows")
        return make_frame(
            {head: [line[k] for line in lines] for k, head in enumerate(heads)}, backend
        )


def _lines(effect: Effect) -> Iterator[tuple[str, FloatArray, float]]:
    for k, position in enumerate(effect.positions.tolist()):
        label = str(effect.levels[k]) if effect.kind == "category" else repr(position)
        if effect.temporal is not None and abs(position) < MAX_TICK:
            label = text_of_ticks(round(position), effect.temporal)
        yield label, effect.values[k], float(effect.rows[k])
    yield "missing", effect.missing, effect.missing_rows
    if effect.unknown is not None:
        yield "unknown", effect.unknown, effect.unknown_rows
