"""Checks of options that rows read in batches do not support."""

from __future__ import annotations

from dataclasses import replace

from hedgerow.boosting.row_data.targets import check_n_targets, check_same_targets
from hedgerow.data.sources.base import Roles
from hedgerow.data.sparse import AnyTable
from hedgerow.errors import AllRowsNeededError
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams


def check_device(params: BoostParams) -> None:
    """Reject a GPU, which needs all rows in memory."""
    if params.device == "cuda":
        raise AllRowsNeededError(
            "device='cuda' needs all rows in memory: give the rows as a table, or use "
            "device='cpu', which gives the same model."
        )


def targets_in_order(roles: Roles, objective: Objective | None) -> Roles:
    """Return the roles with the targets in the order of those of ``objective``."""
    check_n_targets(max(1, len(roles.targets)), objective)
    if not (isinstance(objective, SeveralTargets) and objective.named):
        return roles
    if not (roles.further and roles.named):
        return roles
    check_same_targets(roles.targets, objective.names, "target")
    first, *others = objective.names
    return replace(roles, target=first, further=tuple(others))


def check_parts(data: object, params: BoostParams) -> None:
    """Before rows are read, reject options that trees on rows in parts do not support.

    Later checks cover options that depend on the rows.  ``data`` is None for rows on a cluster,
    which are never a single chunk.
    """
    check_device(params)
    if data is None and params.tree_method != "hist":
        raise AllRowsNeededError(
            f"tree_method={params.tree_method!r} sorts complete columns, which no worker of a "
            "cluster has: use tree_method='hist', or one worker."
        )


def check_backoff(table: AnyTable) -> None:
    """Raise ``AllRowsNeededError`` for validation rows whose prediction stops at an inner node."""
    if table.unseen and table.schema.unknown == "backoff":
        name = next(iter(table.unseen))
        raise AllRowsNeededError(
            f"column {name!r}: a validation row has a category that no training row has. With "
            "unknown_category='backoff' its prediction ends at an inner node, which rows in chunks "
            "do not support: use unknown_category='missing', or a table in memory."
        )
