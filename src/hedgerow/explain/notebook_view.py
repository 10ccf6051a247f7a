"""The view of an Explanation in a notebook: outputs, base value, the most important columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import shown_name
from hedgerow.notebook import html_table, some_of

if TYPE_CHECKING:
    from hedgerow.explain.explanation import Explanation

MOST_BARS = 10


def view_of_explanation(found: Explanation) -> str:
    """Return the view: of several outputs, a bar is the mean over the outputs."""
    outputs = found.output_names
    facts = {
        "rows": f"{len(found):,}",
        "columns": f"{len(found.feature_names):,}",
        "outputs": f"{len(outputs):,}: {some_of(outputs)}" if outputs else "one raw score",
        "base value": _base_value(found),
        "bars": "mean absolute value" + (", mean of the outputs" if outputs else ""),
    }
    return html_table("Explanation", facts, _bars(found))


def _base_value(found: Explanation) -> str:
    """Return the base value of each output; with offsets, its mean over the rows."""
    base = found.base_values
    by_row = base.ndim > (1 if found.output_names else 0)
    if by_row and len(base) == 0:
        return "none, as there are no rows"
    numbers = np.atleast_1d(base.mean(axis=0) if by_row else base)
    return some_of([f"{number:.6g}" for number in numbers]) + (", mean of the rows" * by_row)


def _bars(found: Explanation) -> list[tuple[str, float]]:
    """Return the most important columns, or pairs of columns, with their importance."""
    if len(found) == 0:
        return []
    sizes = found.importance()
    if found.output_names:
        sizes = sizes.mean(axis=-1)
    names = [shown_name(name) for name in found.feature_names]
    if not found.interactions:
        return [(names[k], float(sizes[k])) for k in _largest(sizes)]
    first, second = np.triu_indices(len(names))
    # Half of the joint contribution of two columns is at each of their two positions.
    pairs = np.where(first == second, 1.0, 2.0) * sizes[first, second]
    return [
        (
            names[first[k]] if first[k] == second[k] else f"{names[first[k]]} x {names[second[k]]}",
            float(pairs[k]),
        )
        for k in _largest(pairs)
    ]


def _largest(sizes: FloatArray) -> list[int]:
    order = np.argsort(-sizes, kind="stable")[:MOST_BARS]
    return [int(k) for k in order if sizes[k] > 0]
