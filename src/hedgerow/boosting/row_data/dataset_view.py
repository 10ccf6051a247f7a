"""Text of a Dataset for Python and notebooks: the facts known about its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import distinct
from hedgerow.boosting.row_data.targets import has_columns, one_column
from hedgerow.cuda.arrays import on_host
from hedgerow.data.reading.frames import as_frame
from hedgerow.data.schema import ColumnKind, Schema
from hedgerow.data.sources import Source
from hedgerow.data.sources.batches import FunctionPart
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import HedgerowError
from hedgerow.notebook import html_table, some_of

if TYPE_CHECKING:
    from hedgerow.boosting.row_data.dataset import Dataset

MOST_VALUES = 5_000_000
"""A view does not read tables of more values, because reading text takes seconds."""

_KINDS: dict[ColumnKind, str] = {"float": "numeric", "int": "int64", "category": "categorical"}


def view_of_rows(dataset: Dataset) -> str:
    """Return the view of rows in memory; an unreadable part shows its error."""
    facts: dict[str, object] = {"table": type(dataset.X).__name__}
    try:
        facts |= _table(dataset)
    except (HedgerowError, TypeError, ValueError) as error:
        facts["columns"] = error
    facts["target"] = "none" if dataset.y is None else _shown(_target, dataset.y)
    if dataset.weight is not None:
        facts["weight"] = _shown(_weight, dataset.weight)
    if dataset.offset is not None:
        facts["offset"] = some_of(dataset.offset_names) or "an array"
    for name in ("qid", "position", "groups"):
        values = getattr(dataset, name)
        if values is not None:
            facts[name] = _shown(_different, values)
    return html_table("Dataset", facts)


def repr_of_files(source: Source) -> str:
    """Return the ``repr`` of rows in files or batches, without reading them.

    Examples
    --------
    >>> from hedgerow.data.sources.base import Roles
    >>> repr_of_files(Source((FunctionPart(lambda: []),), Roles(target="income")))
    "<Dataset: rows of batches; target 'income'>"
    """
    n_parts = len(source.parts)
    rows = f"{n_parts:,} {'file' if n_parts == 1 else 'files'}"
    if any(isinstance(part, FunctionPart) for part in source.parts):
        rows = "batches"
    target = ", ".join(map(repr, _target_names(source))) or "part of the rows"
    return f"<Dataset: rows of {rows}; target {target}>"


def view_of_files(source: Source, features: tuple[str, ...]) -> str:
    """Return the view of rows in files or batches, without reading them.

    Parameters
    ----------
    features : tuple of str
        Empty if the names are not known yet.
    """
    n_parts, roles = len(source.parts), source.roles
    facts: dict[str, object] = {
        "rows": f"read during a fit, from {n_parts:,} {'part' if n_parts == 1 else 'parts'}",
        "columns": f"{len(features):,}: {some_of(features)}" if features else "not known yet",
        "target": some_of(_target_names(source)) or "part of the rows",
    }
    named = {"weight": roles.weight, "offset": ", ".join(roles.offset) or None}
    named |= {"qid": roles.qid, "position": roles.position, "groups": roles.groups}
    facts |= {role: name for role, name in named.items() if name is not None}
    return html_table("Dataset", facts)


def names_of_parts(source: Source) -> str:
    """Return the name of the first part and the number of the others, for error texts."""
    parts = source.parts
    if not parts:
        return "no files"
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"


def _target_names(source: Source) -> list[str]:
    """Return the columns of the targets; none if batches carry the target themselves."""
    roles = source.roles
    return list(roles.targets)


def _shown(describe: Callable[[Any], str], values: Any) -> str:
    try:
        return describe(values)
    except (HedgerowError, TypeError, ValueError) as error:
        return str(error)


def _table(dataset: Dataset) -> dict[str, object]:
    """Return the numbers of rows and columns, and the kinds of columns of a small table."""
    shape: tuple[int, ...] = getattr(dataset.X, "shape", ())
    n_values = dataset.X.nnz if is_sparse(dataset.X) else np.prod(shape)
    if len(shape) == 2 and n_values > MOST_VALUES:
        return {"rows": f"{shape[0]:,}", "columns": f"{shape[1]:,}"}
    table = dataset.table()
    return {"rows": f"{table.n_rows:,}"} | _columns(table.schema)


def _columns(schema: Schema) -> dict[str, object]:
    counts = Counter(schema.kinds)
    kinds = ", ".join(f"{counts[kind]:,} {name}" for kind, name in _KINDS.items() if counts[kind])
    levels = [
        f"{column.name} ({len(column.levels):,} levels)"
        for column in schema.columns
        if column.kind == "category"
    ]
    facts: dict[str, object] = {"columns": f"{schema.n_features:,} ({kinds})"}
    return facts | ({"categories": some_of(levels)} if levels else {})


def _target(y: Any) -> str:
    """Return the range of numbers, the number of labels, or the names of several targets."""
    if isinstance(y, dict):
        return some_of([str(name) for name in y])
    if has_columns(y):
        frame = None if is_sparse(y) or isinstance(y, np.ndarray | list | tuple) else as_frame(y)
        names = frame.names if frame is not None and frame.named else ()
        n_columns = len(frame.names) if frame is not None else np.shape(y)[1]
        return f"{n_columns} columns" + (f": {some_of(names)}" if names else "")
    values = np.asarray(on_host(one_column(y)))
    if values.dtype.kind not in "biuf" or values.size == 0:
        return _different(y)
    numbers = values.astype(np.float64)
    return f"from {numbers.min():.6g} to {numbers.max():.6g}, mean {numbers.mean():.6g}"


def _weight(weight: Any) -> str:
    if isinstance(weight, dict):
        return f"of {len(weight):,} queries"
    values = np.asarray(on_host(weight))
    if values.dtype.kind not in "biuf":
        return type(weight).__name__
    n_zeros = int((values == 0).sum())
    return f"sum {values.sum():,.6g}" + (f", {n_zeros:,} of 0" if n_zeros else "")


def _different(values: Any) -> str:
    found = np.asarray(on_host(values)).reshape(-1)
    by_numpy = found.dtype.kind in "biufMmUS"
    return f"{len(distinct(found) if by_numpy else set(found.tolist())):,} different values"
