"""The data per row that the survey of targets keeps: target, weight, query, group, position."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.external.dataset.file_rows import Rows
from hedgerow.boosting.external.external_sample import StorePlan
from hedgerow.boosting.external.queries import QueryNumbers
from hedgerow.boosting.loop.sample import Positions
from hedgerow.boosting.row_data.groups import GroupKeys
from hedgerow.boosting.row_data.positions import joined_positions
from hedgerow.comm.base import Communicator, count_rows
from hedgerow.data.sources import Roles


@dataclass(slots=True)
class RowFacts:
    """Facts on the rows of positive weight, in order.

    Attributes
    ----------
    roles : Roles
    targets : list of float64
        The first target of each row, batch by batch.
    weights : list of float64, or None
        None if all weights of all ranks are 1.
    query : int64 (n_rows,), or None
        Query of each row, numbered on all ranks in the same way; None without queries.
    position : Positions or None
        Of each row, with the labels of all ranks; None without positions.
    """

    roles: Roles
    targets: list[FloatArray] = field(default_factory=list)
    weights: list[FloatArray] | None = field(default_factory=list)
    query: IntArray | None = None
    position: Positions | None = None
    _queries: QueryNumbers = field(default_factory=QueryNumbers)
    _groups: list[GroupKeys] = field(default_factory=lambda: [np.zeros(0, np.uint64)])
    _positions: list[Positions] = field(default_factory=list)
    _all_ones: bool = True

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(map(len, self.targets))

    @property
    def group(self) -> GroupKeys | None:
        """Key of the group of each row; None without groups."""
        return None if self.roles.groups is None else np.concatenate(self._groups)

    def add(self, rows: Rows) -> None:
        """Add the next rows."""
        # Copies: a function may give the same arrays for each batch.
        first = rows.target if rows.target.ndim == 1 else rows.target[:, 0]
        self.targets.append(first.copy())
        if rows.weight is not None:
            assert self.weights is not None
            self.weights.append(rows.weight.copy())
            self._all_ones = self._all_ones and bool((rows.weight == 1.0).all())
        if self.roles.qid is not None:
            self._queries.add(rows.others["qid"], rows.part.name)
        if self.roles.groups is not None:
            self._groups.append(rows.groups())
        if self.roles.position is not None:
            self._positions.append(rows.positions())

    def finish(self, communicator: Communicator) -> int:
        """Number queries and positions, drop weights of 1; return the rows of all ranks."""
        if self.roles.qid is not None:
            self.query = self._queries.of_rows(communicator)
        if self.roles.position is not None:
            self.position, self._positions = joined_positions(self._positions, communicator), []
        facts = np.array([self.n_rows, int(not self._all_ones)], dtype=np.int64)
        n_rows, n_weighted = communicator.allreduce(facts).tolist()
        if n_weighted == 0:
            self.weights = None
        return int(n_rows)

    def training_rows(
        self, plan: StorePlan, communicator: Communicator
    ) -> tuple[int, float | None]:
        """Return the number of training rows on earlier ranks, and the largest weight of all."""
        kept = ~plan.held_out(0, self.n_rows)
        first = count_rows(int(kept.sum()), communicator)[0]
        if self.weights is None:
            return first, None
        largest = np.concatenate([np.zeros(0), *self.weights])[kept].max(initial=0.0)
        # Positive floats have the same order as their bits.
        bits = np.array([largest]).view(np.int64)
        return first, float(communicator.allreduce(bits, "max").view(np.float64)[0])
