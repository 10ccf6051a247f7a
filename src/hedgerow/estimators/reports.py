"""What a fitted estimator tells of its training and its model."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hedgerow.arrays import FloatArray
from hedgerow.data.frames import FrameLibrary
from hedgerow.estimators.repeating import repeat_params
from hedgerow.model.monotone import Direction, Feature, MonotoneReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hedgerow.booster import Booster


class _Word(str):
    """Text that scikit-learn's view shows whole: of plain strings it leaves nine characters."""

    __slots__ = ()


class FittedReports(BaseEstimator, ABC):
    """Attributes that are read from the booster, and its reports."""

    booster_: Booster
    n_iter_: int
    evals_result_: dict[str, dict[str, list[float]]]

    @abstractmethod
    def _automatic(self) -> frozenset[str]:
        """Parameters that were to be chosen by the data."""

    @property
    def chosen_params_(self) -> dict[str, Any]:
        """What ``"auto"`` has come to, by parameter, and the folds of early stopping."""
        from hedgerow.boosting.automatic.defaults import told

        check_is_fitted(self)
        record = self.booster_.model.training
        found = {**record.get("parameters", {}), **record.get("folds", {})}
        return {name: found[name] for name in told(self._automatic(), found) if name in found}

    @property
    def repeat_params_(self) -> dict[str, Any]:
        """Parameters that repeat this fit: ``type(model)(**model.repeat_params_)``.

        Fitted to the same rows, with the same other arguments of ``fit``, such an estimator
        grows the same trees, and asks no folds.  They are plain values, but for a loss or a
        schedule of the user's own.

        Raises
        ------
        AttributeError
            If the fit went on from ``init_model``, which parameters do not hold.
        """
        check_is_fitted(self)
        training = self.booster_.model.training
        given = self.get_params(deep=False)
        if training.get("init_rounds") and not given["warm_start"]:
            raise AttributeError(
                f"repeat_params_ needs a fit from the first round on: this one went on from "
                f"{training['init_rounds']} rounds of init_model. Repeat that model first, or set "
                "the parameters by hand (chosen_params_)."
            )
        usual = {
            name: parameter.default for name, parameter in signature(type(self)).parameters.items()
        }
        return repeat_params(given, usual, self._automatic(), training, self.n_iter_)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Rows of the view in notebooks (scikit-learn 1.9 and later), one a chosen value.

        There is room for four values of a dictionary.
        """
        table = super()._get_fitted_attr_html(doc_link)
        table.pop("repeat_params_", None)
        for name, value in table.pop("chosen_params_", {"value": {}})["value"].items():
            shown = f"{len(value)} settings" if name == "tried" else value
            entry = {"type_name": type(value).__name__}
            entry["value"] = _Word(shown) if isinstance(shown, str) else shown
            table[f"chosen_params_[{name!r}]"] = entry
        return table

    @property
    def oob_improvement_(self) -> FloatArray:
        """Loss of the rows left out by each round, before it less after it."""
        check_is_fitted(self)
        curves = self.evals_result_.get("out_of_bag")
        if curves is None:
            raise AttributeError(
                "oob_improvement_ needs rows that rounds leave out: fit with oob_score=True, "
                "subsample below 1 and boosting='gbdt'."
            )
        first = self.booster_.model.training.get("init_rounds", 0)
        return np.array(curves["improvement"][: self.n_iter_ - first])

    @property
    def oob_score_(self) -> float:
        """Accuracy or R2 of the training rows, each by the trees that did not see it."""
        check_is_fitted(self)
        scores: dict[str, float] = self.booster_.model.training.get("out_of_bag", {})
        for name in ("accuracy", "r2"):
            if name in scores:
                return scores[name]
        raise AttributeError(
            "oob_score_ needs trees that did not see a row: fit with oob_score=True, "
            "boosting='rf' and subsample below 1."
        )

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each feature in the loss reduction of all splits.

        Shape (n_features,); the sum is 1, or 0 if there is no split.  Other
        kinds: ``booster_.feature_importance(kind=...)``.
        """
        check_is_fitted(self)
        gain = self.booster_.feature_importance("gain")
        total = gain.sum()
        return gain / total if total > 0.0 else gain

    def history_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Learning curves as a data frame; see :meth:`hedgerow.Booster.history_frame`."""
        check_is_fitted(self)
        return self.booster_.history_frame(backend)

    def plot_history(
        self,
        metric: str | None = None,
        ax: Axes | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> Axes:
        """Draw learning curves; see :func:`hedgerow.plot.plot_history`."""
        check_is_fitted(self)
        return self.booster_.plot_history(metric, ax, path=path)

    def plot_tree(
        self, tree: int = 0, ax: Axes | None = None, *, max_depth: int | None = None
    ) -> Axes:
        """Draw one tree; see :meth:`hedgerow.Booster.plot_tree`."""
        check_is_fitted(self)
        return self.booster_.plot_tree(tree, ax, max_depth=max_depth)

    def verify_monotone(
        self, feature: Feature = None, direction: Direction = None, *, n_points: int = 100_000
    ) -> MonotoneReport:
        """Prove that raw scores are monotone, or find rows that show that they are not.

        Parameters
        ----------
        feature : str or int, optional
            Name or position of a column; by default all in ``monotone_constraints``.
        direction : {1, -1, "increasing", "decreasing"}, optional
            For ``feature``; by default that of its constraint.
        n_points : int, default=100_000
            Rows to predict, about at most, in the search for a violation.

        Returns
        -------
        hedgerow.model.monotone.MonotoneReport
        """
        check_is_fitted(self)
        return self.booster_.verify_monotone(feature, direction, n_points=n_points)
