"""The ranks of a fit: what each has of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hedgerow.arrays import FloatArray
from hedgerow.comm.base import Alone, Communicator
from hedgerow.objectives.global_sums import AllRows

if TYPE_CHECKING:
    from hedgerow.growing.chunks.exchange import GrowMode


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """The ranks that train a model together.

    Attributes
    ----------
    communicator : Communicator
        By default this process trains alone.
    mode : {"data", "features"}
        What is divided between ranks: rows, or histograms of rows that all ranks have.
    first_row : int
        Number of training rows of lower ranks.
    """

    communicator: Communicator = field(default_factory=Alone)
    mode: GrowMode = "data"
    first_row: int = 0

    @property
    def others(self) -> Communicator:
        """The ranks that have other rows."""
        return self.communicator if self.mode == "data" else Alone()

    def rows(self, target: FloatArray, weight: FloatArray | None) -> AllRows:
        """Return the rows of all ranks."""
        return AllRows(target, weight, communicator=self.others)
