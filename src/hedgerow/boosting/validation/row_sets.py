"""Named sets of validation rows: ``{"new": (X, y), "old": (X, y)}``.

All sets are concatenated in one sample, so only the code that scores them handles them
separately::

    rows    0 .. 99   first set     decides early stopping
            100 .. 149   second     has its own curves
            ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from hedgerow.boosting.loop.sample import RowSets, Sample
from hedgerow.boosting.loop.scored import ScoredRows
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.row_values import ROW_VALUES, Given, RowValues, joined
from hedgerow.data import AnyTable, SparseTable, Table
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief

if TYPE_CHECKING:
    from hedgerow.boosting.external.file_dataset import FileDataset

ONLY = "validation"
"""Name of validation rows without a name."""

TRAINING = "train"

ValidRows: TypeAlias = "Dataset | Mapping[str, Dataset] | None"
"""Validation rows: none, one set, or several by name; the first set decides."""
_TAKEN = (TRAINING, "out_of_bag", "cv")
"""Names that the history reserves for other rows."""


def validation_sets(X_val: Any, y_val: Any, given: Given) -> dict[str, Dataset]:
    """Return the sets of validation rows in the arguments of ``fit``, by name."""
    of_fit = {value.name: f"{value.of_fit}_val" for value in ROW_VALUES}
    beside = [of_fit[name] for name, value in given.items() if value is not None]
    if X_val is None:
        if y_val is not None:
            raise DataError("y_val is given without X_val: give both or neither.")
        for name in beside:
            raise DataError(f"{name} is given without X_val and y_val.")
        return {}
    if y_val is not None:
        return {ONLY: Dataset(X_val, y_val, **given)}
    are_sets = isinstance(X_val, Mapping) and all(
        isinstance(rows, Dataset) or (isinstance(rows, tuple) and len(rows) in (2, 3))
        for rows in X_val.values()
    )
    if not are_sets or not X_val:
        raise DataError(
            "X_val is given without y_val: give both or neither, or several sets by name, "
            "X_val={'new': (X, y), 'old': (X, y, weight)}; a Dataset holds offset and qid, too."
        )
    for name in beside:
        raise DataError(
            f"{name} is given, but each of several sets of validation rows has its own: "
            "X_val={'new': Dataset(X, y, weight=..., offset=..., qid=...)}."
        )
    check_set_names(X_val)
    return {
        name: rows if isinstance(rows, Dataset) else Dataset(*rows) for name, rows in X_val.items()
    }


def reads_batches(rows: object) -> TypeGuard[FileDataset]:
    """Return whether rows are read from files or batches, not held in memory."""
    return isinstance(rows, Dataset) and rows.reads_batches


def named_valid(valid: ValidRows) -> Mapping[str, Dataset]:
    """Return the sets of validation rows by name."""
    if valid is None:
        return {}
    if isinstance(valid, Mapping):
        check_set_names(valid)
        return valid
    return {ONLY: valid}


def check_set_names(sets: Mapping[Any, Any]) -> None:
    """Raise an error unless the names of validation sets are non-empty, unreserved texts."""
    for name in sets:
        if not isinstance(name, str) or not name:
            raise DataTypeError(
                f"names of validation rows must be non-empty text; got {brief(name)}."
            )
        if name in _TAKEN:
            how = " Scores of the training rows: train_scores=True." if name == TRAINING else ""
            raise ParameterError(
                f"validation rows cannot have the name {name!r}: it belongs to the learning curves "
                f"of other rows.{how}"
            )


def stacked(samples: Mapping[str, Sample]) -> Sample:
    """Concatenate all sets in one sample."""
    names, parts = tuple(samples), list(samples.values())
    sizes = [part.n_rows for part in parts]
    starts = tuple(accumulate(sizes[:-1], initial=0))
    sets = RowSets(np.repeat(np.arange(len(parts)), sizes), names, starts)
    if len(parts) == 1:
        return replace(parts[0], sets=sets)
    return Sample.of(
        stack_tables([part.table for part in parts]),
        np.concatenate([part.target for part in parts]),
        joined(parts, sizes, names),
        sets=sets,
    )


def stack_tables(tables: list[AnyTable]) -> AnyTable:
    """Concatenate tables with one schema, all sparse or none."""
    dense = [table for table in tables if isinstance(table, Table)]
    if len(dense) == len(tables):
        unseen = sum((Counter(table.unseen) for table in dense), Counter[str]())
        return Table(np.concatenate([table.values for table in dense]), dense[0].schema, unseen)
    sparse = [table for table in tables if isinstance(table, SparseTable)]
    if len(sparse) < len(tables):
        raise DataError(
            "some sets of validation rows are sparse and others are not: give all in the same form."
        )
    lengths = np.concatenate([np.diff(table.row_start) for table in sparse])
    return SparseTable(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([table.column for table in sparse]),
        np.concatenate([table.value for table in sparse]),
        sparse[0].schema,
    )


def parts_of(sample: Sample) -> list[ScoredRows]:
    """Return the rows of each set; rows without sets count as one set."""
    if sample.sets is None:
        return [ScoredRows(ONLY, sample)]
    names, codes = sample.sets.names, sample.sets.codes
    if len(names) == 1:
        return [ScoredRows(names[0], sample)]
    starts = np.searchsorted(codes, np.arange(len(names) + 1))
    places = [slice(int(a), int(b)) for a, b in pairwise(starts)]
    return [
        ScoredRows(name, _part(sample, place), columns=place)
        for name, place in zip(names, places, strict=True)
    ]


def _part(sample: Sample, place: slice) -> Sample:
    rows = np.arange(place.start, place.stop)
    table = sample.table
    return Sample.of(
        Table(table.values[place], table.schema) if isinstance(table, Table) else table.take(rows),
        sample.target[place],
        RowValues.take(sample, place),
        rows if sample.origin is None else sample.origin[place],
        None if sample.sets is None else sample.sets.take(rows),
    )
