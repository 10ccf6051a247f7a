"""The data per row that the survey of targets keeps: targets, weights and further values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.dataset.file_rows import Rows
from hedgerow.boosting.external.external_sample import StorePlan
from hedgerow.boosting.row_data.row_values import FURTHER, RowValue, RowValues
from hedgerow.comm.base import Communicator, count_rows
from hedgerow.data.sources.base import Roles


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
    values : RowValues
        Further values, numbered on all ranks in the same way.
    """

    roles: Roles
    targets: list[FloatArray] = field(default_factory=list)
    weights: list[FloatArray] | None = field(default_factory=list)
    values: RowValues = field(default_factory=RowValues)
    _parts: dict[str, list[Any]] = field(default_factory=dict)
    _all_ones: bool = True

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(map(len, self.targets))

    @property
    def _further(self) -> list[RowValue]:
        """Values of which the source has columns, beside weights and offsets."""
        return [value for value in FURTHER if value.name in self.roles.of_rows]

    def add(self, rows: Rows) -> None:
        """Add the next rows."""
        # Copies: a function may give the same arrays for each batch.
        first = rows.target if rows.target.ndim == 1 else rows.target[:, 0]
        self.targets.append(first.copy())
        if rows.weight is not None:
            assert self.weights is not None
            self.weights.append(rows.weight.copy())
            self._all_ones = self._all_ones and bool((rows.weight == 1.0).all())
        for value in self._further:
            self._parts.setdefault(value.name, []).append(rows.part_of(value))

    def finish(self, communicator: Communicator) -> int:
        """Join the further values, drop weights of 1; return the rows of all ranks."""
        self.values = RowValues(
            **{
                value.field: value.gather(self._parts.pop(value.name, []), communicator)
                for value in self._further
            }
        )
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
