"""Rows of files with targets: whether they fit into memory, and what kind of task they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.arrays import AnyArray, distinct
from hedgerow.cli.usage import UsageError
from hedgerow.data.categories.columns import nearly_numbers

if TYPE_CHECKING:
    from hedgerow.boosting.external.file_dataset import FileDataset

_MOST_CLASSES_OF_NUMBERS = 10


@contextmanager
def surveyed(data: FileDataset, *, has_labels: bool = True, why: str = "") -> Iterator[FileDataset]:
    """Yield rows of files whose targets are known, for one use; a single target may be text."""
    changes = {"reads_labels": has_labels and data.n_targets == 1, "why": why}
    with closing(data.for_one_use(**changes)) as rows:
        rows.survey()
        yield rows


def guess_task(rows: FileDataset, path: str, name: str) -> tuple[str, str]:
    """Return ``("classification" | "regression", why)`` for the targets of surveyed rows."""
    if rows.n_targets > 1:
        return "regression", f"{rows.n_targets} targets"
    labels = rows.y
    if not labels.are_text:
        return _task_of_numbers(labels.values, has_more=labels.has_more)
    found = nearly_numbers(labels.values.tolist(), labels.masses(rows.row_weight(rows.n_rows)))
    if found and _task_of_numbers(distinct(np.array(found.numbers)))[0] == "regression":
        where = f"{found.odd!r} is none"
        if not rows.is_weighted:  # rows of weight 0 have no number
            row = int(np.argmax(labels.values[labels.places] == found.odd)) + 1
            where = f"row {row} has {found.odd!r}"
        raise UsageError(
            f"{path}: target {name!r} is text, but {found}; {where}: mend or remove such rows, or "
            "use --task classification"
        )
    return "classification", "the target is text"


def _task_of_numbers(values: AnyArray, *, has_more: bool = False) -> tuple[str, str]:
    """Guess the task from the different numbers of a target; ``has_more``: some are left out."""
    n_values = len(values)
    few = not has_more and n_values <= _MOST_CLASSES_OF_NUMBERS
    if few and np.array_equal(values, np.floor(values)):
        return "classification", f"the target has {n_values} distinct whole numbers"
    more = "more than " if has_more else ""
    return "regression", f"the target has {more}{n_values} distinct numbers"


def check_target(rows: FileDataset, task: str, path: str, name: str) -> None:
    """Raise ``UsageError`` if a single target of surveyed rows does not suit the task."""
    if rows.n_targets > 1:
        return
    values = rows.y.values
    if task != "classification":
        if rows.y.are_text:
            raise UsageError(
                f"{path}: target {name!r} holds text ({str(values[0])!r}); {task} needs numbers: "
                "use --task classification, or another --target"
            )
        return
    broken = values[:0] if rows.y.are_text else values[values != np.floor(values)]
    if len(broken):
        raise UsageError(
            f"{path}: target {name!r} holds {broken[0]:g}, which is no class; "
            "classification needs text or whole numbers: use --task regression, or another --target"
        )
