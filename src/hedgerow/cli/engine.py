"""The commands' interface to estimators and model files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.booster import Booster, load, objective_of
from hedgerow.boosting.automatic.defaults import AUTO, chosen_names
from hedgerow.boosting.automatic.recipe import AUTOMATIC
from hedgerow.boosting.row_data.classes import n_classes_of
from hedgerow.boosting.row_data.row_values import ROW_VALUES
from hedgerow.cli.usage import UsageError, one_line, shows_progress
from hedgerow.convert.reading import load_any
from hedgerow.data import Schema
from hedgerow.data.categories.columns import check_unknown
from hedgerow.errors import HedgerowError
from hedgerow.estimators.labels import label_classes
from hedgerow.metrics import make_metrics
from hedgerow.model.model import Model
from hedgerow.objectives import make_objective
from hedgerow.objectives.catalogue import scored_as, task_of
from hedgerow.plot.curves import score_at

if TYPE_CHECKING:
    from hedgerow.estimators import HedgerowClassifier, HedgerowRanker, HedgerowRegressor

Estimator: TypeAlias = "HedgerowClassifier | HedgerowRegressor | HedgerowRanker"


def estimator_class(task: str) -> type[Estimator]:
    """Return the estimator for ``"classification"``, ``"regression"`` or ``"ranking"``."""
    # Commands that only read a model do not wait for scikit-learn.
    from hedgerow import estimators

    classes: dict[str, type[Estimator]] = {
        "classification": estimators.HedgerowClassifier,
        "regression": estimators.HedgerowRegressor,
        "ranking": estimators.HedgerowRanker,
    }
    return classes[task]


_LEVELS_SHOWN = 5
_OF_ROWS = frozenset(value.of_fit for value in ROW_VALUES)
_OF_SOME_MODELS = ("quantile", "loss_parameters", "targets", "offset_columns", "folds")
"""Facts that models without them do not show."""


def fit(task: str, settings: Mapping[str, Any], X: Any, y: Any, **more: Any) -> Estimator:
    """Fit the estimator of a task, with a progress bar on a terminal."""
    # The model file does not depend on the terminal.
    estimator: Any = estimator_class(task)(**settings, progress=shows_progress())
    try:
        estimator.fit(X, y, **more)
    except HedgerowError:
        raise
    except (TypeError, ValueError) as error:  # from scikit-learn's checks
        raise UsageError(one_line(error)) from error
    return finished(estimator)


def check_values(estimator: Estimator) -> None:
    """Raise for parameters that no data would suit."""
    estimator._params()  # noqa: SLF001
    estimator._stopping()  # noqa: SLF001
    estimator._check_objective()  # noqa: SLF001
    check_unknown(estimator.unknown_category)
    if estimator.eval_metric is None:
        return
    # Metrics must suit some targets of the task: two classes, or several.
    if estimator.objective != "auto":
        objectives = [make_objective(str(estimator.objective), 1, None, estimator._loss_values())]  # noqa: SLF001
    elif isinstance(estimator, estimator_class("classification")):
        objectives = [make_objective("logistic"), make_objective("softmax", 3)]
    else:
        objectives = [make_objective(estimator._default_objective)]  # noqa: SLF001
    errors = []
    for objective in objectives:
        try:
            make_metrics(estimator.eval_metric, objective)
        except HedgerowError as error:
            errors.append(error)
    if len(errors) == len(objectives):
        raise errors[0]


def finished(estimator: Estimator) -> Estimator:
    """Return a fitted estimator without the settings of the terminal."""
    estimator.set_params(progress=False)
    model: Model = estimator.booster_.model
    record = dict(model.training)
    for key in ("history", "init_scores"):
        if key in record:
            record[key] = {rows: known for rows, known in record[key].items() if rows != "train"}
    known = estimator.booster_.classes
    estimator.booster_ = Booster(replace(model, training=record), known)
    return estimator


def score_lines(booster: Booster) -> list[str]:
    """Return lines with the scores of a fit on rows that it was not trained on."""
    # The scores come from validation rows or from the folds of early stopping. Without these there
    # are no lines.
    best = booster.best_iteration
    at = "" if best is None else f" (best round: {best})"
    lines = []
    for name, scores in booster.evals_result.get("validation", {}).items():
        if scores:
            number = booster.num_rounds if best is None else best
            score = score_at(booster.model, "validation", name, scores, number)
            lines.append(f"validation {name}: {score:.5g}{at}")
    folds = booster.model.training.get("folds", {})
    for name, scores in booster.evals_result.get("cv", {}).items():
        if scores and folds.get("folds"):
            stride = folds.get("stride", 1.0)
            place = min(len(scores), max(1, round((best or 1) / stride))) - 1
            n_folds, n_tested = folds["folds"]
            of = "" if n_tested == n_folds else f", {n_tested} of them tested"
            lines.append(
                f"{name} of rows not trained on, by {n_folds} folds{of}: {scores[place]:.5g}"
            )
    return lines


def usual_metrics(booster: Booster) -> list[str]:
    """Return the metrics that people ask for, whatever the loss of a model with one target."""
    if booster.target_names is not None:
        return []
    found = USUAL.get(task_of_booster(booster), [])
    return found if found != ["r2"] or booster.model.forest.n_outputs == 1 else []


USUAL = {"two classes": ["accuracy", "auc"], "classes": ["accuracy"], "regression": ["r2"]}


def usual_scores(booster: Booster, rows: Any) -> list[str]:
    """Return lines with the usual scores of validation rows that the fit did not compute."""
    known = booster.evals_result.get("validation", {})
    metrics = [name for name in usual_metrics(booster) if name not in known]
    scores = booster.eval(rows, metrics) if metrics else {}
    return [f"validation {name}: {score:.5g}" for name, score in scores.items()]


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A model file: its booster, and the labels of its classes (None for regression)."""

    booster: Booster
    classes: list[Any] | None

    @property
    def task(self) -> str:
        return "regression" if self.classes is None else "classification"


