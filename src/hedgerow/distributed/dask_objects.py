"""Columns of Python objects in Dask frames, which Dask turns into text.

By default (``dataframe.convert-string``), Dask converts columns of objects to text as it reads
a frame: dates, durations and numbers become categories, while the same frame in memory has dates
and numbers.  Where nothing but a choice of rows and columns follows, the conversion is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from hedgerow.errors import DataTypeError

_CONVERSION = "ArrowStringConversion"
_SWITCH = "pyarrow_strings_enabled"
_CHOICES = frozenset(
    {_CONVERSION, "FromPandas", "FromMap", "FromDelayed", "DelayedsExpr"}
    | {"Projection", "Partitions", "Drop", "ResetIndex"}
    | {"Repartition", "RepartitionToFewer", "RepartitionToMore"}
)
"""Expressions that give the same rows and columns for text and for other objects."""


def with_objects(frame: Any, name: str) -> Any:
    """Return a frame or series without the conversion of objects to text.

    Raise ``DataTypeError`` if a column of dates, times, durations or numbers is converted, and
    other steps follow that may need its text.
    """
    expression: Any = getattr(frame, "expr", None)
    if not hasattr(expression, "walk"):
        return frame
    steps = list(expression.walk())
    if not any(_converts(step) for step in steps):
        return frame
    others = next(_converted(frame, steps), None)
    if others is None and all(type(step).__name__ != _CONVERSION for step in steps):
        return frame  # from pandas, and all objects are text: Arrow's text is faster to send
    if all(type(step).__name__ in _CHOICES for step in steps):
        return type(frame)(_unconverted(expression))
    if others is None:
        return frame
    raise DataTypeError(
        f"column {others!r} of {name} holds Python objects that are no text, and Dask turned them "
        "into text: set dask.config.set({'dataframe.convert-string': False}) before the frame is "
        "made, or convert the column, for example by pandas.to_datetime."
    )


def _converts(step: Any) -> bool:
    name = type(step).__name__
    return name == _CONVERSION or (name == "FromPandas" and bool(getattr(step, _SWITCH, False)))


def _unconverted(expression: Any) -> Any:
    """Return the expression that reads objects as they are."""
    while True:
        found = next(filter(_converts, expression.walk()), None)
        if found is None:
            return expression
        is_source = type(found).__name__ != _CONVERSION
        raw = found.substitute_parameters({_SWITCH: False}) if is_source else found.frame
        if found is expression:
            return raw if is_source else _unconverted(raw)
        expression = expression.substitute(found, raw)


def _converted(frame: Any, steps: list[Any]) -> Iterator[str]:
    """Yield the columns of a frame that were no text before Dask converted them."""
    own = frame.dtypes if frame.ndim == 2 else {frame.name: frame.dtype}
    texts = {column for column, dtype in own.items() if isinstance(dtype, pd.StringDtype)}
    for step in steps:
        if type(step).__name__ != "FromPandas":
            continue
        source = getattr(step.frame, "_data", step.frame)
        columns = source.items() if isinstance(source, pd.DataFrame) else [(source.name, source)]
        for column, values in columns:
            if column not in texts or values.dtype != object:
                continue
            if any(not isinstance(value, str) for value in values.dropna().head(1)):
                yield str(column)
