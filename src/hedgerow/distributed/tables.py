"""Fit of an estimator on ranks that each hold an Arrow table, as tasks of Spark and Ray do.

All ranks run :func:`fit_tables`; the engine only gives each its rows and the addresses of all.
The fitted estimator has the bytes of one that is fitted in one process, to the rows of all ranks
in the order of the ranks.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.callbacks import Callback
from hedgerow.comm.base import Communicator
from hedgerow.distributed.partition import (
    Description,
    Partition,
    add_masses,
    check_descriptions,
    columns_of,
    describe,
    make_partition,
    unique_labels,
)
from hedgerow.distributed.ranks import Shard
from hedgerow.distributed.work import check_for_clusters, fit_divided, joined_labels
from hedgerow.errors import DataError, did_you_mean
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.io import model_from_bytes

VALIDATION = "__hedgerow_validation"
"""Column of booleans that tables have aside: True for validation rows."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of the tables are."""

    # One column of lists of numbers, or several columns; None: all that are nothing else
    features: tuple[str, ...] | None
    label: str
    # Columns of weights, offsets and others, by argument of :class:`hedgerow.Dataset`
    row_values: Mapping[str, str]
    validation: str | None = None  # column of booleans: True for validation rows

    def check(self, names: Sequence[str]) -> None:
        """Raise ``DataError`` if a column is missing."""
        others = (self.label, *self.row_values.values())
        for name in (*(self.features or ()), *others):
            if name not in names:
                raise DataError(f"there is no column {name!r}.{did_you_mean(name, names)}")

    def partition(self, table: Any) -> Partition:
        """Return the rows of an Arrow table."""
        given = {name: _numpy(table[column]) for name, column in self.row_values.items()}
        aside = {self.label, *self.row_values.values(), self.validation, VALIDATION}
        names = self.features or [name for name in table.column_names if name not in aside]
        return make_partition(features_of(table, names), _numpy(table[self.label]), **given)

    def divide(self, table: Any) -> tuple[Partition, Partition | None]:
        """Return the training rows, and the validation rows if there is a column for them."""
        if self.validation is None:
            return self.partition(table), None
        is_valid = _numpy(table[self.validation]).astype(bool)
        rows = [table.filter(_mask(~is_valid)), table.filter(_mask(is_valid))]
        return self.partition(rows[0]), self.partition(rows[1])


def _mask(chosen: AnyArray) -> Any:
    import pyarrow as pa

    return pa.array(chosen)


def _numpy(column: Any) -> AnyArray:
    """Return a column as an array: a column of lists as one with two axes."""
    return lists_of(column) if _is_list(column.type) else np.asarray(column.to_numpy())


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def lists_of(column: Any) -> FloatArray:
    """Return the numbers of a column of lists, which must have the same length in all rows."""
    import pyarrow.compute as pc

    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) > 1 or None in lengths:
        raise DataError(
            "the lists of a column of features have different lengths or are missing "
            f"({', '.join(map(str, lengths[:5]))}): all rows must have the same number of features."
        )
    numbers = pc.list_flatten(column).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers.reshape(len(column), lengths[0] if lengths else -1 if numbers.size else 0)


def features_of(table: Any, names: Sequence[str]) -> Any:
    """Return the features: an array if they are one column of lists, else a table."""
    if len(names) == 1 and _is_list(table.schema.field(names[0]).type):
        return lists_of(table[names[0]])
    return table.select(list(names))


