"""Fast predictions of single rows, for services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from hedgerow.params import PredictionKind

if TYPE_CHECKING:
    from hedgerow.booster import Booster


class SingleRowEstimator:
    """Mixin of the estimators for predictions of single rows."""

    booster_: Booster

    def predict_one(self, row: Any, kind: PredictionKind = "value") -> Any:
        """Predict one row without the overhead of a table.

        See :meth:`hedgerow.Booster.predict_one`.

        Parameters
        ----------
        row : dict, list, tuple or array of shape (n_features,)
        kind : {"value", "raw", "probability", "leaf"}, default="value"

        Returns
        -------
        float, int, label, or ndarray of one axis

        Examples
        --------
        >>> from hedgerow import HedgerowRegressor
        >>> model = HedgerowRegressor(n_estimators=20).fit([[k % 5] for k in range(50)], range(50))
        >>> bool(model.predict_one([3.0]) == model.predict([[3.0]])[0])
        True
        """
        booster: Booster | None = self.__dict__.get("booster_")
        if booster is None:
            check_is_fitted(self)  # raises
            booster = self.booster_
        return booster.predict_one(row, kind)
