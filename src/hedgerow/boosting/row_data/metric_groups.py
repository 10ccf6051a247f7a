"""Metrics of the scored rows: their groups and queries.

Groups are read for all input rows, before rows of weight 0 are dropped and rows are held
out; :attr:`Sample.origin` then maps each remaining row to its input row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.checks import check_length
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.cuda.arrays import host_array
from hedgerow.data import AnyTable, SparseTable
from hedgerow.data.reading.columns import floats_of_column
from hedgerow.data.schema import position_of
from hedgerow.errors import AllRowsNeededError, DataError, ParameterError
from hedgerow.metrics import Metric, metrics_of_queries
from hedgerow.metrics.groups import GroupScores, bound_to_rows, codes_of
from hedgerow.metrics.queries import query_rows
from hedgerow.objectives import Objective


def read_groups(metrics: Sequence[Metric], given: Sample) -> tuple[Metric, ...]:
    """Attach the group of each row to metrics by group; leave other metrics unchanged."""
    found = []
    for metric in metrics:
        if isinstance(metric.function, GroupScores):
            codes, labels = _codes(metric.function.source, given.table)
            metric = replace(metric, function=replace(metric.function, codes=codes, labels=labels))
        found.append(metric)
    return tuple(found)


def bound_metrics(
    metrics: Sequence[Metric],
    scored: Sample,
    objective: Objective,
    others: Communicator | None = None,
) -> tuple[Metric, ...]:
    """Bind the metrics to the groups and queries of the scored rows; queries are of all ranks."""
    from hedgerow.objectives.ranking.losses import RankingLoss

    found = bound_to_rows(metrics, scored.origin)
    if not isinstance(objective, RankingLoss):
        return found
    query = scored.query
    if query is not None and others is not None:
        query = gather_numbers(query, others)
    n_rows = scored.n_rows if query is None else len(query)
    return metrics_of_queries(found, objective, query_rows(query, n_rows))


def check_watched(metrics: Sequence[Metric], stopping: StoppingParams, stops: bool) -> None:
    """Raise ``ParameterError`` if early stopping would watch several curves at once."""
    if stopping.by_folds and stops:
        refuse_several(metrics)
    first = metrics[0].function
    watched = stops and not stopping.by_out_of_bag
    if watched and isinstance(first, GroupScores) and first.reduce is None:
        raise ParameterError(
            f"early stopping watches the first eval_metric, but {metrics[0].name!r} has one value "
            "for each group: use reduce='worst' or 'mean', or put another metric first."
        )


def refuse_several(metrics: Sequence[Metric]) -> None:
    """Raise ``ParameterError`` for metrics with one value per group: folds may lack groups."""
    for metric in metrics:
        if isinstance(metric.function, GroupScores) and metric.function.reduce is None:
            raise ParameterError(
                f"eval_metric {metric.name!r} has one value for each group, but a fold may lack "
                "rows of some groups: use reduce='worst' or 'mean'."
            )


def refuse_groups(metrics: Sequence[Metric]) -> None:
    """Raise ``AllRowsNeededError`` for metrics by group if the rows are read in batches."""
    for metric in metrics:
        if isinstance(metric.function, GroupScores):
            raise AllRowsNeededError(
                f"eval_metric {metric.name!r} needs the groups of all rows in memory, but the "
                "rows are read in batches: use the metric itself."
            )


def _codes(source: Any, table: AnyTable) -> tuple[IntArray, tuple[Any, ...]]:
    if not isinstance(source, str | int):
        values: AnyArray = host_array(source)
        if values.ndim != 1:
            raise DataError(
                f"groups of a GroupedMetric must be one value for each row; got an array of shape "
                f"{values.shape}."
            )
        check_length(len(values), table.n_rows, "groups of a GroupedMetric")
        return codes_of(values)
    place = position_of(source, table.schema.names, "groups of a GroupedMetric")
    column = table.schema.columns[place]
    if isinstance(table, SparseTable):
        found = table.dense(np.array([place]))[:, 0]
    else:
        found = np.ascontiguousarray(table.values[:, place])
    if found.dtype == np.int64 and column.kind == "int":
        codes, labels = codes_of(found)
        return codes, tuple(None if value == MISSING_KEY else value for value in labels)
    codes, labels = codes_of(floats_of_column(found, column.kind))
    if column.kind == "category":
        known = dict(enumerate(column.levels))
        return codes, tuple(known.get(int(v)) if v == v else None for v in labels)
    return codes, tuple(None if v != v else v for v in labels)
