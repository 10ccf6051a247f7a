"""Rows that belong together: queries of rankings, and groups; which rows are held out.

Queries are numbered in order of first occurrence, so their names do not affect the model.  Rows of
one patient or day are alike: if some train the model and others validate it, the fit stops too
late.  So a group is on one side.  The groups with the smallest hashes of value and seed are held
out, so the choice does not depend on the order of the rows or on other groups.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray, distinct
from hedgerow.boosting.row_data.checks import number_values
from hedgerow.boosting.validation.stopping import (
    VALIDATION_STREAM,
    StoppingParams,
    queries_aside,
    rows_aside,
)
from hedgerow.comm.base import Alone, Communicator, gather_numbers
from hedgerow.cuda.arrays import host_array
from hedgerow.errors import DataError, DataTypeError, HedgerowWarning, ParameterError
from hedgerow.kernels.primitives.hashing import hash_numbers
from hedgerow.metrics import Metric, metrics_of_queries
from hedgerow.metrics.queries import first_seen, query_rows
from hedgerow.objectives import Objective
from hedgerow.objectives.catalogue import scored_as, task_of
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.loop.sample import Sample
    from hedgerow.boosting.loop.scored import Ranks
    from hedgerow.boosting.row_data.row_values import RowValues

GroupKeys: TypeAlias = npt.NDArray[np.uint64]


def read_qid(qid: Any, n_rows: int, name: str = "qid") -> IntArray:
    """Return int64 numbers of the queries of the rows, in order of first occurrence."""
    return first_seen(number_values(qid, n_rows, name, "its query")[0])


def read_groups(groups: Any, n_rows: int, name: str = "groups") -> GroupKeys:
    """Return a hash of the group of each row."""
    codes, values = number_values(groups, n_rows, name, "its group")
    keys = np.array([_hash(value, name) for value in values], dtype=np.uint64)
    return keys[codes]


def _hash(value: Any, name: str) -> int:
    """Return a 64-bit hash of a value, the same in every process."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not value.is_integer():
        text = f"number {value.hex()}"
    elif isinstance(value, bool | int | float):
        text = f"number {int(value)}"
    elif object.__repr__(value) == str(value):
        raise DataTypeError(
            f"{name} must hold numbers, text or dates; got an object of {type(value).__name__}, "
            "whose text is its address: fits would not repeat. Number the objects."
        )
    else:
        text = f"{'text' if isinstance(value, str) else type(value).__name__} {value}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def gathered_queries(parts: Sequence[GroupKeys], others: Communicator) -> IntArray:
    """Number the queries of parts of the rows, the same on all ranks: in order of occurrence."""
    own = np.concatenate([np.zeros(0, np.uint64), *parts])
    first = np.sort(np.unique(own, return_index=True)[1])
    known = gather_numbers(own[first].view(np.int64), others).view(np.uint64)
    return first_seen(np.concatenate([known, own]))[len(known) :]


def joined_queries(parts: Sequence[IntArray]) -> IntArray:
    """Renumber the queries of several tables so that no two tables share one."""
    sizes = [int(part.max(initial=-1)) + 1 for part in parts]
    starts = accumulate(sizes[:-1], initial=0)
    return np.concatenate([part + start for part, start in zip(parts, starts, strict=True)])


def weight_of_rows(weight: Any, qid: Any, n_rows: int, name: str = "sample_weight") -> Any:
    """Return one weight for each row; those of queries are expanded to their rows."""
    if qid is None or weight is None or isinstance(weight, Mapping):
        return weight  # a mapping is refused as any other that is no array
    given = host_array(weight)
    if given.ndim != 1 or len(given) == n_rows:
        return weight
    codes = read_qid(qid, n_rows)
    n_queries = int(codes.max(initial=-1)) + 1
    if len(given) != n_queries:
        raise DataError(
            f"{name} has {len(given)} values for {n_rows} rows of {n_queries} queries: give one "
            "for each row, or one for each query in the order in which the queries first occur."
        )
    return given[codes]


