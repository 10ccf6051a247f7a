"""Crosses: products, differences and ratios of two numeric columns, as inputs of the trees.

A tree follows ``a / b`` or ``a * b`` only in steps, with a split of one column for each
region of the other; a single split of the ratio or the product is exact::

    b |  /               b |    /             - - -   splits of a and b
      | /  a / b = 1       |  _|_
      |/                   |_|                ( a / b <= 1 )   one split of the cross
      +----- a             +------- a

A cross is missing if one of its columns is missing, if a ratio divides by zero, and for
``inf - inf``, ``0 * inf`` and ``inf / inf``.  All numbers are float64, so prediction of a
table and of a single row have the same bits.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray
from hedgerow.data.reading.columns import floats_of_column
from hedgerow.data.schema import Schema

Operation: TypeAlias = Literal["product", "difference", "ratio"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

_SIGNS: dict[Operation, str] = {"product": "*", "difference": "-", "ratio": "/"}


class Cross(NamedTuple):
    """A product, difference or ratio of two numeric columns."""

    first: int  # first, second: positions in the schema
    second: int
    operation: Operation

    @property
    def columns(self) -> tuple[int, int]:
        """Both columns, ascending."""
        return min(self.first, self.second), max(self.first, self.second)

    def label(self, schema: Schema) -> str:
        """Return the name of the input, for example ``"weight / height"``."""
        first, second = schema.names[self.first], schema.names[self.second]
        return f"{first} {_SIGNS[self.operation]} {second}"

    def compute(self, values: AnyArray, schema: Schema, out: FloatArray) -> None:
        """Write the cross of each row of a table into ``out``."""
        a, b = (
            floats_of_column(values[:, j], schema.kinds[j]).astype(np.float64, copy=False)
            for j in (self.first, self.second)
        )
        with np.errstate(all="ignore"):
            if self.operation == "product":
                np.multiply(a, b, out=out)
            elif self.operation == "difference":
                np.subtract(a, b, out=out)
            else:
                np.divide(a, b, out=out)
                out[b == 0.0] = np.nan

    def of_row(self, values: Any) -> float:
        """Return the cross of a single row of Python numbers."""
        a, b = (_number(values[j]) for j in (self.first, self.second))
        if self.operation == "product":
            return a * b
        if self.operation == "difference":
            return a - b
        return a / b if b != 0.0 else math.nan


def brief_value(name: str, value: Any) -> str:
    """Return the text of a parameter's value; more than three crosses as their number."""
    is_long = name == "feature_crosses" and isinstance(value, list | tuple) and len(value) > 3
    return f"{len(value)} crosses" if is_long else str(value)


def _number(value: Any) -> float:
    """Return a number of a single row as float.

    Integers may be missing keys.  Text is an error, which the reader of tables reports.
    """
    if type(value) is str or (type(value) is int and value == MISSING_KEY):
        return math.nan
    return float(value)
