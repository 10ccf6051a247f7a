"""The crosses that the folds try: those of the numeric columns with the largest gains.

Crosses of all columns would be too many, and most of them noise.  Columns that matter alone are
also those whose products, differences and ratios matter most often: `docs/defaults-experiments.md`
has the measurements.
"""

from __future__ import annotations

from itertools import combinations

from hedgerow.arrays import FloatArray
from hedgerow.data.crosses import OPERATIONS
from hedgerow.data.inputs import Inputs
from hedgerow.data.schema import Schema

MOST_CROSSED = 4
"""Number of columns to cross: 18 crosses.  Three columns gained less on the same tables."""


def strongest_crosses(
    gains: FloatArray, schema: Schema, inputs: Inputs | None
) -> tuple[tuple[str, str, str], ...]:
    """Return all crosses of the numeric columns with the largest gains.

    Parameters
    ----------
    gains : float64 (n_inputs,)
        Sum of the gains of each input of the trees.
    schema : Schema
        Columns of the table.
    inputs : Inputs or None
        Inputs of the trees; None if these are the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data.schema import Column, Schema
    >>> schema = Schema((Column("a"), Column("b"), Column("c")))
    >>> strongest_crosses(np.array([5.0, 0.0, 9.0]), schema, None)
    (('c', 'a', 'product'), ('c', 'a', 'difference'), ('c', 'a', 'ratio'))
    """
    columns = range(schema.n_features) if inputs is None else inputs.kept
    found = {
        j: gain
        for j, gain in zip(columns, gains.tolist(), strict=False)
        if gain > 0.0 and schema.kinds[j] != "category"
    }
    strongest = sorted(found, key=lambda j: -found[j])[:MOST_CROSSED]
    names = [schema.names[j] for j in strongest]
    return tuple(
        (first, second, operation)
        for first, second in combinations(names, 2)
        for operation in OPERATIONS
    )


__all__ = ["MOST_CROSSED", "strongest_crosses"]
