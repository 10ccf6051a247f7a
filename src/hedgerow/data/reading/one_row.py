"""Fast path for a single row of plain Python values.

A service often has a row as a dict or a list.  The general reader
(:mod:`hedgerow.data.reading.table`) converts each value to a column, which takes microseconds per
column.  This module keeps numbers as Python numbers and looks up category codes in a dict.
The general reader handles values other than plain numbers, text and None, and all errors.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import MISSING_KEY
from hedgerow.data.inputs import Inputs, Statistic
from hedgerow.data.schema import Schema

_PLAIN = frozenset({float, int, bool, str, type(None), np.float64})
_EXACT = 2**53
_NAN = math.nan
Values = Sequence[Any]


class _Category(NamedTuple):
    """A category column: its position, codes by level, and the code of unknown categories."""

    position: int
    codes: Mapping[Any, Any]
    is_text: bool
    is_empty: bool
    rounding: str
    unknown: Any


class RowReader:
    """Reader of single rows for one model."""

    def __init__(self, schema: Schema, inputs: Inputs | None) -> None:
        self._n, self._names = schema.n_features, schema.names
        self._pick = itemgetter(*schema.names) if schema.n_features > 1 else self._only
        self._named = schema.named
        self._floats = [j for j, kind in enumerate(schema.kinds) if kind == "float"]
        self._ints = [j for j, kind in enumerate(schema.kinds) if kind == "int"]
        self._categories = []
        for j, column in enumerate(schema.columns):
            if column.kind != "category":
                continue
            codes: dict[Any, Any] = {level: code for code, level in enumerate(column.levels)}
            codes[None] = _NAN
            is_text = len(column.levels) > 0 and isinstance(column.levels[0], str)
            unknown = len(column.levels) if schema.unknown == "split" else _NAN
            self._categories.append(
                _Category(j, codes, is_text, not column.levels, column.rounding, unknown)
            )
        self._temporal = [j for j, column in enumerate(schema.columns) if column.temporal]
        self._refuses_unknown = schema.unknown == "error"
        self._kept = None if inputs is None else inputs.kept
        statistics = () if inputs is None else inputs.statistics
        self._statistics = [_Lookup(s, schema) for s in statistics]
        self._crosses = () if inputs is None else inputs.crosses
        self.is_general = schema.zero_missing

    def _only(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (row[self._names[0]],)

    def read(self, row: Any) -> tuple[Values, dict[str, int]] | None:
        """Return the inputs of the trees, and the columns with an unknown category."""
        if self.is_general or len(row) != self._n:
            return None
        try:
            if isinstance(row, Mapping):
                entries = self._pick(row) if self._named else tuple(row.values())
            else:
                entries = row
        except KeyError:
            return None
        types = set(map(type, entries))
        if not types <= _PLAIN:
            return None
        values = list(entries)
        is_typed = self._temporal and isinstance(row, Mapping)
        if is_typed and any(values[j] is not None for j in self._temporal):
            return None  # numbers are no dates there: the general reader raises
        if int in types or type(None) in types:
            for j in self._floats:
                value = values[j]
                if value is None:
                    values[j] = _NAN
                elif type(value) is int and not -_EXACT <= value <= _EXACT:
                    return None
        for j in self._ints:
            value = values[j]
            if value is None or value != value:
                values[j] = MISSING_KEY
            elif type(value) is str or not MISSING_KEY < value < 2**63 or value != int(value):
                return None
            else:
                values[j] = int(value)
        unseen: dict[str, int] = {}
        for column in self._categories:
            value = values[column.position]
            code = column.codes.get(value)
            if code is None:
                code = self._other(column, value, unseen)
                if code is None:
                    return None
            values[column.position] = code
        if self._kept is None:
            return values, unseen
        found = [values[j] for j in self._kept]
        for lookup in self._statistics:
            found += lookup.of_row(values)
        found += [cross.of_row(values) for cross in self._crosses]
        return found, unseen

    def _other(self, column: _Category, value: Any, unseen: dict[str, int]) -> Any:
        """Return the code of a value that is not in the dict; None for the general reader."""
        if value != value:
            return _NAN
        if column.rounding != "none" and isinstance(value, float):
            if math.isinf(value):
                return None
            whole = math.floor(value) if column.rounding == "down" else math.trunc(value)
            code = column.codes.get(whole)
            if code is not None:
                return code
        if not column.is_empty and isinstance(value, str) != column.is_text:
            return None
        if self._refuses_unknown:
            return None
        unseen[self._names[column.position]] = 1
        return column.unknown


class _Lookup:
    """Lookup of a target statistic by bisection in the arrays of the model."""

    def __init__(self, statistic: Statistic, schema: Schema) -> None:
        self._columns = [(j, len(schema.columns[j].levels)) for j in statistic.columns]
        self._keys = statistic.keys.data
        self._values = [np.ascontiguousarray(part).data for part in statistic.values]
        self._prior = statistic.prior.tolist()

    def of_row(self, values: Values) -> list[float]:
        joint = 0
        for j, n_levels in self._columns:
            code = values[j]
            joint = joint * (n_levels + 2) + (code if type(code) is int else n_levels + 1)
        at = bisect_left(self._keys, joint)
        if at < len(self._keys) and self._keys[at] == joint:
            return [part[at] for part in self._values]
        return self._prior