def fit_tables(
    estimator: HedgerowEstimator,
    ranks: Communicator,
    table: Any,
    columns: Columns,
    *,
    n_threads: int = 1,
    memory_limit: int | None = None,
    checkpoint: Sequence[bytes] = (),
    save: Callable[[bytes], None] | None = None,
    callback: Callback | None = None,
) -> bytes:
    """Fit a local estimator to the tables of all ranks; return its file on rank 0."""
    check_for_clusters(estimator)
    # ``table`` is None on a rank that has no rows and does not know the columns.
    table = _with_columns(table, ranks)
    columns.check(table.column_names)
    train, valid = columns.divide(table)
    found = [_all_descriptions(train, ranks)]
    if valid is not None:
        found.append(_all_descriptions(valid, ranks))
    with_rows = [one for described in found for one in described if one.n_rows]
    if not sum(one.n_rows for one in found[0]):
        raise DataError("there are no training rows.")
    first = with_rows[0]
    check_descriptions(with_rows)
    train = _as_wide(train, first.n_features)
    if valid is not None and not sum(one.n_rows for one in found[1]):
        raise DataError(
            f"no row is a validation row: column {columns.validation!r} is False everywhere."
        )
    shard = Shard(
        [train],
        (ranks.rank,),
        n_threads,
        checkpoint,
        save or (lambda content: None),
        more=[] if valid is None else [_as_wide(valid, first.n_features)],
        more_numbers=() if valid is None else (ranks.rank,),
    )
    every = {} if save is None else {"checkpoint_every": 0.0}
    classes, masses = (partial(find, train, ranks) for find in (_labels, _masses))
    fit_divided(
        estimator, first.n_targets, classes, masses,
        lambda work: model_from_bytes(work(ranks, shard))[0],
        memory_limit=memory_limit, **columns_of(first, train.given),
        has_validation=valid is not None, callback=callback, **every,
    )  # fmt: skip
    return b"" if ranks.rank else file_of(estimator)


def _all_descriptions(partition: Partition, ranks: Communicator) -> list[Description]:
    """Return the descriptions of the partitions of all ranks; they have no checksums."""
    own = json.dumps(asdict(describe(partition, with_checksum=False)))
    found = [json.loads(one) for one in ranks.allgather(own.encode())]
    lists = ("n_values", "names", "target_names")
    return [
        Description(**one | {name: one[name] and tuple(one[name]) for name in lists})
        for one in found
    ]


def _with_columns(table: Any, ranks: Communicator) -> Any:
    """Return the table of this rank; an empty one, with the columns of others, if it has none."""
    import pyarrow as pa

    own = b"" if table is None else table.schema.serialize().to_pybytes()
    known = [schema for schema in ranks.allgather(own) if schema]
    if not known:
        raise DataError("there are no rows.")
    return table if table is not None else pa.ipc.read_schema(pa.py_buffer(known[0])).empty_table()


def _as_wide(rows: Partition, n_features: int) -> Partition:
    """Return a partition; without rows, its array gets as many columns as those of other ranks."""
    if isinstance(rows.X, np.ndarray) and not rows.X.size:
        return rows._replace(X=np.zeros((len(rows.y), n_features)))
    return rows


def _labels(train: Partition, ranks: Communicator) -> AnyArray:
    own = unique_labels(train, ranks.rank)
    is_text = own.dtype == object
    content = io.BytesIO()
    np.save(content, own.astype(str) if is_text else own, allow_pickle=False)
    found = []
    for message in ranks.allgather(bytes([is_text]) + content.getvalue()):
        part = np.load(io.BytesIO(message[1:]), allow_pickle=False)
        found.append(part.astype(object) if message[0] else part)
    return joined_labels(found)


def _masses(train: Partition, ranks: Communicator, classes: AnyArray) -> FloatArray:
    masses = np.zeros(len(classes))
    for rank in range(ranks.size):  # in order, so that sums equal the sums of one table
        own = add_masses(masses, train, classes) if rank == ranks.rank else masses
        masses = np.frombuffer(ranks.allgather(own.astype("<f8").tobytes())[rank], "<f8")
    return masses


def file_of(estimator: HedgerowEstimator) -> bytes:
    """Return the bytes that the estimator saves."""
    with tempfile.TemporaryDirectory() as folder:
        estimator.save(Path(folder, "model"))
        return Path(folder, "model").read_bytes()


def estimator_of(kind: type[HedgerowEstimator], content: bytes) -> Any:
    """Return the estimator of a file's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model").write_bytes(content)
        return kind.load(Path(folder, "model"))