def open_model(path: str) -> SavedModel:
    """Read a model file written by the command line, an estimator or a booster."""
    booster = load(path)
    objective = objective_of(booster.model)
    if task_of(objective) == "regression":
        return SavedModel(booster, None)
    known = booster.classes
    if known is None:
        known = label_classes(objective)
    if known is None:  # a booster of `train` wrote the file, with class indices only
        known = np.arange(n_classes_of(objective) or 0)
    return SavedModel(booster, known.tolist())


def chosen_parameters(path: str) -> dict[str, Any]:
    """Return the values chosen for ``"auto"`` in an estimator's model file, by parameter."""
    model, record, _ = load_any(path)
    given = {} if record is None else record.get("params")
    if not isinstance(given, dict):
        return {}
    found = model.training.get("parameters", {})
    names = {name for name in AUTOMATIC if given.get(name) == AUTO}
    return {name: found[name] for name in chosen_names(frozenset(names), found) if name in found}


def task_of_booster(booster: Booster) -> str:
    """Return ``"ranking"`` for a ranking model, else the task of its metrics."""
    return scored_as(objective_of(booster.model))


def prediction_columns(model: SavedModel, X: Any, kind: str) -> dict[str, AnyArray]:
    """Return the columns that ``hedgerow predict`` writes for a table."""
    booster = model.booster
    if kind == "leaf":
        leaves = booster.predict(X, kind="leaf")
        return {f"leaf_{tree}": leaves[:, tree] for tree in range(leaves.shape[1])}
    if kind == "raw":
        raw = booster.predict(X, kind="raw")
        if raw.ndim == 1:
            return {"raw": raw}
        levels = booster.model.training.get("quantile")
        known = model.classes or levels or booster.target_names or range(raw.shape[1])
        return _by_class("raw", raw, list(known))
    if model.classes is None:
        if kind == "probability":
            raise UsageError("--kind probability needs a classification model; use value")
        values = booster.predict(X)
        if values.ndim == 1:
            return {"prediction": values}
        known = booster.target_names or booster.model.training["quantile"]
        return _by_class("prediction", values, list(known))
    scores = booster.raw_scores(X)
    columns = _by_class("probability", booster.from_raw(scores, "probability"), model.classes)
    if booster.target_names is not None:
        values = booster.from_raw(scores, "value")
        found = _by_class("prediction", values, model.classes) if kind == "value" else {}
        return found | columns
    if kind == "value":
        labels = np.array(model.classes)[booster.from_raw(scores, "value")]
        columns = {"prediction": labels, **columns}
    return columns


