"""What rows that are read batch by batch cannot do."""

from __future__ import annotations

from hedgerow.data.sparse import AnyTable
from hedgerow.errors import DataError, ParameterError
from hedgerow.params import BoostParams


def check_bundles(params: BoostParams) -> None:
    """Refuse what is decided on the whole table in memory."""
    if params.bundle_features is True or params.max_conflict_rate > 0.0:
        name = "bundle_features" if params.bundle_features is True else "max_conflict_rate"
        raise ParameterError(
            f"{name}={getattr(params, name)!r}: which features share a column is found out on the "
            "whole table in memory, and rows are read from files here. Leave it at its default; "
            "without conflicts, bundles are no part of the model."
        )


def check_backoff(table: AnyTable) -> None:
    """Refuse validation rows at which prediction would stop within a tree."""
    if table.unseen and table.schema.unknown == "backoff":
        name = next(iter(table.unseen))
        raise DataError(
            f"column {name!r}: a validation row has a category that no training row has. With "
            "unknown_category='backoff' its prediction ends within a tree, which rows in chunks "
            "do not know: use unknown_category='missing', or a table in memory."
        )
