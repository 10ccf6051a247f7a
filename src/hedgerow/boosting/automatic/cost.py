"""The cost of a fit, estimated from the size of the data, and bounds on it.

::

    rate    0.30            .----- fast rounds: the loss still falls after many rounds
            0.08  ----------'
                  0        250    350    rounds of the folds

A clock would choose other models on other machines, so costs are estimates in seconds of one
thread.  `docs/defaults-experiments.md` has the measurements.

Glossary
--------
plain fit  100 rounds of the plain trees, the default of other libraries
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hedgerow.boosting.automatic.candidates import DataSize
from hedgerow.boosting.automatic.recipe import HIGHEST_RATE
from hedgerow.boosting.loop.setup.resolved import ALL_OUTPUTS
from hedgerow.params import BoostParams

_SECONDS_A_TREE = 2e-4
_SECONDS_A_VALUE = 5e-10
"""Each level of a tree reads each value once."""
_SECONDS_A_BIN = 3e-9
"""Each leaf compares all bins of all columns."""
_OF_VECTORS = 0.2
"""Cost of each output of a tree with vector leaves, as a share of a tree (26 classes)."""

_PLAIN_ROUNDS = 100
_FREE_ROWS, _FREE_COLUMNS = 10_000, 100
"""Fits of fewer rows and at most these columns take a few seconds with all candidates."""
_SHORT_FIT = 2.0
"""A plain fit of fewer seconds counts as one of these."""
_SLOW, _FAST, _CANDIDATES, _MODEL = 3.0, 1.5, 5.0, 5.0
"""Plain fits that may be spent on rounds at the usual rate, on fast rounds, on all candidates
together, and on the model."""
_CANDIDATES_OF_FEW_ROWS = 10.0
"""The same for all candidates of fewer rows and many columns, which often are much better: with the
best of four, a loss of 5,000 rows of 300 columns was 0.27, with the first two 0.35."""
_SMALL, _CANDIDATES_OF_SMALL, _SHORT_CANDIDATES = 3_000, 3.0, 1.2
"""The same below this number of rows, where fits of LightGBM, too, take a second or two; candidates
may take at least these seconds."""


@dataclass(frozen=True, slots=True)
class FastRate:
    """A schedule (see :mod:`hedgerow.schedules`) whose rate rises after ``n_slow`` rounds."""

    rate: float
    n_slow: int

    def __call__(self, rounds_before: int) -> float:
        """Return the rate after ``rounds_before`` rounds."""
        return self.rate if rounds_before < self.n_slow else max(self.rate, HIGHEST_RATE)

    def path(self, n_rounds: int) -> float:
        """Return the sum of the rates of the first rounds."""
        n_fast = max(n_rounds - self.n_slow, 0)
        return self.rate * (n_rounds - n_fast) + self(self.n_slow) * n_fast


@dataclass(frozen=True, slots=True)
class Allowance:
    """Bounds on the cost of the folds and the model.

    n_slow, n_fast     rounds of the folds at the usual rate, and at the highest
    candidates, model  estimated seconds of all candidates together, and of the model
    """

    size: DataSize
    n_slow: int
    n_fast: int
    candidates: float
    model: float

    def within(self, params: BoostParams) -> BoostParams:
        """Return the parameters of folds with fast rounds instead of very many."""
        if params.n_estimators <= self.n_slow + self.n_fast:
            return params
        rate = FastRate(params.learning_rate, self.n_slow)
        return replace(params, learning_rate=rate, n_estimators=self.n_slow + self.n_fast)

    def most_rounds(self, params: BoostParams) -> int:
        """Return the largest number of rounds of the model."""
        return max(1, round(self.model / seconds_of_round(self.size, params)))


def allowance_of(size: DataSize, params: BoostParams, n_tested: int) -> Allowance | None:
    """Return the bounds for folds that start with ``params``; None where no fit takes long."""
    few_rows = size.n_rows < _FREE_ROWS
    if few_rows and size.n_features <= _FREE_COLUMNS:
        return None
    plain = replace(BoostParams(), max_bins=params.max_bins)
    seconds = _PLAIN_ROUNDS * seconds_of_round(size, plain)
    counted = max(seconds, _SHORT_FIT)
    of_folds = n_tested * seconds_of_round(size, params)
    candidates = _CANDIDATES * counted
    if few_rows:
        candidates = _CANDIDATES_OF_FEW_ROWS * seconds
    if size.n_rows < _SMALL:
        candidates = max(_CANDIDATES_OF_SMALL * seconds, _SHORT_CANDIDATES)
    n_slow, n_fast = (max(1, round(share * counted / of_folds)) for share in (_SLOW, _FAST))
    return Allowance(size, n_slow, n_fast, candidates, _MODEL * counted)


def seconds_of_round(size: DataSize, params: BoostParams) -> float:
    """Return the estimated seconds of a round of one fit of all rows."""
    depth = params.max_depth or 30
    n_leaves = min(params.max_leaves or 2**depth, 2**depth)
    n_leaves = max(2, min(n_leaves, size.n_rows // params.min_samples_leaf))
    n_columns = size.n_features + len(params.feature_crosses or ())
    values = size.n_rows * n_columns * (n_leaves - 1).bit_length()  # the same on every machine
    bins = n_leaves * n_columns * min(params.max_bins, size.n_rows)
    share = _OF_VECTORS if params.multi_strategy == ALL_OUTPUTS else 1.0
    seconds = _SECONDS_A_TREE + _SECONDS_A_VALUE * values + _SECONDS_A_BIN * bins
    return max(1.0, size.n_outputs * share) * seconds
