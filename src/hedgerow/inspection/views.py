"""Inspection as methods of a booster: effects, interactions, importances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import AnyArray
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.metrics import MetricChoice
from hedgerow.model.model import Model

if TYPE_CHECKING:
    from hedgerow.explain.explanation import Explanation
    from hedgerow.inspection.background import Columns, Kind
    from hedgerow.inspection.curves import IndividualCurves
    from hedgerow.inspection.effects import Interactions, JointEffect, PartialDependence
    from hedgerow.inspection.importance import AnyImportance, Importances


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """A model, the labels of its classes by index, and the names of its targets if several."""

    model: Model
    classes: AnyArray | None = None
    targets: Sequence[str] | None = None

    def names_of(self, kind: str) -> tuple[str, ...]:
        """Return the names of the predicted numbers of a row, if there are several."""
        n_outputs = self.model.forest.n_outputs
        classes = () if self.classes is None else tuple(map(str, self.classes.tolist()))
        if n_outputs == 1:
            return classes if is_one_of(kind, ("probability",)) else ()
        for names in (self.targets, classes):
            if names is not None and len(names) == n_outputs:
                return tuple(names)
        return tuple(map(str, range(n_outputs)))


class Inspections(ABC):
    """Inspection methods of boosters and estimators."""

    @abstractmethod
    def _inspected(self) -> Inspected:
        """Return the model to inspect."""

    @abstractmethod
    def _explained(self, X: Any, n_jobs: int | None) -> Explanation:
        """Return Shapley values of rows."""

    def partial_dependence(
        self,
        X: Any = None,
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

        See :func:`hedgerow.inspection.partial_dependence`.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> X = [[1.0, 0.0], [2.0, 1.0], [4.0, 0.0]]
        >>> booster = train({"min_samples_leaf": 1}, Dataset(X, [0.0, 0.0, 3.0]))
        >>> booster.partial_dependence(X).names
        ('x0', 'x1')
        """
        from hedgerow.inspection import partial_dependence

        own = self._inspected()
        return partial_dependence(
            own.model, X, columns, kind=kind, sample_weight=sample_weight, offset=offset,
            n_points=n_points, max_rows=max_rows, random_state=random_state,
            output_names=own.names_of(kind), n_jobs=n_jobs,
        )  # fmt: skip

    def joint_dependence(
        self,
        X: Any,
        columns: Sequence[str | int],
        *,
        kind: Kind = "raw",
        sample_weight: Any = None,
        offset: Any = None,
        n_points: int = 20,
        max_rows: int | None = 1000,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> JointEffect:
        """Compute the mean prediction as a function of two columns.

        See :func:`hedgerow.inspection.joint_dependence`.
        """
        from hedgerow.inspection import joint_dependence

        own = self._inspected()
        found = joint_dependence(
            own.model, X, columns, kind=kind, sample_weight=sample_weight, offset=offset,
            n_points=n_points, max_rows=max_rows, random_state=random_state, n_jobs=n_jobs,
        )  # fmt: skip
        return replace(found, first=replace(found.first, output_names=own.names_of(kind)))

    def individual_curves(
        self,
        X: Any,
        column: str | int,
        *,
        kind: Kind = "raw",
        offset: Any = None,
        n_points: int = 100,
        n_jobs: int | None = None,
    ) -> IndividualCurves:
        """Compute the prediction for each row as a function of one column (ICE).

        See :func:`hedgerow.inspection.individual_curves`.
        """
        from hedgerow.inspection import individual_curves

        own = self._inspected()
        found = individual_curves(
            own.model, X, column, kind=kind, offset=offset, n_points=n_points, n_jobs=n_jobs
        )
        return replace(found, effect=replace(found.effect, output_names=own.names_of(kind)))

    def accumulated_effects(
        self,
        X: Any,
        columns: Columns = None,
        *,
        kind: Kind = "raw",
        sample_weight: Any = None,
        offset: Any = None,
        n_points: int = 40,
        n_jobs: int | None = None,
    ) -> PartialDependence:
        """Compute accumulated local effects of numeric columns (ALE).

        See :func:`hedgerow.inspection.accumulated_effects`.
        """
        from hedgerow.inspection import accumulated_effects

        own = self._inspected()
        return accumulated_effects(
            own.model, X, columns, kind=kind, sample_weight=sample_weight, offset=offset,
            n_points=n_points, output_names=own.names_of(kind), n_jobs=n_jobs,
        )  # fmt: skip

    def interactions(
        self,
        X: Any,
        columns: Columns = None,
        *,
        kind: Kind = "raw",
        sample_weight: Any = None,
        offset: Any = None,
        max_rows: int | None = 200,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> Interactions:
        """Compute Friedman's H of all pairs; see :func:`hedgerow.inspection.interactions`."""
        from hedgerow.inspection import interactions

        own = self._inspected()
        found = interactions(
            own.model, X, columns, kind=kind, sample_weight=sample_weight, offset=offset,
            max_rows=max_rows, random_state=random_state, n_jobs=n_jobs,
        )  # fmt: skip
        return replace(found, output_names=own.names_of(kind))

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
        from hedgerow.inspection import importance as home

        known = get_args(home.AnyImportance)
        if not is_one_of(kind, known):
            raise ParameterError(
                f"kind must be one of {', '.join(map(repr, known))}; got {brief(kind)}."
                f"{did_you_mean(kind, known)}"
            )
        if kind == "permutation":
            if X is None or y is None:
                raise ParameterError("kind='permutation' needs X and y: rows and their targets.")
            own = self._inspected()
            return home.permutation_importance(
                own.model, X, y, metric=metric, n_repeats=n_repeats, random_state=random_state,
                sample_weight=sample_weight, offset=offset, qid=qid, classes=own.classes,
                n_jobs=n_jobs,
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
        return home.model_importance(self._inspected().model, kind)
