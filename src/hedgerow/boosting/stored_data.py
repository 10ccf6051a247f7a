"""Training on data that are read batch by batch: from the survey to the model.

See :mod:`hedgerow.boosting.stored_sample` for who asks whom for what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.callbacks import Callback
from hedgerow.boosting.dataset import Dataset
from hedgerow.boosting.hold_out import HoldOut
from hedgerow.boosting.stopping import StoppingParams
from hedgerow.boosting.stored import fit_stored
from hedgerow.boosting.stored_sample import (
    Choose,
    StoredData,
    StoredSample,
    StoredSamples,
    StorePlan,
)
from hedgerow.data import BinnedMatrix
from hedgerow.data.matrix import bin_unseen
from hedgerow.data.memory_store import MemoryStore
from hedgerow.data.row_store import GIVEN
from hedgerow.errors import DataError
from hedgerow.metrics import MetricFunction
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, make_objective
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads

_CLASSES = ("logistic", "exponential", "softmax")


class TargetSurvey:
    """What a training has to know of the targets before rows are binned.

    Parameters
    ----------
    name : str
        Of the objective.
    level : float or None
        Quantile that is asked for.
    stopping : StoppingParams
    seed : int
    sets_aside : bool
        Whether validation rows may be set aside.

    Attributes
    ----------
    n_rows : int
        Rows that count.
    largest : float
        Largest target, ``-inf`` before the first row.
    """

    def __init__(
        self,
        name: str,
        level: float | None,
        stopping: StoppingParams,
        seed: int,
        sets_aside: bool,
    ) -> None:
        self.n_rows = 0
        self.largest = -np.inf
        self._stopping = stopping
        # The number of classes is not known yet.
        classes = name == "softmax" and level is None
        self._objective = None if classes else make_objective(name, level=level)
        self._origin: float | None = None
        self._strange: tuple[int, FloatArray] | None = None
        may_stop = sets_aside and not stopping.by_out_of_bag
        self._hold_out: HoldOut | None = None
        if may_stop and stopping.early_stopping:
            self._hold_out = HoldOut(stopping.validation_fraction, name in _CLASSES, seed)

    @property
    def may_set_aside(self) -> bool:
        """Whether some of the rows may be set aside."""
        return self._hold_out is not None

    def note(self, target: FloatArray) -> None:
        """The next rows that count.

        Raises
        ------
        DataError
            That names the first row whose target is outside the objective's domain.
        """
        if len(target) == 0:
            return
        self._origin = float(target[0]) if self._origin is None else self._origin
        if self._objective is not None:
            self._objective.check_target(target, self.n_rows, self._origin)
        elif self._strange is None:
            strange = (target < 0.0) | (target != np.floor(target))
            if strange.any():
                row = int(np.argmax(strange))
                self._strange = self.n_rows + row, target[row : row + 1].copy()
        self.largest = max(self.largest, float(target.max()))
        if self._hold_out is not None and self._strange is None:
            self._hold_out.add(target)
        self.n_rows += len(target)

    def finish(self, objective: Objective) -> Choose | None:
        """Which rows to set aside; None if none are.

        Raises
        ------
        DataError
            If a target is outside the domain, or no row can be set aside.
        """
        if self._strange is not None:
            row, target = self._strange
            objective.check_target(target, row, self._origin)
        if self._hold_out is None or not self._stopping.is_on(self.n_rows, False):
            return None
        return self._hold_out.finish()


def fit_data(
    data: StoredData,
    objective: Objective,
    params: BoostParams,
    set_aside: Choose | None,
    *,
    valid: Dataset | StoredData | None = None,
    stopping: StoppingParams | None = None,
    eval_metric: str | MetricFunction | Sequence[str | MetricFunction] | None = None,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    n_jobs: int | None = None,
) -> Model:
    """Train a model on data that have been surveyed.

    Parameters
    ----------
    data : StoredData
    objective : Objective
    params : BoostParams
    set_aside : callable or None
        From :meth:`TargetSurvey.finish`.
    valid : Dataset or StoredData, optional
        Validation rows.
    stopping, eval_metric, callbacks, progress, n_jobs
        As for :func:`hedgerow.boosting.stored.fit_stored`.
    """
    n_threads = resolve_threads(n_jobs)
    plan = StorePlan(
        params,
        objective.n_outputs,
        objective.name == "softmax",
        set_aside,
        n_threads=n_threads,
        objective=objective,
    )
    samples = data.stored(plan)
    given: StoredSamples | None = None
    try:
        if valid is not None:
            given = _validation(valid, replace(plan, set_aside=None, trained=samples.train))
            if given.train.has_offset != samples.train.has_offset:
                which = "training" if given.train.has_offset else "validation"
                raise DataError(
                    f"the {which} rows have no offset, the others have: give both or none."
                )
        return fit_stored(
            samples.train,
            objective,
            params,
            validation=samples.validation if given is None else given.train,
            stopping=stopping,
            eval_metric=eval_metric,
            callbacks=callbacks,
            progress=progress,
            n_jobs=n_jobs,
        )
    finally:
        samples.close()
        if given is not None:
            given.close()


def _validation(valid: Dataset | StoredData, plan: StorePlan) -> StoredSamples:
    """Validation rows in chunks; a table in memory is one chunk."""
    if isinstance(valid, StoredData):
        return valid.stored(plan)
    trained = plan.trained
    assert trained is not None
    table = valid.table(trained.schema)
    sample = valid.sample(table, valid.target(table.n_rows), plan.n_outputs)
    sample = sample.without_zero_weights()
    matrix = None
    for chunk in trained.store.chunks([0], GIVEN):
        matrix = bin_unseen(sample.table, chunk.matrix, plan.n_threads)
    if not isinstance(matrix, BinnedMatrix):
        raise DataError(
            "the validation rows have values that no training row has (unknown_category='backoff' "
            "or bundled columns) and that have no bin: with training rows in chunks use "
            "unknown_category='missing', or leave such rows out."
        )
    store = MemoryStore(matrix, sample.target, sample.weight, sample.offset)
    return StoredSamples(StoredSample(store, sample.offset is not None))


__all__ = ["TargetSurvey", "fit_data"]
