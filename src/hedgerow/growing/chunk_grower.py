"""Growing trees on rows in chunks, on one process or on several: the trees of ``TreeGrower``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.row_store import Chunk, RowStore
from hedgerow.growing.tree import GrownTree
from hedgerow.objectives.base import Objective
from hedgerow.params import BoostParams

GrowMode = Literal["data", "features"]
Visit = Callable[[Chunk], None]


class ChunkGrower:
    """Grows the trees of one fit on the chunks of a store.

    Parameters
    ----------
    store : RowStore
        Its :meth:`~hedgerow.data.row_store.RowStore.begin` is called here.
    objective : Objective
    params : BoostParams
        Resolved, as for :class:`hedgerow.growing.grower.TreeGrower`.
    n_threads : int, default=1
        Helpers are started at once; :meth:`close` ends them.
    communicator : Communicator, optional
        The other ranks; default: there are none.
    mode : {"data", "features"}, default="data"
        What is divided between ranks.  ``"data"``: each has its own rows.
        ``"features"``: each has all rows and builds the histograms of some columns.
    adds_scores : bool, default=True
        Add each tree to the raw scores, see :meth:`settle`.  False: the caller does
        (:meth:`add`).
    n_copies : int, default=1
        As for ``TreeGrower``.

    Raises
    ------
    ParameterError
        For what cannot be done in chunks; the message names the parameter.
    CommunicationError
        From any method but :meth:`close`, when another rank is lost; the grower must
        not be used afterwards, other than to close it.

    Notes
    -----
    All ranks call the same methods in the same order; construction, :meth:`grow` and
    :meth:`search_leaves` talk to the others.
    """

    def __init__(
        self,
        store: RowStore,
        objective: Objective,
        params: BoostParams,
        n_threads: int = 1,
        communicator: Communicator | None = None,
        mode: GrowMode = "data",
        adds_scores: bool = True,
        n_copies: int = 1,
    ) -> None:
        self._store = store
        self._others = Alone() if communicator is None else communicator
        raise NotImplementedError

    @property
    def n_rows(self) -> int:
        """Rows of all ranks."""
        raise NotImplementedError

    def start(self, base: FloatArray) -> None:
        """Set every raw score to ``base[output]``, plus the row's offset if it has one.

        Done when chunks are next visited, as :meth:`add` is.
        """
        raise NotImplementedError

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow tree number ``tree`` for ``output`` on the gradients at the raw scores."""
        raise NotImplementedError

    def add(self, tree: GrownTree, output: int) -> None:
        """Add the values of a tree, any tree, to the raw scores of all rows.

        Done when chunks are next visited: by :meth:`grow`, in the pass that computes
        gradients, or by :meth:`settle`.
        """
        raise NotImplementedError

    def settle(self, before: Visit | None = None, after: Visit | None = None) -> None:
        """Bring the raw scores up to date, in one pass over the chunks if one is needed.

        Parameters
        ----------
        before, after : callable, optional
            Called with each chunk of this rank before and after its scores are
            brought up to date; with either the pass is made in any case.
        """
        raise NotImplementedError

    def rows_outside(self, chunk: Chunk) -> RowArray:
        """Places in the chunk of the rows that the last tree was not grown on."""
        raise NotImplementedError

    def leaf_segments(self, chunk: Chunk) -> tuple[RowArray, IntArray, IntArray]:
        """Rows of the chunk by leaf of the last tree: rows, leaves, starts.

        As :func:`hedgerow.growing.setup.segments_of`, but leaves without a row in the
        chunk are there too, with two equal starts.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End the helpers; the grower must not be used afterwards.  The store stays open."""
        raise NotImplementedError