def require_queries(
    qid: Any, name: str = "qid", method: str = "fit", ranking: str = "a ranking"
) -> None:
    """Raise ``DataError`` if a ranking has no queries, the argument ``name`` of ``method``."""
    if qid is None:
        raise DataError(
            f"{ranking} compares the rows of each query, but {name} is missing: {method}(..., "
            f"{name}=...) takes one value for each row, a number or text, the same for rows that "
            "compete with each other. If all rows are one list, give all the same value."
        )


def check_values(
    train: RowValues,
    validation: Sequence[RowValues],
    objective: Objective,
    params: BoostParams,
    stopping: StoppingParams,
    *,
    has_validation: bool = False,
    has_folds: bool = False,
    others: Communicator | None = None,
) -> None:
    """Raise an error for values without effect on this fit, and for those that it lacks."""
    # ``has_validation``: whether there are validation rows that are not given here. ``has_folds``:
    # whether the user gives folds. ``others``: ranks with the other rows.
    ranking, others = scored_as(objective) == "ranking", others or Alone()
    name, instead = "groups" if train.time is None else "time", ""
    if train.group is not None and train.time is not None:
        raise ParameterError(
            "time and groups cannot be combined: give folds=, pairs of row numbers that divide no "
            "group and test later rows, or leave one of them out."
        )
    if ranking:
        instead = "rankings hold out complete queries"
    elif has_folds and train.time is not None:
        instead = "folds= says which rows are held out"
    elif has_validation or len(validation) > 0:
        instead = "validation rows are given"
    elif not stopping.is_on(False):
        instead = (
            f"early_stopping={stopping.early_stopping!r} holds out no rows of this fit (True and "
            f"'cv' hold out {'complete groups' if name == 'groups' else 'later rows'})"
        )
    if instead and (train.group is not None or train.time is not None):
        raise ParameterError(f"{name} has no effect here: {instead}. Leave {name} out.")
    for rows in (train, *validation):
        if ranking:
            of = "" if rows is train else ", for the validation rows,"
            require_queries(rows.query, "qid", "Dataset", f"objective {objective.name!r}{of}")
        elif rows.query is not None:
            raise queries_without_effect(objective)
    if ranking and params.oob_score:
        raise ParameterError(
            "out-of-bag rows are parts of queries, which cannot be scored: use oob_score=False, "
            "and validation rows for early stopping."
        )
    what, so = "groups", "groups has no effect: rows that belong together need the same value"
    if ranking:
        what = "queries in qid"
        so = "there is nothing to rank: rows that compete with each other need the same qid"
    values = train.query if ranking else train.group
    if values is not None and others.size == 1 and len(distinct(values)) == len(values) > 1:
        warnings.warn(
            f"each of the {len(values)} {what} has one row, so {so}.", HedgerowWarning, stacklevel=2
        )


def queries_without_effect(objective: Objective) -> ParameterError:
    """Return the error for queries of a loss that does not use them."""
    return ParameterError(
        f"qid has no effect with objective {objective.name!r}: use 'lambdarank' or another "
        "objective of rankings, or leave it out."
    )


def split_sample(
    train: Sample,
    objective: Objective,
    stopping: StoppingParams,
    seed: int,
    others: Communicator | None = None,
) -> tuple[IntArray, IntArray]:
    """Divide the rows of this rank into training and held-out rows."""
    others, fraction, target = others or Alone(), stopping.validation_fraction, train.target
    stratify = task_of(objective) != "regression" and target.ndim == 1
    if train.query is not None:
        aside = queries_aside(train.query, fraction, seed, others)
    elif train.group is not None:
        hashes = partial(hash_numbers, seed, VALIDATION_STREAM)
        aside = first_values_aside(train.group, target, fraction, stratify, others, hashes)
    elif train.time is not None:
        aside = first_values_aside(train.time, target, fraction, stratify, others, np.negative)
    else:
        aside = rows_aside(target, fraction, stratify, seed, others)
    return np.flatnonzero(~aside), np.flatnonzero(aside)


