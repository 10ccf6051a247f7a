"""Importances of columns: from the trees, by permutation, from SHAP values.

==============  ====================================================================
gain            reduction of the training loss by the splits on a column
split, cover    number of these splits; number of rows (their hessians) that they divide
permutation     increase of the loss when the values of a column are shuffled
                (Breiman 2001; Fisher, Rudin and Dominici 2019)
shap            mean absolute SHAP value
==============  ====================================================================

The first three come from the trees.  The others are estimates from rows, with
standard errors over repeats or over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.row_data.classes import column_of, indices_of
from hedgerow.boosting.row_data.targets import targets_of_rows
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.inspection import background as bg
from hedgerow.model.model import ImportanceKind, Model, feature_importance
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.objectives.catalogue import scored_as
from hedgerow.params import Interval
from hedgerow.shown import Viewed, some_of

if TYPE_CHECKING:
    from hedgerow.inspection.methods import Inspections
    from hedgerow.metrics import Metric, MetricChoice

_N_REPEATS = Interval(1, np.inf, integer=True)
_UNITS = {
    "gain": "share of the loss reduction",
    "split": "number of splits",
    "cover": "share of the cover of all splits",
}


@dataclass(frozen=True, eq=False, repr=False)
class Importances(Viewed):
    """Importance of each column.

    Attributes
    ----------
    names : tuple of str
    values : float64, shape (n,) or (n, n_outputs)
    errors : float64 of the same shape, or None
        Standard errors, if the values are estimates.
    kind : str
    unit : str
        Meaning of the values, for an axis label.
    output_names : tuple of str
        Names of several outputs.
    samples : float64 (n, n_repeats), or None
        For permutations, the value of each repeat.
    baseline : float or None
        For permutations, the score of the unchanged rows.
    """

    names: tuple[str, ...]
    values: FloatArray
    errors: FloatArray | None
    kind: str
    unit: str
    output_names: tuple[str, ...] = ()
    samples: FloatArray | None = None
    baseline: float | None = None

    def _facts(self) -> dict[str, object]:
        first = [self.names[k] for k in self.order]
        return {"kind": self.kind, "unit": self.unit, "columns": some_of(first)}

    @property
    def total(self) -> FloatArray:
        """One number per column: the sum over the outputs."""
        return self.values.reshape(len(self.names), -1).sum(axis=1)

    @property
    def order(self) -> tuple[int, ...]:
        """Positions of the columns, the most important first."""
        return tuple(np.argsort(-self.total, kind="stable").tolist())

    def top(self, n: int) -> Importances:
        """Return the ``n`` most important columns, in descending order."""
        chosen = list(self.order[:n])
        return replace(
            self,
            names=tuple(self.names[k] for k in chosen),
            values=self.values[chosen],
            errors=None if self.errors is None else self.errors[chosen],
            samples=None if self.samples is None else self.samples[chosen],
        )

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return a data frame, the most important column first.

        Returns
        -------
        data frame
            Columns ``column``, ``importance``, ``error`` (None without an estimate); for
            several outputs, one row for each, with its name in ``output``.
        """
        order, outputs = list(self.order), self.output_names or ("",)
        errors = np.full(self.values.shape, None) if self.errors is None else self.errors
        columns: dict[str, list[Any]] = {
            "column": [self.names[k] for k in order for _ in outputs],
            "importance": self.values[order].reshape(-1).tolist(),
            "error": errors[order].reshape(-1).tolist(),
        }
        if self.output_names:
            columns["output"] = list(outputs) * len(order)
        return make_frame(columns, backend)


def model_importance(model: Model | Inspections, kind: ImportanceKind = "gain") -> Importances:
    """Return gain, splits or cover of each column; gain and cover as fractions of their sum.

    Parameters
    ----------
    model : Booster, fitted estimator or Model
    kind : {"gain", "splits", "cover"}, default="gain"
        What is added up over the splits of a column.

    Returns
    -------
    Importances

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.inspection import model_importance
    >>> booster = train({"min_samples_leaf": 1}, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
    >>> model_importance(booster.model).values.tolist()
    [1.0]
    """
    model = bg.inspected(model).model
    values = feature_importance(model, kind)
    if kind != "split" and values.sum() > 0.0:
        values = values / values.sum()
    return Importances(model.schema.names, values, None, kind, _UNITS[kind])


def explained_importance(explanation: Any) -> Importances:
    """Return the mean absolute SHAP value of each column, with its standard error over the rows.

    Parameters
    ----------
    explanation : hedgerow.explain.Explanation
        Without interactions.

    Raises
    ------
    ParameterError
        If the explanation has interactions.
    """
    if explanation.interactions:
        raise ParameterError(
            "importances need one value per column, but this explanation has interactions: "
            "explain without interactions=True."
        )
    sizes = np.abs(explanation.values)
    n_rows = len(sizes)
    errors = sizes.std(axis=0, ddof=1) / np.sqrt(n_rows) if n_rows > 1 else None
    return Importances(
        tuple(explanation.feature_names), sizes.mean(axis=0), errors, "shap",
        "mean |SHAP value|", tuple(explanation.output_names),
    )  # fmt: skip