def _by_class(prefix: str, values: AnyArray, classes: list[Any]) -> dict[str, AnyArray]:
    return {f"{prefix}_{label}": values[:, place] for place, label in enumerate(classes)}


def facts(model: SavedModel) -> dict[str, Any]:
    """Return the contents of ``hedgerow inspect``, as plain values for JSON."""
    booster = model.booster
    forest, training = booster.model.forest, booster.model.training
    starts, leaf = forest.tree_start, forest.feature < 0
    leaves = [int(leaf[a:b].sum()) for a, b in pairwise(starts)]
    gain = booster.feature_importance("gain")
    share = gain / gain.sum() if gain.sum() > 0 else gain
    scored = task_of_booster(booster)
    columns: list[dict[str, Any]] = []
    for column in booster.model.schema.columns:
        columns.append({"name": column.name, "kind": column.kind})
        if column.kind == "category":
            first = list(column.levels[:_LEVELS_SHOWN])
            columns[-1] |= {"n_levels": len(column.levels), "first_levels": first}
        elif column.temporal is not None:
            columns[-1]["holds"] = column.temporal
    found = {
        "task": scored if scored in ("ranking", "survival") else model.task,
        "objective": booster.objective,
        "quantile": training.get("quantile"),
        "loss_parameters": training.get("loss_parameters"),
        "classes": model.classes,
        "targets": list(booster.target_names or ()),
        "trees": booster.num_trees,
        "rounds": booster.num_rounds,
        "leaves": sum(leaves),
        "most_leaves": max(leaves, default=0),
        "best_round": booster.best_iteration,
        "training_rows": training.get("n_rows"),
        "features": list(booster.feature_names),
        "columns": columns,
        "importance": dict(zip(booster.feature_names, map(float, share), strict=True)),
        "parameters": training.get("parameters", {}),
        "offset_columns": list(booster.offset_columns),
        "folds": training.get("folds"),
    }
    return {name: value for name, value in found.items() if value or name not in _OF_SOME_MODELS}


def read_rows(
    path: str, schema: Schema, aside: Sequence[str] = (), texts: Collection[str] = ()
) -> tuple[Any, dict[str, AnyArray]]:
    """Return all rows of a table in the form of a model with this schema, and columns ``aside``."""
    from hedgerow.data.reading.model_rows import model_files
    from hedgerow.data.reading.texts import parse

    files = model_files([path], schema, aside)
    parts = list(files.batches(1 << 40))
    if not parts:
        raise UsageError(f"{path}: no rows; give a table with rows")
    import pyarrow as pa

    found = {}
    for name in aside:
        column = pa.chunked_array(chunk for part in parts for chunk in part.keys[name].chunks)
        decimal = getattr(files.files[0], "decimal", None)
        # Other columns of a text file become numbers, if all values are.
        if decimal is not None and name not in texts:
            column = parse(column, decimal)[1]
        if column.null_count:
            row = column.is_null().index(True).as_py() + 1
            raise UsageError(
                f"{path}: {name!r} is missing in {column.null_count} row(s), the first is row "
                f"{row}; remove these rows"
            )
        found[name] = column.to_numpy()
    return pa.concat_tables(part.features for part in parts), found
