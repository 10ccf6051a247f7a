"""Predictions of survival models, whose targets are event times that may be censored."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, real_numbers
from hedgerow.errors import AbsentAttributeError, ParameterError, brief
from hedgerow.model.booster_part import BoosterPart
from hedgerow.objectives import SURVIVAL, objective_of_record


class SurvivalPredictions(BoosterPart):
    """Survival predictions of a :class:`hedgerow.Booster`."""

    @property
    def event_times(self) -> FloatArray:
        """Event times of the training rows of a Cox model, ascending."""
        baseline = self.model.training.get("baseline")
        if self.model.objective != "cox" or baseline is None:
            raise AbsentAttributeError(  # as hasattr requires
                f"event times are kept for objective 'cox'; this is a model of "
                f"{self.model.objective!r}: give the times at which you want the survival function."
            )
        return np.array(baseline["times"], dtype=np.float64)

    def predict_survival_function(
        self, X: Any, times: Any = None, *, n_jobs: int | None = None, offset: Any = None
    ) -> FloatArray:
        """Return the probability of no event up to each time.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
        times : array-like of positive numbers, optional
            Default for a Cox model: ``event_times``.
        n_jobs : int, optional
        offset : array-like, optional
            As for ``predict``.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_times)

        Raises
        ------
        ParameterError
            If the objective is neither ``"cox"`` nor ``"aft"``.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset([[1.0], [2.0], [3.0], [4.0]], [1.0, 2.0, 3.0, -4.0])
        >>> booster = train({"objective": "cox", "n_estimators": 1}, data)
        >>> booster.predict_survival_function([[1.0]], [0.5, 1.0]).round(3).tolist()
        [[1.0, 0.779]]
        """
        model = self.model
        if model.objective not in SURVIVAL:
            raise ParameterError(
                f"a survival function needs objective 'cox' or 'aft'; this is a model of "
                f"{model.objective!r}."
            )
        raw = self.raw_scores(X, n_jobs=n_jobs, offset=offset)[0]
        if times is None or model.objective == "cox":
            try:
                at = self.event_times  # or an error that says that there is no baseline
            except AbsentAttributeError as error:
                raise ParameterError(*error.args) from None
        if times is not None:
            numbers = real_numbers(times)
            if numbers is None or numbers.ndim > 1 or not (numbers > 0.0).all():
                raise ParameterError(f"times must be positive numbers; got {brief(times)}.")
            at = np.atleast_1d(numbers)
        if model.objective == "cox":
            from hedgerow.objectives.survival.cox import survival_of_baseline

            return survival_of_baseline(dict(model.training["baseline"]), raw, at)
        from hedgerow.objectives.survival.aft import AcceleratedFailureTime

        objective = objective_of_record(model.objective, model.forest.n_outputs, model.training)
        assert isinstance(objective, AcceleratedFailureTime)
        return objective.survival(raw, at)
