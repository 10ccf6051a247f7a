"""Inspection as methods of a booster: effects, importances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.inspection import importance as home
from hedgerow.inspection import partial
from hedgerow.inspection.background import Inspected
from hedgerow.metrics import MetricChoice

if TYPE_CHECKING:
    from hedgerow.explain.explanation import Explanation
    from hedgerow.inspection.importance import AnyImportance, Importances


class Inspections(ABC):
    """Inspection methods of boosters and estimators: functions whose first argument they are."""

    @abstractmethod
    def _inspected(self) -> Inspected:
        """Return the model to inspect."""

    @abstractmethod
    def _explained(self, X: Any, n_jobs: int | None) -> Explanation:
        """Return Shapley values of rows."""

    partial_dependence = partial.partial_dependence
    joint_dependence = partial.joint_dependence
    individual_curves = partial.individual_curves

    def importance(
        self,
        kind: AnyImportance = "gain",
        X: Any = None,
        y: Any = None,
        *,
        metric: MetricChoice = None,
        n_repeats: int = 5,
        random_state: int = 0,
        sample_weight: Any = None,
        offset: Any = None,
        qid: Any = None,
        n_jobs: int | None = None,
    ) -> Importances:
        """Return the importance of each column.

        Parameters
        ----------
        kind : {"gain", "split", "cover", "permutation", "shap"}, default="gain"
            The first three come from the trees.  ``"permutation"`` needs X and y, rows
            that the model was not trained on; ``"shap"`` needs X.  Both have standard errors.
        X, y : array-like, optional
        metric, n_repeats, random_state, sample_weight, offset, qid
            For permutations; see :func:`hedgerow.inspection.permutation_importance`.
        n_jobs : int, optional
            Threads for permutations and SHAP values.

        Returns
        -------
        hedgerow.inspection.Importances

        Raises
        ------
        ParameterError
            If ``kind`` is unknown, or X and y are missing, or an argument has no effect.
        """
        known = get_args(home.AnyImportance)
        if not is_one_of(kind, known):
            raise ParameterError(
                f"kind must be one of {', '.join(map(repr, known))}; got {brief(kind)}."
                f"{did_you_mean(kind, known)}"
            )
        if kind == "permutation":
            if X is None or y is None:
                raise ParameterError("kind='permutation' needs X and y: rows and their targets.")
            return home.permutation_importance(
                self, X, y, metric=metric, n_repeats=n_repeats, random_state=random_state,
                sample_weight=sample_weight, offset=offset, qid=qid, n_jobs=n_jobs,
            )  # fmt: skip
        given = {
            "X": None if kind == "shap" else X, "y": y, "metric": metric,
            "sample_weight": sample_weight, "offset": offset, "qid": qid,
        }  # fmt: skip
        unused = [name for name, value in given.items() if value is not None]
        numbers = ("n_repeats", n_repeats, 5), ("random_state", random_state, 0)
        for name, value, default in numbers:
            if not isinstance(value, int | np.integer) or value != default:
                unused.append(name)
        if unused:
            source = "explains the rows of X" if kind == "shap" else "is read from the trees"
            raise ParameterError(
                f"kind={kind!r} {source} and does not use {', '.join(unused)}: leave out what has "
                "no effect, or use kind='permutation'."
            )
        if kind == "shap":
            if X is None:
                raise ParameterError("kind='shap' needs X: rows to explain.")
            return home.explained_importance(self._explained(X, n_jobs))
        return home.model_importance(self, kind)