def permutation_importance(
    model: Model | Inspections,
    X: Any,
    y: Any,
    columns: bg.Columns = None,
    *,
    metric: MetricChoice = None,
    n_repeats: int = 5,
    random_state: int = 0,
    sample_weight: Any = None,
    offset: Any = None,
    qid: Any = None,
    n_jobs: int | None = None,
) -> Importances:
    """Return how much the score worsens when the values of a column are shuffled.

    The method is that of :func:`sklearn.inspection.permutation_importance`, but only the
    trees that use the column score the rows again.

    Parameters
    ----------
    model : Booster, fitted estimator or Model
    X, y : array-like
        Rows that the model was not trained on; a Model knows no labels, but 0, 1, ...
    columns : names or positions, optional
        Default: all; other columns have no row in the result.
    metric : name or callable, optional
        Same as ``eval_metric`` of the estimators; default: the loss of the model.
    n_repeats : int, default=5
        Permutations of each column.
    random_state : int, default=0
        Seed of the permutations.
    sample_weight, offset : array-like, optional
    qid : array-like, optional
        For rankings, the query of each row.
    n_jobs : int, optional

    Returns
    -------
    Importances
        Positive if the score is worse with the shuffled column.

    Raises
    ------
    ParameterError, DataError, DataTypeError

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.inspection import permutation_importance
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> booster = train(None, Dataset(X, X[:, 0]))
    >>> found = permutation_importance(booster.model, X, X[:, 0], metric="r2")
    >>> bool(found.values[0] > 1.0), bool(abs(found.values[1]) < 0.1)
    (True, True)
    """
    if n_repeats not in _N_REPEATS:
        raise ParameterError(f"n_repeats must be {_N_REPEATS}; got {brief(n_repeats)}.")
    own = bg.inspected(model)
    chosen = bg.positions_of(columns, own.model)
    background = bg.read_background(own.model, X, "raw", sample_weight, offset, n_jobs)
    judge = _metric(background, metric, qid)
    target = read_targets(background.objective, y, own.classes, background.n_rows)[1]

    def score(raw: FloatArray) -> float:
        values = raw if judge.from_raw else background.values_of(raw)
        return float(judge.function(target, values, background.weight))

    baseline = score(background.raw)
    samples, sign = np.zeros((len(chosen), n_repeats)), -1.0 if judge.higher_is_better else 1.0
    for place, column in enumerate(chosen):
        rescorer = bg.Rescorer(background, column)
        if rescorer.n_rounds == 0:
            continue
        for repeat in range(n_repeats):
            rng = np.random.default_rng([random_state, column, repeat])
            order = rng.permutation(background.n_rows)
            permuted = score(rescorer.scores(background.values[order, column]))
            samples[place, repeat] = sign * (permuted - baseline)
    errors = samples.std(axis=1, ddof=1) / np.sqrt(n_repeats) if n_repeats > 1 else None
    names = tuple(own.model.schema.names[j] for j in chosen)
    verb = "lost" if judge.higher_is_better else "added"
    return Importances(
        names, samples.mean(axis=1), errors, "permutation", f"{judge.name} {verb}",
        samples=samples, baseline=baseline,
    )  # fmt: skip


def read_targets(
    objective: Objective, y: Any, classes: AnyArray | None, n_rows: int
) -> tuple[AnyArray, FloatArray]:
    """Return the targets as the user names them, and in the form of the objective."""
    if classes is None or isinstance(objective, SeveralTargets):
        values = targets_of_rows(objective, y, n_rows)
        return values, values
    labels = column_of(y, "y")
    if len(labels) != n_rows:
        raise DataError(f"y has {len(labels)} rows, but X has {n_rows}.")
    return labels, indices_of(labels, np.asarray(classes), "y", "the model")


def read_queries(objective: Objective, qid: Any, n_rows: int) -> IntArray | None:
    """Return the query of each row; raise unless rankings, and only they, have queries."""
    from hedgerow.boosting.row_data.queries import read_qid  # an estimator imports this module

    is_ranking = scored_as(objective) == "ranking"
    if is_ranking != (qid is not None):
        raise ParameterError(
            "a ranking model needs qid, the query of each row: pass qid."
            if is_ranking
            else f"qid is for rankings; this model is of {objective.name!r}: leave it out."
        )
    return None if qid is None else read_qid(qid, n_rows)


def _metric(background: bg.Background, metric: MetricChoice, qid: Any) -> Metric:
    """Return the metric of the rows; for a ranking, of their queries."""
    from hedgerow.metrics import make_metrics, metrics_of_queries
    from hedgerow.metrics.queries import query_rows

    objective, n_rows = background.objective, background.n_rows
    metrics: Sequence[Metric] = make_metrics(metric, objective)
    if len(metrics) != 1:
        raise ParameterError(f"metric must be a single metric; got {brief(metric)}.")
    codes = read_queries(objective, qid, n_rows)
    if codes is not None:
        metrics = metrics_of_queries(metrics, objective, query_rows(codes, n_rows))
    return metrics[0]
