"""Early stopping by folds of rows in chunks: the number of rounds for a fit on all rows.

See :mod:`hedgerow.boosting.validation.cross_stopping` for rows in memory.  Here each fold is a fit
on stores of its own, whose rows are copied from the store of all rows::

    store of all rows -->  fold 0: a store of training rows, one of test rows    round 1, 2, ...
                           fold 1: a store of training rows, one of test rows    round 1, 2, ...
                           ...                                                         |
                           fit on the store of all rows  <----- best round of all folds

The folds have the rows, bins and row numbers that they have in memory, so their trees and scores
are the same.  With target statistics, or conflicts in bundles, a fold reads its rows from the files
instead (:mod:`hedgerow.boosting.external.file_folds`).  The stores share the memory of the fit, and
are deleted before it begins.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from hedgerow.boosting.automatic.model_selection import share_of_folds
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.external_sample import ExternalSample, StorePlan
from hedgerow.boosting.external.file_folds import FileFolds
from hedgerow.boosting.external.fit_external import row_metrics, rows_of_fit
from hedgerow.boosting.external.fold_rows import FoldSamples, divide_rows, store_folds
from hedgerow.boosting.loop.callbacks import Callback, FoldRound, report_folds, with_bar
from hedgerow.boosting.loop.fit_rows import FitRows
from hedgerow.boosting.loop.ranks import Ranks
from hedgerow.boosting.loop.rounds import BoostState, rounds
from hedgerow.boosting.loop.rounds_ahead import NOT_KNOWN
from hedgerow.boosting.loop.setup.options import FitOptions
from hedgerow.boosting.loop.setup.strategy import outputs_of_tree
from hedgerow.boosting.loop.training_loop import is_second
from hedgerow.boosting.loop.watch import Watch
from hedgerow.boosting.row_data.positions import with_positions
from hedgerow.boosting.row_data.statistics import constraints_of_inputs
from hedgerow.boosting.validation.budget import budget_of
from hedgerow.boosting.validation.cross_stopping import (
    ChosenRounds,
    can_split,
    record_of_folds,
    warn_of_rounds,
)
from hedgerow.boosting.validation.fold_pool import FoldStopping, Pool, pooled_curves
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.boosting.validation.stopping import BestRound, StoppingParams
from hedgerow.data.external.memory import give_back_memory
from hedgerow.errors import AllRowsNeededError, LossError
from hedgerow.growing.chunks.space import Spaces
from hedgerow.metrics import Metric
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads


def check_folds_in_chunks(stopping: StoppingParams, on_cluster: bool) -> None:
    """Raise ``AllRowsNeededError`` for folds that need a table in memory."""
    if on_cluster:
        raise AllRowsNeededError(
            "early_stopping='cv' trains on folds of all rows, which workers of a cluster do not "
            "have: give validation rows, or use early_stopping=True or 'oob'."
        )
    if not stopping.only_counts_rounds:
        raise AllRowsNeededError(
            "early_stopping='cv', which compares parameters, needs all rows in memory: use "
            "early_stopping=True, which holds rows out, or 'oob'."
        )


def choose_rounds_in_chunks(
    train: ExternalSample,
    data: FileDataset,
    plan: StorePlan,
    objective: Objective,
    params: BoostParams,
    options: FitOptions,
) -> ChosenRounds:
    """Choose the number of rounds, as ``choose_rounds`` does for a table in memory."""
    stopping, n_threads = options.stopping, resolve_threads(options.n_jobs)
    metrics = row_metrics(options.eval_metric, objective)
    division = divide_rows(train, data, plan, objective, stopping)
    n_tested = min(division.n_folds, stopping.folds[1])
    own = constraints_of_inputs(params, train.inputs)
    n_vectors = outputs_of_tree(own, objective.n_outputs)
    give_back_memory()
    with ExitStack() as stack:
        from_files = FileFolds.of(train, data, plan, objective, params)
        stores = store_folds(
            train, division, n_tested, n_vectors, data, stack, params.seed, objective.n_outputs,
            from_files,
        )  # fmt: skip
        del from_files
        give_back_memory()
        given = objective, params, metrics, n_threads, Spaces()
        fits = [
            stack.enter_context(_ChunkFold(number, fold, *given))
            for number, fold in enumerate(stores)
        ]
        listed, bar = with_bar(options.callbacks, options.progress)
        if bar is not None:
            stack.callback(bar.close)
        pool, interrupted = _grow(fits, metrics[0], params.n_estimators, stopping, listed)
        fewest = min(fit.n_rows for fit in fits)
    give_back_memory()
    return _chosen(fits, pool, interrupted, fewest, params, stopping, division.n_folds)


def _grow(
    fits: Sequence[_ChunkFold],
    metric: Metric,
    most: int,
    stopping: StoppingParams,
    callbacks: Sequence[Callback],
) -> tuple[Pool, bool]:
    """Grow all folds until the pooled score no longer improves."""
    best = BestRound(metric, stopping.patience, stopping.min_delta)

    def report(n_rounds: int, score: float) -> None:
        elapsed, name = time.monotonic() - stopping.began, metric.name
        seen = FoldRound(1, 1, len(fits), n_rounds, most, name, score, best.score, elapsed)
        report_folds(callbacks, seen)

    limits = FoldStopping(
        pooled=True, best=best, may_end=lambda: not is_second(), after_rounds=report
    )
    with budget_of(stopping) as budget:
        if budget is not None:
            limits = replace(limits, is_late=budget.deadline(share_of_folds(stopping)))
        pool = Pool(fits, metric, limits)
        interrupted = pool.grow(at_once=1)  # each fold has all threads
    for fit in fits:
        fit.watch.cut(pool.n_rounds)
    return pool, interrupted


def _chosen(
    fits: Sequence[_ChunkFold],
    pool: Pool,
    interrupted: bool,
    fewest: int,
    params: BoostParams,
    stopping: StoppingParams,
    n_folds: int,
) -> ChosenRounds:
    """Derive the rounds; ``fewest`` is the number of training rows of the smallest fold."""
    best, most, curves = pool.best, params.n_estimators, pooled_curves(fits)
    assert best is not None
    score = best.score if math.isfinite(best.score) else None
    record = record_of_folds(stopping) | {"folds": [n_folds, len(fits)]}
    record["tried"] = [{"score": score, "rounds": best.round}]
    n_rounds = min(best.round, most) if interrupted or can_split(fewest, params) else most
    if interrupted:
        warn_of_rounds(n_rounds, pool.n_rounds)
    return ChosenRounds(params, n_rounds, curves, None, record, interrupted)


class _ChunkFold:
    """The fit of one fold; see :class:`hedgerow.boosting.validation.fold_pool.FoldInTurn`."""

    def __init__(
        self,
        number: int,
        fold: FoldSamples,
        objective: Objective,
        params: BoostParams,
        metrics: tuple[Metric, ...],
        n_threads: int,
        spaces: Spaces,
    ) -> None:
        objective = with_positions(objective, fold.train.values.position, params)
        metrics = fold.bound(metrics, objective)
        self._number, self._fold, self._objective = number, fold, objective
        params = constraints_of_inputs(params, fold.train.inputs)
        self._params, self._n_threads, self._spaces = params, n_threads, spaces
        self.n_rows = fold.train.n_rows // fold.train.n_copies
        self._states: Generator[BoostState, None, None] | None = None
        self.curve: list[float] = []
        self.mass = fold.mass()
        self.best_round, self.next_end = 0, NOT_KNOWN
        self.watch = Watch(objective, {ONLY: metrics}, None, (), params.n_estimators)

    def advance(self) -> bool:
        """Grow a round; return True after the last one."""
        try:
            if self._states is None:
                self._states = rounds(self._rows())
            state = next(self._states)
            self.watch.after_round(state)
        except LossError as error:
            raise LossError(f"fold {self._number}, {error}") from error.__cause__
        metric = self.watch.metrics[0].name
        self.curve.append(self.watch.history[ONLY][metric][-1])
        return state.n_rounds == self._params.n_estimators

    def _rows(self) -> FitRows:
        train, test = self._fold.train, self._fold.test
        return rows_of_fit(
            train, {ONLY: test}, {ONLY: self.watch.metrics}, self._objective, self._params,
            self._n_threads, Ranks(), self._spaces,
        )  # fmt: skip

    def __enter__(self) -> _ChunkFold:
        return self

    def __exit__(self, *error: object) -> None:
        """End the threads of the grower."""
        if self._states is not None:
            self._states.close()
