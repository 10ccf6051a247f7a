"""Which rows are held out for validation: complete groups of related rows, or the latest rows.

Rows of one patient, household or day are alike.  If some train the model and others
validate it, the validation loss is too low, and the fit stops too late.  With ``groups``,
all rows of a group are on one side.

Each group gets a hash of its value, mixed with the seed.  The groups with the smallest
hashes are held out, so the choice does not depend on the order of the rows or on
other groups.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray, distinct
from hedgerow.boosting.row_data.checks import number_values
from hedgerow.boosting.validation.stopping import VALIDATION_STREAM, StoppingParams, hash_numbers
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.errors import DataError, DataTypeError, HedgerowWarning, ParameterError

if TYPE_CHECKING:
    from hedgerow.boosting.row_data.row_values import RowValues

GroupKeys: TypeAlias = npt.NDArray[np.uint64]


def read_groups(groups: Any, n_rows: int, name: str = "groups") -> GroupKeys | None:
    """Return a hash of the group of each row."""
    if groups is None:
        return None
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


def check_held_out(
    rows: RowValues,
    *,
    has_validation: bool,
    is_ranking: bool,
    stopping: StoppingParams,
    has_folds: bool = False,
    others: Communicator | None = None,
) -> None:
    """Raise ``ParameterError`` if groups or times are given but no rows are held out by them."""
    keys, name = rows.group, "groups" if rows.time is None else "time"
    if keys is None and rows.time is None:
        return
    if keys is not None and rows.time is not None:
        raise ParameterError(
            "time and groups cannot be combined: give folds=, pairs of row numbers that divide no "
            "group and test later rows, or leave one of them out."
        )
    instead = ""
    if is_ranking:
        instead = "rankings hold out complete queries"
    elif has_folds and keys is None:
        instead = "folds= says which rows are held out"
    elif has_validation:
        instead = "validation rows are given"
    elif not stopping.is_on(False):
        instead = (
            f"early_stopping={stopping.early_stopping!r} holds out no rows of this fit (True and "
            f"'cv' hold out {'complete groups' if name == 'groups' else 'later rows'})"
        )
    if instead:
        raise ParameterError(f"{name} has no effect here: {instead}. Leave {name} out.")
    if keys is None:
        return
    if (others is None or others.size == 1) and len(keys) > 1 and len(distinct(keys)) == len(keys):
        warnings.warn(
            f"each of the {len(keys)} groups has one row, so groups has no effect: rows that "
            "belong together need the same value.",
            HedgerowWarning,
            stacklevel=2,
        )


def rows_of_groups_aside(
    keys: GroupKeys,
    target: FloatArray,
    fraction: float,
    stratify: bool,
    seed: int,
    others: Communicator,
) -> BoolArray:
    """Return which rows of this rank are held out, as complete groups of the rows of all ranks."""
    return _aside(keys, target, fraction, stratify, others, lambda values: hash_numbers(
        seed, VALIDATION_STREAM, values))  # fmt: skip


def latest_rows_aside(
    time: FloatArray, target: FloatArray, fraction: float, stratify: bool, others: Communicator
) -> BoolArray:
    """Return which rows of this rank are held out: the latest of all ranks."""
    return _aside(time, target, fraction, stratify, others, np.negative)


def _aside(
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
    sizes = np.zeros(len(values), dtype=np.int64)
    np.add.at(sizes, places.reshape(-1), gather_numbers(counts.astype(np.int64), others))
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
