"""The number of rounds found by cross-validation, for a fit on all rows.

``early_stopping="cv"``: the rows are divided into five folds, these are grown abreast
until the loss of all test rows together stops falling, and the model is then trained
on all rows for as many rounds as were best.  No row is lost to validation, and what
decides are as many rows as there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hedgerow.boosting.budget import Budget
from hedgerow.boosting.cross import FoldStopping, grow_folds
from hedgerow.boosting.fold_rows import FoldRows
from hedgerow.boosting.folds import draw_folds
from hedgerow.boosting.sample import Sample
from hedgerow.boosting.stopping import StoppingParams
from hedgerow.errors import ParameterError
from hedgerow.metrics import Metric, task_of
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

N_FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRounds:
    """What the folds have told.

    Attributes
    ----------
    n_rounds : int
    curves : dict from str to list of float
        Score of all test rows after each round, by metric.
    rows : FoldRows
        The rows, binned if all folds had the same bins.
    """

    n_rounds: int
    curves: dict[str, list[float]]
    rows: FoldRows


def check_folds(stopping: StoppingParams, has_validation: bool) -> None:
    """Raise ``ParameterError`` if folds are to judge, and validation rows are given."""
    if stopping.by_folds and has_validation:
        raise ParameterError(
            "early_stopping='cv' judges by folds of the training rows, so validation rows have no "
            "effect: leave them out, or use early_stopping=True."
        )


def choose_rounds(
    train: Sample,
    objective: Objective,
    params: BoostParams,
    limits: tuple[int, float],
    metrics: Sequence[Metric],
    n_threads: int,
    budget: Budget | None = None,
) -> ChosenRounds:
    """Find the number of rounds.

    Parameters
    ----------
    train : Sample
        Without rows of weight 0.
    objective : Objective
    params : BoostParams
        Resolved.
    limits : tuple of patience and min_delta
    metrics : sequence of Metric
        The first decides.
    n_threads : int
    budget : Budget, optional
        The folds take their share of it: each has as many rounds as the model, and
        all rows but those of one fold.

    Raises
    ------
    DataError
        If there is one row, or one query, only.
    """
    rows = FoldRows(train, objective, params, n_threads)
    stratify = task_of(objective) in ("two classes", "classes")
    folds = draw_folds(train.target, N_FOLDS, stratify, params.seed, train.query)
    stopping = FoldStopping(limits, pooled=True)
    if budget is not None:
        stopping = replace(stopping, is_late=budget.deadline((N_FOLDS - 1) / N_FOLDS))
    grown = grow_folds(rows, folds, objective, params, stopping, metrics, n_threads)
    fewest = min(len(fold.train) for fold in folds)
    if fewest < 2 * params.min_samples_leaf or grown.best is None:
        # Folds without a split tell nothing of the rounds of all rows.
        return ChosenRounds(params.n_estimators, grown.curves, rows)
    return ChosenRounds(grown.best.round, grown.curves, rows)
