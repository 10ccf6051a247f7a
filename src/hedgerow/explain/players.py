"""The players of a game: which columns stand behind what the trees split.

All inputs of one column are one player: a column takes part as a whole.  Statistics of two
columns are a player of their own, whose value is halved between the two::

    inputs      age   mean of city   rows of city   mean of city x job
    players      0         1              1                 2
    columns     age       city           city          city and job, half each
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Players:
    """The players of a forest.

    Attributes
    ----------
    of_input : int64, one per input
        Its player; -1 where no split or term asks for the input.
    columns : int64, shape (n_players, 2)
        Columns of each player; the second is -1 where there is one.
    n_columns : int
        Columns of the user's table.
    """

    of_input: IntArray
    columns: IntArray
    n_columns: int

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.columns)


def find_players(
    asked: IntArray, sources: Sequence[tuple[int, ...]] | None, n_columns: int
) -> Players:
    """The players that the asked inputs are made of, ascending by their columns.

    Parameters
    ----------
    asked : int64
        Inputs that a forest asks for, ascending.
    sources : sequence of tuple of int, or None
        One or two columns of each input; None where inputs are the columns.
    n_columns : int
    """
    n_inputs = n_columns if sources is None else len(sources)
    origin = np.full((n_inputs, 2), -1, dtype=np.int64)
    if sources is None:
        origin[:, 0] = np.arange(n_columns)
    else:
        for number, source in enumerate(sources):
            origin[number, : len(source)] = source
    columns, player = np.unique(origin[asked], axis=0, return_inverse=True)
    of_input = np.full(n_inputs, -1, dtype=np.int64)
    of_input[asked] = player.reshape(-1)
    return Players(of_input, columns.reshape(-1, 2), n_columns)
