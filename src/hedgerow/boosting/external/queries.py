"""Values of rows that arrive in parts and may be divided between ranks.

Queries, and groups of rows, are held out completely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hedgerow.arrays import BoolArray
from hedgerow.boosting.external.external_sample import Choose
from hedgerow.boosting.row_data.row_values import RowValues
from hedgerow.comm.base import Communicator, count_rows

if TYPE_CHECKING:
    from hedgerow.boosting.external.dataset.file_dataset import FileDataset


class DividedValues(NamedTuple):
    """Further values of the rows of this rank, of which some may be held out.

    values  of all rows of positive weight
    aside   bool (n_rows,): whether each row is held out; None if none is
    """

    values: RowValues
    aside: BoolArray | None

    @staticmethod
    def of(data: FileDataset, set_aside: Choose | None) -> DividedValues:
        """Divide the values of surveyed rows as ``set_aside`` divides the rows."""
        values = data.surveyed_values
        if set_aside is None or not values.present:
            return DividedValues(values, None)
        row, parts = count_rows(data.n_counted, data.communicator)[0], [np.zeros(0, np.bool_)]
        for target in data.surveyed_targets():
            parts.append(set_aside(row, target))
            row += len(target)
        return DividedValues(values, np.concatenate(parts))

    @property
    def of_training(self) -> RowValues:
        """Values of the rows that are not held out."""
        return self.values if self.aside is None else self.values.take(~self.aside)

    @property
    def of_held_out(self) -> RowValues:
        """Values of the rows that are held out."""
        return RowValues() if self.aside is None else self.values.take(self.aside)


def chosen_by(aside: BoolArray, others: Communicator) -> Choose:
    """Return a function that chooses the rows of this rank for which ``aside`` is True."""
    before, _ = count_rows(len(aside), others)
    return lambda first_row, some: aside[first_row - before : first_row - before + len(some)]
