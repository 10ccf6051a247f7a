"""Inspection as methods of boosters and estimators; their functions are imported on first use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.errors import ParameterError, brief, did_you_mean

if TYPE_CHECKING:
    from hedgerow.explain.explanation import Explanation
    from hedgerow.inspection.background import Columns, Inspected, Kind
    from hedgerow.inspection.effects import PartialDependence
    from hedgerow.inspection.importance import Importances
    from hedgerow.metrics import MetricChoice

AnyImportance: TypeAlias = Literal["gain", "split", "cover", "permutation", "shap"]


class Inspections(ABC):
    """Inspection methods of boosters and estimators: functions whose first argument they are."""

    @abstractmethod
    def _inspected(self) -> Inspected:
        """Return the model to inspect."""

    @abstractmethod
    def _explained(self, X: Any, n_jobs: int | None) -> Explanation:
        """Return Shapley values of rows."""

    def partial_dependence(
        self,
        X: Any,
        columns: Columns = None,
        *,
        kind: Kind = "raw",
        sample_weight: Any = None,
        offset: Any = None,
        n_points: int = 100,
        max_rows: int | None = 1000,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> PartialDependence:
        """Compute the mean prediction as a function of each column.

        The parameters and the result are those of :func:`hedgerow.inspection.partial_dependence`.
        """
        from hedgerow.inspection.partial import partial_dependence

        return partial_dependence(
            self, X, columns, kind=kind, sample_weight=sample_weight, offset=offset,
            n_points=n_points, max_rows=max_rows, random_state=random_state, n_jobs=n_jobs,
        )  # fmt: skip

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
        from hedgerow.inspection import importance as found

        known = get_args(AnyImportance)
        if not is_one_of(kind, known):
            raise ParameterError(
                f"kind must be one of {', '.join(map(repr, known))}; got {brief(kind)}."
                f"{did_you_mean(kind, known)}"
            )
        if kind == "permutation":
            if X is None or y is None:
                raise ParameterError("kind='permutation' needs X and y: rows and their targets.")
            return found.permutation_importance(
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
            return found.explained_importance(self._explained(X, n_jobs))
        return found.model_importance(self, kind)