def first_values_aside(
    keys: AnyArray,
    target: FloatArray,
    fraction: float,
    stratify: bool,
    others: Communicator,
    key_of: Callable[[AnyArray], AnyArray],
) -> BoolArray:
    """Hold out the rows whose values come first in the order of their keys."""
    own, codes, counts = np.unique(keys, return_inverse=True, return_counts=True)
    values, places = np.unique(gather_numbers(own, others), return_inverse=True)
    sizes = np.bincount(places.reshape(-1), gather_numbers(counts.astype(np.int64), others))
    if len(values) < 2:
        raise DataError(
            "early stopping holds out groups or later rows, but all rows are in one group, or of "
            "one time: give validation rows (X_val, y_val) or use early_stopping=False."
        )
    order = np.argsort(key_of(values), kind="stable")
    filled = np.cumsum(sizes[order])
    count = 1 + int(np.argmin(np.abs(filled - fraction * sizes.sum())))
    aside = np.zeros(len(values), dtype=np.bool_)
    aside[order[: min(count, len(values) - 1)]] = True
    code_of_all = np.searchsorted(values, own)[codes.reshape(-1)]
    if stratify:
        _keep_classes(aside, order, code_of_all, target, others)
    return aside[code_of_all]


def _keep_classes(
    aside: BoolArray, order: IntArray, codes: IntArray, target: FloatArray, others: Communicator
) -> None:
    """Leave a group of each class in training; ``codes`` are the groups of this rank's rows."""
    labels, label = np.unique(target, return_inverse=True)
    pairs = distinct(codes * max(1, len(labels)) + label.reshape(-1))
    group, place = np.divmod(pairs, max(1, len(labels)))
    group, classes = gather_numbers(group, others), gather_numbers(labels[place], others)
    rank = np.empty(len(aside), dtype=np.int64)
    rank[order] = np.arange(len(aside))
    for value in distinct(classes):
        holding = group[classes == value]
        if aside[holding].all():  # the last of them in hash order stays with training
            aside[holding[np.argmax(rank[holding])]] = False
    if not aside.any():
        raise DataError(
            "early stopping holds out groups or later rows, but each candidate group holds all "
            "rows of a class: give validation rows (X_val, y_val) or use early_stopping=False."
        )


def bound_metrics(
    metrics: Sequence[Metric],
    scored: Sample,
    objective: Objective,
    others: Communicator | None = None,
) -> tuple[Metric, ...]:
    """Bind the metrics of a ranking to the queries of the scored rows, of all ranks."""
    from hedgerow.objectives.ranking.losses import RankingLoss

    if not isinstance(objective, RankingLoss):
        return tuple(metrics)
    query = scored.query
    if query is not None and others is not None:
        query = gather_numbers(query, others)
    n_rows = scored.n_rows if query is None else len(query)
    return metrics_of_queries(metrics, objective, query_rows(query, n_rows))


def with_queries(
    objective: Objective, train: Sample, seed: int, n_threads: int, ranks: Ranks | None = None
) -> Objective:
    """Return a ranking loss for the queries of the training rows; other losses unchanged."""
    from hedgerow.objectives.ranking.losses import RankingLoss

    if not isinstance(objective, RankingLoss):
        return objective
    if ranks is None or ranks.others.size == 1:
        return objective.of_queries(query_rows(train.query, train.n_rows), seed, n_threads)
    from hedgerow.objectives.ranking.complete import CompleteQueries

    assert train.query is not None
    complete = CompleteQueries(
        train.query, train.target, train.weight, ranks.first_row, ranks.others
    )
    return objective.on_ranks(complete, seed, n_threads)
