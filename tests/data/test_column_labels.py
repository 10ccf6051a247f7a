"""Column labels that are not text are ignored with a warning."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from hedgerow.data import Column, Schema, read_table
from hedgerow.data.sources.batches import read_columns
from hedgerow.errors import HedgerowWarning


@pytest.mark.parametrize(
    "labels",
    [[1, 0], [2010, 2020], [1.5, 0.5], [("a", 1), ("a", 2)], pd.to_datetime(["2020", "2021"])],
)
def test_labels_that_are_no_text_and_have_no_effect_are_reported(labels):
    frame = pd.DataFrame(np.ones((2, 2)))
    frame.columns = labels
    for schema in (None, Schema((Column("x0"), Column("x1")))):
        with pytest.warns(HedgerowWarning, match="labels .* matched by position"):
            table = read_table(frame, schema)
        assert table.schema.names == ("x0", "x1")
    with pytest.warns(HedgerowWarning, match="matched by position"):
        read_columns(frame)
    frame.columns = list(map(str, labels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(frame)
        read_table(pd.DataFrame(np.ones((2, 2))))
        read_columns(pd.DataFrame(np.ones((2, 2))))
