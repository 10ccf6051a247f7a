"""The players of a game: the columns behind the inputs of the trees.

All inputs of one column are one player, so a column takes part with all of its inputs.
Statistics and crosses of two columns are separate players, whose value is divided equally between
the two columns::

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
        Player of each input; -1 if no split or term uses the input.
    columns : int64, shape (n_players, 2)
        Columns of each player; the second is -1 if there is only one.
    n_columns : int
        Number of columns of the user's table.
    """

    of_input: IntArray
    columns: IntArray
    n_columns: int

    @property
    def number(self) -> int:
        """Number of players."""
        return len(self.columns)


def find_players(
    requested: IntArray, sources: Sequence[tuple[int, ...]] | None, n_columns: int
) -> Players:
    """Return the players behind some inputs, ascending by their columns.

    Parameters
    ----------
    requested : int64
        Inputs that a forest uses, ascending.
    sources : sequence of tuple of int, or None
        One or two columns of each input; None if the inputs are the columns.
    n_columns : int
    """
    n_inputs = n_columns if sources is None else len(sources)
    origin = np.full((n_inputs, 2), -1, dtype=np.int64)
    if sources is None:
        origin[:, 0] = np.arange(n_columns)
    else:
        for number, source in enumerate(sources):
            origin[number, : len(source)] = source
    columns, player = np.unique(origin[requested], axis=0, return_inverse=True)
    of_input = np.full(n_inputs, -1, dtype=np.int64)
    of_input[requested] = player.reshape(-1)
    return Players(of_input, columns.reshape(-1, 2), n_columns)
