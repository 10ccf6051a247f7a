"""Base class of boosters: predicted distributions and intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError
from hedgerow.model.booster_part import BoosterPart
from hedgerow.objectives.catalogue import DISTRIBUTIONAL

if TYPE_CHECKING:
    from hedgerow.objectives.distributions.predicted import Distribution


class DistributionPredictions(BoosterPart):
    """Predictions of a :class:`hedgerow.Booster` with a distributional objective."""

    def predict_distribution(self, X: Any, *, n_jobs: int | None = None) -> Distribution:
        """Return the predicted distribution of the target of each row.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
        n_jobs : int, optional

        Returns
        -------
        hedgerow.objectives.distributions.predicted.Distribution
            With ``mean``, ``variance``, ``std``, ``median`` of shape (n_rows,), and
            ``quantile(p)``, ``interval(level)``, ``cdf(y)``, ``log_pdf(y)``, ``crps(y)``,
            ``sample(n, random_state)``.

        Raises
        ------
        ParameterError
            If the objective does not learn a distribution.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset([[1.0], [2.0], [3.0], [4.0]], [1.0, 2.0, 3.0, 6.0])
        >>> booster = train({"objective": "normal", "n_estimators": 1}, data)
        >>> found = booster.predict_distribution([[1.0]])
        >>> found.mean.tolist(), found.interval(0.5).round(2).tolist()
        ([3.0], [[1.74, 4.26]])
        """
        make: Callable[[FloatArray], Distribution] | None
        make = getattr(self._objective, "distribution", None)
        if make is None:
            known = ", ".join(map(repr, DISTRIBUTIONAL))
            raise ParameterError(
                f"a model of objective {self._objective.name!r} predicts no distribution: train "
                f"with one of {known}, or calibrate intervals of this one with MAPIE."
            )
        return make(self.raw_scores(X, n_jobs=n_jobs))

    def predict_interval(
        self, X: Any, level: float = 0.9, *, n_jobs: int | None = None
    ) -> FloatArray:
        """Return the central interval of the distribution of each row.

        It contains the target with probability ``level`` if the distribution is correct;
        MAPIE calibrates intervals for exchangeable rows.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
        level : float in (0, 1), default=0.9
        n_jobs : int, optional

        Returns
        -------
        ndarray of float64, shape (n_rows, 2)
            Lower and upper ends.
        """
        from hedgerow.objectives.distributions.predicted import check_level

        check_level(level)
        return self.predict_distribution(X, n_jobs=n_jobs).interval(level)
