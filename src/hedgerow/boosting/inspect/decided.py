"""Base class of boosters: class predictions that stop early once the class is decided."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.inspect.predicted_distributions import DistributionPredictions
from hedgerow.boosting.row_data.checks import check_offset
from hedgerow.boosting.row_data.offsets import offset_of_rows
from hedgerow.boosting.row_data.survival import SurvivalPredictions
from hedgerow.data import SparseTable
from hedgerow.errors import ParameterError, brief
from hedgerow.metrics import task_of
from hedgerow.model.booster_part import BoosterPart
from hedgerow.objectives import SeveralTargets
from hedgerow.params import Interval

_MARGIN = Interval(0.0, np.inf, low_open=True)
_EVERY = Interval(1, 2**31 - 1, integer=True)


class DecidedPredictions(BoosterPart):
    """Predictions that use only the trees needed to decide the class."""

    def predict_decided(
        self,
        X: Any,
        kind: Any = "value",
        *,
        margin: float = 10.0,
        every: int = 10,
        n_jobs: int | None = None,
        offset: Any = None,
    ) -> npt.NDArray[Any]:
        """Predict classes, skipping later trees for rows whose class is already clear.

        Parameters
        ----------
        X, kind, n_jobs, offset
            As for :meth:`predict`; ``kind`` is not ``"leaf"``.
        margin : float > 0, default=10.0
            A row is decided if its largest raw score exceeds the second by this margin, or,
            for two classes, if twice its raw score is this far from 0 (LightGBM's
            ``pred_early_stop_margin``).  With ``inf`` all trees are used.
        every : int >= 1, default=10
            Number of rounds between two checks.

        Returns
        -------
        ndarray
            As :meth:`predict`; scores of rows that stay undecided are equal except for rounding.

        Raises
        ------
        ParameterError
            For a model that is not a classifier, or whose trees are not added up.

        Examples
        --------
        >>> from hedgerow import HedgerowClassifier
        >>> from hedgerow.datasets import load_pima
        >>> X, y, _, _ = load_pima()
        >>> booster = HedgerowClassifier(n_estimators=50).fit(X, y).booster_
        >>> quick = booster.predict_decided(X, margin=2.0)
        >>> bool((quick == booster.predict(X)).mean() > 0.9)
        True
        """
        self._check_decided(kind, margin, every)
        X, given = offset_of_rows(self.model, X, offset)
        values, threads = self._inputs(X, n_jobs, "Booster")
        forest = self.model.forest
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        raw = np.repeat(forest.base_score[:, None], n_rows, axis=1)
        added = check_offset(given, n_rows, len(raw))
        raw = raw if added is None else raw + added
        open_rows, step = np.arange(n_rows), every * forest.trees_per_round
        for first in range(0, forest.n_trees, step):
            stop = min(first + step, forest.n_trees)
            part = _rows_of(values, open_rows)
            scores = self._predictor.raw_scores(part, threads, first, stop)
            raw[:, open_rows] += scores - forest.base_score[:, None]
            open_rows = open_rows[_margins(raw[:, open_rows]) < margin]
            if len(open_rows) == 0:
                break
        return self._prediction(raw, kind)

    def _check_decided(self, kind: Any, margin: Any, every: Any) -> None:
        if not is_one_of(kind, ("value", "raw", "probability")):
            raise ParameterError(
                f"kind must be 'value', 'raw' or 'probability' here; got {brief(kind)}."
            )
        for value, name, allowed in ((margin, "margin", _MARGIN), (every, "every", _EVERY)):
            if value not in allowed:
                raise ParameterError(f"{name} must be {allowed}; got {brief(value)}.")
        single = not isinstance(self._objective, SeveralTargets)
        known = single and task_of(self._objective) in ("two classes", "classes")
        if not known or self.model.training.get("parameters", {}).get("boosting") == "rf":
            raise ParameterError(
                "predict_decided needs a classifier whose trees are added up, but this model has "
                f"objective {self.model.objective!r} and boosting "
                f"{self.model.training.get('parameters', {}).get('boosting', 'gbdt')!r}: use "
                "predict."
            )


def _rows_of(values: AnyArray | SparseTable, rows: AnyArray) -> AnyArray | SparseTable:
    return values.take(rows) if isinstance(values, SparseTable) else values[rows]


def _margins(raw: FloatArray) -> FloatArray:
    """Return the lead of the likeliest class of each row."""
    if len(raw) == 1:
        return np.asarray(2.0 * np.abs(raw[0]))
    two = np.partition(raw, len(raw) - 2, axis=0)[-2:]
    return np.asarray(two[1] - two[0])


class ClassProbabilities(BoosterPart):
    """Predictions of probabilities, by the name of scikit-learn."""

    def predict_proba(
        self,
        X: Any,
        *,
        first_round: int = 0,
        n_rounds: int | None = None,
        n_jobs: int | None = None,
        offset: Any = None,
    ) -> FloatArray:
        """Predict the probability of each class: ``predict(X, kind="probability")``.

        The ``predict`` of LightGBM's and XGBoost's boosters gives probabilities, and
        :meth:`predict` gives classes.

        Parameters
        ----------
        X, first_round, n_rounds, n_jobs, offset : as for :meth:`predict`

        Returns
        -------
        float64, shape (n_rows, n_classes) or (n_rows, n_labels)
            One column for each class, in the order of ``classes``; LightGBM and XGBoost give
            only the second of two.

        Raises
        ------
        ParameterError
            If the model is not a classifier.
        DataError, DataTypeError
            If X does not have the columns of the model.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> booster = train({"objective": "logistic"}, Dataset([[0.0], [1.0]] * 50, [0, 1] * 50))
        >>> booster.predict([[1.0]]), booster.predict_proba([[1.0]]).argmax(axis=1)
        (array([1]), array([1]))
        """
        return self.predict(
            X, "probability", first_round=first_round, n_rounds=n_rounds, n_jobs=n_jobs,
            offset=offset,
        )  # fmt: skip


class PredictionForms(
    ClassProbabilities, SurvivalPredictions, DistributionPredictions, DecidedPredictions
):
    """All predictions of a booster that only some models support."""
