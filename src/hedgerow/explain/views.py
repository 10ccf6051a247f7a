"""What a booster says of why it predicts what it predicts."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.boosting.offsets import features_of_rows, offset_of_rows
from hedgerow.boosting.sample import check_offset
from hedgerow.data.sparse import SparseTable
from hedgerow.errors import DataError, ParameterError
from hedgerow.explain.explainer import Explainer
from hedgerow.explain.explanation import Explanation
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.once import once


class ExplainedPredictions(ABC):
    """What a :class:`hedgerow.Booster` says of why it predicts what it predicts."""

    model: Model
    _predictor: Predictor
    _objective: Objective
    _classes: AnyArray | None

    @abstractmethod
    def _inputs(
        self, X: Any, n_jobs: int | None, reader: str
    ) -> tuple[AnyArray | SparseTable, int]:
        """What the trees split of each row, and a number of threads."""

    @once
    def _explainer(self) -> Explainer:
        return Explainer(self.model, self._predictor)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the raw scores: classes, targets or quantile levels; empty for one."""
        n_outputs = self.model.forest.n_outputs
        if n_outputs == 1:
            return ()
        known = self._objective
        if isinstance(known, SeveralTargets):
            return known.names
        if self._classes is not None and len(self._classes) == n_outputs:
            return tuple(str(label) for label in self._classes.tolist())
        levels = getattr(known, "levels", None)
        if levels is not None and len(levels) == n_outputs:
            return tuple(str(level) for level in levels)
        return tuple(str(output) for output in range(n_outputs))

    def explain(
        self,
        X: Any,
        *,
        background: Any = None,
        interactions: bool = False,
        outputs: Any = None,
        n_jobs: int | None = None,
        offset: Any = None,
        reader: str = "Booster",
    ) -> Explanation:
        """Shapley values: what each column adds to the raw score of each row.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        background : same as X, optional
            Rows from which a column takes its values where it is not known
            (interventional).  By default the splits of such a column are passed by as many
            rows as in training (path-dependent).
        interactions : bool, default=False
            Divide each value into what the column adds by itself and with each other one.
            Not with a background.
        outputs : int, str, or sequence of these, optional
            Numbers or names of the raw scores that are explained, for a model with several
            (:attr:`output_names`); all by default.
        n_jobs : int, optional
            Threads at most; all available ones by default.
        offset : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Added to the base value of each row, as to its raw score.
        reader : str, default="Booster"
            Named in messages.

        Returns
        -------
        Explanation
            Its values and base values add up to ``predict(X, kind="raw")``.

        Raises
        ------
        ParameterError
            For an output that the model does not have, interactions with a background, and
            either of them for linear leaves.
        DataError
            If X or the background does not fit the model, the background has no rows, or the
            result would take more than 8 GiB.

        Notes
        -----
        Of binary classification the raw score is the log-odds of the second class.  A
        category that training has not seen counts as a value of its own.  The mean target
        of a column's categories counts for the column, and that of two columns for each by
        half.  Of a linear leaf, a column that is not known is at its center.

        Sources: Lundberg et al. 2020 (path-dependent, interactions); Janzing et al. 2020
        (interventional); how they are computed: :mod:`hedgerow.kernels.explain`.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> X, y = [[0.0, 5.0], [0.0, 6.0], [1.0, 5.0], [1.0, 6.0]] * 10, [0.0, 0.0, 2.0, 2.0] * 10
        >>> booster = train({"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0,
        ...                  "min_samples_leaf": 1}, Dataset(X, y))
        >>> found = booster.explain(X[:3])
        >>> found.values.tolist(), float(found.base_values)
        ([[-1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], 1.0)
        """
        if background is not None and interactions:
            raise ParameterError(
                "interactions=True and a background cannot be combined: leave one of them out."
            )
        chosen = self._chosen_outputs(outputs)
        features, given = offset_of_rows(self.model, X, offset)
        values, threads = self._inputs(features, n_jobs, reader)
        base = self._explainer.base
        if background is None:
            found = self._explainer.values(values, bool(interactions), threads)
        else:
            others = self._background(background, n_jobs, reader)
            found = self._explainer.values_against(_dense(values), others, threads)
            base = self._predictor.raw_scores(others, threads).mean(axis=1)
        added = check_offset(given, len(found), len(base))
        if added is not None:
            base = np.ascontiguousarray((base[:, None] + added).T)
        names = self.output_names
        if len(names) == 0:
            found, base = found[..., 0], base[..., 0]
        elif chosen is not None:
            found, base = found[..., chosen], base[..., chosen]
            names = () if np.ndim(chosen) == 0 else tuple(names[k] for k in chosen)
        return Explanation(
            np.ascontiguousarray(found),
            np.asarray(base),
            X,
            self.model.schema.names,
            names,
            bool(interactions),
        )

    def _background(self, background: Any, n_jobs: int | None, reader: str) -> AnyArray:
        features = features_of_rows(self.model, background)
        others = _dense(self._inputs(features, n_jobs, reader)[0])
        if len(others) == 0:
            raise DataError("background has no rows: give at least one.")
        return others

    def _chosen_outputs(self, outputs: Any) -> Any:
        """Numbers of the outputs that are explained: one, a list, or None for all."""
        if outputs is None:
            return None
        if isinstance(outputs, str | numbers.Integral):
            return self._output_number(outputs)
        if not isinstance(outputs, Sequence | np.ndarray) or len(outputs) == 0:
            raise ParameterError(
                f"outputs must be a name, a number, or some of these; got {outputs!r}."
            )
        return [self._output_number(output) for output in outputs]

    def _output_number(self, output: Any) -> int:
        names, n_outputs = self.output_names, self.model.forest.n_outputs
        if isinstance(output, numbers.Integral) and not isinstance(output, bool):
            if 0 <= int(output) < n_outputs:
                return int(output)
        elif str(output) in names:
            return names.index(str(output))
        known = ", ".join(map(repr, names)) if names else "only one, number 0"
        raise ParameterError(f"the model has no output {output!r}; it has: {known}.")


def _dense(values: AnyArray | SparseTable) -> AnyArray:
    """All columns of a table, as an array."""
    if not isinstance(values, SparseTable):
        return values
    return values.dense(np.arange(values.n_features), 0, values.n_rows)
