"""Fitted attributes and reports of estimators, on their training and their model.

Explicit parameters repeat a fit with automatic ones::

    fit                                 repeated fit
    ---                                 ------------
    learning_rate="auto"                learning_rate=0.08, the chosen value
    n_estimators="auto", five folds     n_estimators=285, early_stopping=False
    time_budget=10                      learning_rate=[0.031, 0.030, ...], one per round
    random_state=RandomState(...)       random_state=1608637542, the drawn seed
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hedgerow.arrays import FloatArray
from hedgerow.data.reading.frames import FrameLibrary
from hedgerow.errors import AbsentAttributeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hedgerow.booster import Booster
    from hedgerow.model.monotone import Direction, Feature, MonotoneReport


class _Word(str):
    """Text that scikit-learn's view shows in full; plain strings are cut to nine characters."""

    __slots__ = ()


class FittedReports(BaseEstimator, ABC):
    """Mixin of the boosted estimators: attributes and reports that the booster provides."""

    booster_: Booster

    @abstractmethod
    def _automatic(self) -> frozenset[str]:
        """Return the names of the parameters that are set to ``"auto"``."""

    @property
    def chosen_params_(self) -> dict[str, Any]:
        """Values chosen for ``"auto"`` parameters, and results of cross-validation if used."""
        from hedgerow.boosting.automatic.defaults import chosen_names

        check_is_fitted(self)
        record = self.booster_.model.training
        found = {**record.get("parameters", {}), **record.get("folds", {})}
        if "blend" in record:
            found["blend"] = record["blend"]
        return {
            name: found[name] for name in chosen_names(self._automatic(), found) if name in found
        }

    @property
    def repeat_params_(self) -> dict[str, Any]:
        """Parameters that repeat this fit: ``type(model)(**model.repeat_params_)``.

        Fitted to the same rows with the same arguments of ``fit``, such an estimator grows the
        same trees without cross-validation.  All values are plain, except a custom loss or
        schedule.

        Raises
        ------
        AttributeError
            If the fit continued an ``init_model``, which parameters cannot describe.
        """
        check_is_fitted(self)
        booster = self.booster_
        training = booster.model.training
        params = self.get_params(deep=False)
        if training.get("init_rounds") and not params["warm_start"]:
            raise AbsentAttributeError(
                f"repeat_params_ needs a fit from the first round on, but this fit continued "
                f"{training['init_rounds']} rounds of init_model: repeat the fit of init_model "
                "first, or set the parameters by hand (chosen_params_)."
            )
        defaults = {
            name: parameter.default for name, parameter in signature(type(self)).parameters.items()
        }
        automatic, resolved = self._automatic(), training["parameters"]
        values = params | {name: defaults[name] for name in _OF_THE_RUN}
        values |= {name: resolved[name] for name in automatic if name in resolved}
        if resolved.get("grow_policy") == "symmetric" and "grow_policy" in automatic:
            values["max_depth"] = resolved["max_depth"]
        n_rounds, rate = booster.num_rounds, resolved["learning_rate"]
        if isinstance(rate, list):
            rate = rate[:n_rounds] or [1.0]  # a constant has no rate, but its one round needs one
        values["blend"] = blend = training.get("blend", defaults["blend"])
        if "blend" in training:
            n_rounds = blend[0]["n_estimators"]
        n_rounds = max(n_rounds, 1)
        values |= {"n_estimators": n_rounds, "learning_rate": rate}
        values["random_state"] = resolved["seed"]
        # Early stopping is off; if it held out rows, these are held out again, but never stop.
        never = "folds" in training or training["best_round"] is None
        values |= {"early_stopping": not never, "min_delta": 0.0}
        values["patience"] = "auto" if never else n_rounds
        return {name: value for name, value in values.items() if not _same(value, defaults[name])}

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return the HTML table of scikit-learn 1.9 and later, with a row per chosen value."""
        from hedgerow.data.inputs import brief_value

        table = super()._get_fitted_attr_html(doc_link)
        table.pop("repeat_params_", None)
        # scikit-learn shows only four entries of a dictionary.
        for name, value in table.pop("chosen_params_", {"value": {}})["value"].items():
            shown = f"{len(value)} settings" if name == "tried" else value
            if name == "blend":
                shown = ", ".join(f"{one['weight']:.2g}" for one in value)
            if name == "feature_crosses" and value is not None:
                shown = brief_value(name, value)
            entry = {"type_name": type(value).__name__}
            entry["value"] = _Word(shown) if isinstance(shown, str) else shown
            table[f"chosen_params_[{name!r}]"] = entry
        return table

    @property
    def oob_improvement_(self) -> FloatArray:
        """Reduction of the loss by each round, on the rows that the round left out."""
        check_is_fitted(self)
        booster = self.booster_
        curves = booster.evals_result.get("out_of_bag")
        if curves is None:
            raise AbsentAttributeError(
                "oob_improvement_ needs rows that rounds leave out: fit with oob_score=True, "
                "subsample below 1 and boosting='gbdt'."
            )
        first = booster.model.training.get("init_rounds", 0)
        return np.array(curves["improvement"][: booster.num_rounds - first])

    @property
    def oob_score_(self) -> float:
        """Accuracy or R2 of out-of-bag predictions, by the trees that did not see each row."""
        check_is_fitted(self)
        scores: dict[str, float] = self.booster_.model.training.get("out_of_bag", {})
        for name in ("accuracy", "r2"):
            if name in scores:
                return scores[name]
        raise AbsentAttributeError(
            "oob_score_ needs trees that did not see a row: fit with oob_score=True, "
            "boosting='rf' and subsample below 1."
        )

    @property
    def feature_importances_(self) -> FloatArray:
        """Fraction of the total loss reduction due to splits of each feature.

        The shape is (n_features,), and the sum is 1, or 0 if there is no split.
        ``booster_.feature_importance(kind=...)`` computes other kinds.
        """
        check_is_fitted(self)
        gain = self.booster_.feature_importance("gain")
        total = gain.sum()
        return gain / total if total > 0.0 else gain

    def history_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return learning curves as a data frame; see :meth:`hedgerow.Booster.history_frame`."""
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
        """Prove that raw scores are monotone, or find two rows that refute it.

        Parameters
        ----------
        feature : str or int, optional
            Name or position of a column; by default all in ``monotone_constraints``.
        direction : {1, -1, "increasing", "decreasing"}, optional
            Direction of ``feature``; default: the direction of its constraint.
        n_points : int, default=100_000
            Approximate limit on the rows predicted in the search for a violation.

        Returns
        -------
        hedgerow.model.monotone.MonotoneReport
        """
        check_is_fitted(self)
        return self.booster_.verify_monotone(feature, direction, n_points=n_points)


_OF_THE_RUN = ("callbacks", "progress", "time_budget", "warm_start", "train_scores", "folds")
"""Parameters that affect the duration, output or start of a fit, or what it chooses, but not its
trees."""


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(other, np.ndarray):
        return value is other
    return type(value) is type(other) and bool(value == other)
