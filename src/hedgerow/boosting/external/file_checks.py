"""Checks of options that rows read in batches do not support."""

from __future__ import annotations

from hedgerow.boosting.loop.strategy import ALL_OUTPUTS, ONE_OUTPUT
from hedgerow.data.sparse import AnyTable
from hedgerow.errors import AllRowsNeededError, DataError
from hedgerow.params import BoostParams

_NEED_ALL_ROWS = (
    ("linear_leaves", True, "use linear_leaves=False"),
    ("multi_strategy", ALL_OUTPUTS, f"use multi_strategy={ONE_OUTPUT!r}"),
)


def check_trees(params: BoostParams) -> None:
    """Reject trees that can only be grown on a table in memory.

    Raises
    ------
    AllRowsNeededError
    """
    for name, value, instead in _NEED_ALL_ROWS:
        if getattr(params, name) == value:
            raise AllRowsNeededError(
                f"{name}={value!r} needs all rows in memory: give the rows as a table, or "
                f"{instead}."
            )
    if params.forced_splits is not None and params.grow_policy != "symmetric":
        raise AllRowsNeededError(
            "forced_splits need all rows in memory: give the rows as a table, use "
            "grow_policy='symmetric', or leave them out."
        )


def check_bundles(params: BoostParams) -> None:
    """Reject bundle options that need the complete table in memory."""
    if params.bundle_features is True or params.max_conflict_rate > 0.0:
        name = "bundle_features" if params.bundle_features is True else "max_conflict_rate"
        raise AllRowsNeededError(
            f"{name}={getattr(params, name)!r} needs the complete table in memory to choose which "
            "features share a column, but these rows are read from files. Leave it at its default; "
            "without conflicts, bundles do not affect the model."
        )


def check_parts(data: object, params: BoostParams, init_model: object = None) -> None:
    """Before rows are read, reject options that trees on distributed rows do not support.

    Later checks cover options that depend on the rows.

    Raises
    ------
    AllRowsNeededError
    """
    if init_model is not None:
        raise AllRowsNeededError("init_model needs all rows in memory.")
    source = getattr(data, "source", None)
    further = {} if source is None else source.roles.of_rows()
    if further:
        named = ", ".join(f"{role} ({name!r})" for role, name in further.items())
        raise AllRowsNeededError(f"{named}: trees on rows in parts do not support this.")
    check_trees(params)
    check_bundles(params)


def check_backoff(table: AnyTable) -> None:
    """Reject validation rows whose prediction would stop at an inner node."""
    if table.unseen and table.schema.unknown == "backoff":
        name = next(iter(table.unseen))
        raise DataError(
            f"column {name!r}: a validation row has a category that no training row has. With "
            "unknown_category='backoff' its prediction ends at an inner node, which rows in chunks "
            "do not support: use unknown_category='missing', or a table in memory."
        )
