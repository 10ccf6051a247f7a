"""Named sets of validation rows: ``{"new": (X, y), "old": (X, y)}``.

All sets are concatenated in one sample, so only the code that scores them handles them
separately::

    rows    0 .. 99   first set     decides early stopping
            100 .. 149   second     has its own curves
            ...

Glossary
--------
set      validation rows with a name, which their scores have in the history
part     the rows of one set in the sample of all sets
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import RowSets, Sample
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.data import AnyTable, Schema, SparseTable, Table
from hedgerow.data.sparse import read_any
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief

ONLY = "validation"
"""Name of validation rows without a name."""

TRAINING = "train"
_TAKEN = (TRAINING, "out_of_bag", "cv")
"""Names that the history reserves for other rows."""


@dataclass(frozen=True, slots=True, eq=False)
class ValidationRows:
    """One set of validation rows, as passed by the user.

    Attributes
    ----------
    X, y, weight, offset, qid : any
    is_only : bool
        Whether it was passed as ``X_val`` and ``y_val``, without a name.
    """

    name: str
    X: Any
    y: Any
    weight: Any = None
    offset: Any = None
    qid: Any = None
    is_only: bool = False

    def called(self, argument: str) -> str:
        """Return the name of an argument in messages: ``"y_val"`` or ``"y of X_val['new']"``."""
        if self.is_only:
            return f"{argument}_val"
        return f"{argument} of X_val[{self.name!r}]"

    def read(self, X: Any, schema: Schema, reader: str) -> AnyTable:
        """Read ``X``, the table of the set without offset columns; errors name the set."""
        try:
            return read_any(X, schema, reader=reader)
        except (DataError, DataTypeError) as error:
            error.args = (f"{self.called('X')}: {error}",)
            raise


def validation_sets(
    X_val: Any,
    y_val: Any,
    sample_weight_val: Any = None,
    offset_val: Any = None,
    qid_val: Any = None,
) -> tuple[ValidationRows, ...]:
    """Return the sets of validation rows in the arguments of ``fit``.

    Raise ``DataError`` or ``DataTypeError`` if an argument is passed without the argument
    that it belongs to.

    Parameters
    ----------
    X_val : table, or mapping from str to (X, y), (X, y, weight) or Dataset
    y_val, sample_weight_val, offset_val, qid_val : array-like, optional
        For a table; the values of a mapping contain them.

    Returns
    -------
    tuple of ValidationRows
        The first one decides early stopping; empty without validation rows.

    Examples
    --------
    >>> sets = {"new": ([[1.0]], [2.0]), "old": ([[2.0]], [1.0])}
    >>> [rows.name for rows in validation_sets(sets, None)]
    ['new', 'old']
    """
    beside = {"sample_weight_val": sample_weight_val, "offset_val": offset_val, "qid_val": qid_val}
    if X_val is None:
        if y_val is not None:
            raise DataError("y_val is given without X_val: give both or neither.")
        for name, value in beside.items():
            if value is not None:
                raise DataError(f"{name} is given without X_val and y_val.")
        return ()
    if y_val is not None:
        return (
            ValidationRows(
                ONLY, X_val, y_val, sample_weight_val, offset_val, qid_val, is_only=True
            ),
        )
    if not isinstance(X_val, Mapping) or not X_val or not all(map(_is_set, X_val.values())):
        raise DataError(
            "X_val is given without y_val: give both or neither, or several sets by name, "
            "X_val={'new': (X, y), 'old': (X, y, weight)}; a Dataset holds offset and qid, too."
        )
    for name, value in beside.items():
        if value is not None:
            raise DataError(
                f"{name} is given, but each of several sets of validation rows has its own: "
                "X_val={'new': Dataset(X, y, weight=..., offset=..., qid=...)}."
            )
    check_set_names(X_val)
    return tuple(_validation_rows(name, value) for name, value in X_val.items())


def _is_set(value: Any) -> bool:
    return isinstance(value, Dataset) or (isinstance(value, tuple) and len(value) in (2, 3))


def _validation_rows(name: str, value: Any) -> ValidationRows:
    if isinstance(value, Dataset):
        return ValidationRows(name, value.X, value.y, value.weight, value.offset, value.qid)
    return ValidationRows(name, *value)


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


def stacked(samples: Mapping[str, Sample]) -> Sample | None:
    """Concatenate all sets in one sample; return None if there are none.

    Raise ``DataError`` if only some of them are sparse, or have offsets or queries.
    """
    if not samples:
        return None
    names, parts = tuple(samples), list(samples.values())
    sizes = [part.n_rows for part in parts]
    starts = tuple(accumulate(sizes[:-1], initial=0))
    sets = RowSets(np.repeat(np.arange(len(parts)), sizes), names, starts)
    if len(parts) == 1:
        return replace(parts[0], sets=sets)
    for what in ("offset", "query"):
        given = [getattr(part, what) is not None for part in parts]
        if any(given) and not all(given):
            shown = names[given.index(False)]
            raise DataError(
                f"validation rows {shown!r} have no {what}, but other validation rows do: give it "
                "for all sets, or for none."
            )
    weights = None
    if any(part.weight is not None for part in parts):
        weights = np.concatenate([_weights(part) for part in parts])
    return Sample(
        stack_tables([part.table for part in parts]),
        np.concatenate([part.target for part in parts]),
        weights,
        _joined_offsets(parts),
        _joined_queries(parts),
        sets=sets,
    )


def _weights(part: Sample) -> FloatArray:
    return np.ones(part.n_rows) if part.weight is None else part.weight


def _joined_offsets(parts: list[Sample]) -> FloatArray | None:
    offsets = [part.offset for part in parts if part.offset is not None]
    return np.concatenate(offsets, axis=1) if offsets else None


def _joined_queries(parts: list[Sample]) -> Any:
    """Renumber queries so that sets have no query in common."""
    if parts[0].query is None:
        return None
    found, first = [], 0
    for part in parts:
        assert part.query is not None
        found.append(part.query + first)
        first += int(part.query.max()) + 1
    return np.concatenate(found)


def stack_tables(tables: list[AnyTable]) -> AnyTable:
    """Concatenate tables with one schema.

    Raise ``DataError`` if only some of them are sparse.

    Examples
    --------
    >>> from hedgerow.data import read_table
    >>> first = read_table([[1.0], [2.0]])
    >>> stack_tables([first, read_table([[3.0]], first.schema)]).values.tolist()
    [[1.0], [2.0], [3.0]]
    """
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


def parts_of(sample: Sample) -> list[tuple[str, slice, Sample]]:
    """Return name, range and rows of each set; rows without sets count as one set.

    Values of dense tables are views of the values of the sample.
    """
    if sample.sets is None:
        return [(ONLY, slice(0, sample.n_rows), sample)]
    names, codes = sample.sets.names, sample.sets.codes
    if len(names) == 1:
        return [(names[0], slice(0, sample.n_rows), sample)]
    starts = np.searchsorted(codes, np.arange(len(names) + 1))
    places = [slice(int(a), int(b)) for a, b in pairwise(starts)]
    return [(name, place, _part(sample, place)) for name, place in zip(names, places, strict=True)]


def _part(sample: Sample, place: slice) -> Sample:
    def of(values: AnyArray | None) -> Any:
        return None if values is None else values[place]

    rows = np.arange(place.start, place.stop)
    table = sample.table
    return Sample(
        Table(table.values[place], table.schema) if isinstance(table, Table) else table.take(rows),
        sample.target[place],
        of(sample.weight),
        None if sample.offset is None else np.ascontiguousarray(sample.offset[:, place]),
        of(sample.query),
        rows if sample.origin is None else sample.origin[place],
        sets=None if sample.sets is None else sample.sets.take(rows),
    )
