"""Candidates of approximate trees on columns on disk: of a tree, or of each node.

With ``sketch="local"`` each node chooses its candidates while its column is scanned
(:class:`hedgerow.kernels.presorted.stream_cuts.Quantiles`).  With ``sketch="global"`` the root
does so in all columns that the tree may use.  The places of its candidates are kept, and the
other nodes score the cuts at these places.
"""

from __future__ import annotations

import threading

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.kernels.presorted.exact_stream import Candidates
from hedgerow.kernels.presorted.stream_cuts import WAITING_FIELDS, Quantiles
from hedgerow.params import BoostParams

_NO_PLACE = np.iinfo(np.int64).max


class Sketch:
    """The choice of candidates in a fit, and the candidates of the current tree.

    Parameters
    ----------
    eps : float
        Largest distance of candidates, as a share of the hessians of the rows.
    of_tree : bool
        Whether all nodes of a tree share the candidates of its root.
    """

    def __init__(self, eps: float, of_tree: bool) -> None:
        self.eps = eps
        self.of_tree = of_tree
        self._places: dict[int, IntArray] = {}
        self._lock = threading.Lock()

    def begin_tree(self) -> None:
        """Forget the candidates of the tree before."""
        self._places.clear()

    def places(self, column: int) -> IntArray | None:
        """Return places of the candidates that all nodes share, or None before they are chosen."""
        return self._places.get(column)

    def keep(self, column: int, places: IntArray) -> None:
        """Keep the places of the candidates of a column."""
        with self._lock:
            self._places[column] = places


def make_sketch(params: BoostParams) -> Sketch | None:
    """Return the sketch of a fit, or None if every cut is scored."""
    if params.tree_method != "approx":
        return None
    return Sketch(float(params.sketch_eps), params.sketch == "global")


class ColumnCandidates:
    """Choice of the candidates in one column after the other; by one thread.

    Parameters
    ----------
    sketch : Sketch or None
        None: every cut is scored.
    n_slots : int
        Nodes that are searched.
    most : int
        Entries of a piece, at most.
    n_more : int
        Fields of the sums of several outputs; 0 with one.

    Attributes
    ----------
    candidates : Candidates or None
    quantiles : Quantiles or None
        What the scan of the column needs: both are None if every cut is scored.  With several
        outputs ``quantiles`` then makes every cut a candidate, which saves compiled variants.
    """

    def __init__(self, sketch: Sketch | None, n_slots: int, most: int, n_more: int) -> None:
        self._sketch, self._n_slots, self._most, self._n_more = sketch, n_slots, most, n_more
        self._parts: list[IntArray] = []
        self.candidates: Candidates | None = None
        self.quantiles: Quantiles | None = None

    def begin(self, column: int, hessians: IntArray) -> None:
        """Begin a column; ``hessians`` are those of the rows with a value, int64 (slots,)."""
        sketch, n_slots = self._sketch, self._n_slots
        if sketch is None:
            if self._n_more > 0:
                self.quantiles = self._quantiles(np.full(n_slots, -np.inf), 0)
            return
        places = sketch.places(column)
        self.candidates = self.quantiles = None
        if places is not None:
            self.candidates = Candidates(places, np.zeros(n_slots, dtype=np.int64))
            return
        # In a piece each entry is a candidate at most, and one of the piece before waits.
        n_places = self._most + 1 if sketch.of_tree else 0
        self.quantiles = self._quantiles(sketch.eps * hessians.astype(np.float64), n_places)

    def _quantiles(self, step: FloatArray, n_places: int) -> Quantiles:
        return Quantiles(
            step=step,
            last=np.zeros(len(step), dtype=np.int64),
            waiting=np.zeros((len(step), WAITING_FIELDS + self._n_more), dtype=np.int64),
            places=np.zeros(n_places, dtype=np.int64),
            n_places=np.zeros(1, dtype=np.int64),
        )

    def end_piece(self) -> None:
        """Copy the places of the candidates that the scan has found."""
        if self.quantiles is not None and len(self.quantiles.places) > 0:
            self._parts.append(self.quantiles.places[: self.quantiles.n_places[0]].copy())
            self.quantiles.n_places[0] = 0

    def end(self, column: int) -> None:
        """Keep the places of the candidates, if all nodes share them."""
        self.end_piece()
        if self._parts and self._sketch is not None:
            end = np.full(1, _NO_PLACE, dtype=np.int64)
            self._sketch.keep(column, np.concatenate([*self._parts, end]))
            self._parts.clear()
