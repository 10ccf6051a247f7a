"""Laws that every random fit obeys.

A fit returns a model or raises an error of :mod:`hedgerow.errors`, never another one.  A model
is the same with one and two threads, and for a sparse and a dense table with the same values.  It
predicts the same before and after it is saved.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import hedgerow
from hedgerow import Booster, Dataset, DataTypeError, HedgerowError, cross_fit, train
from hedgerow.boosting.loop.setup import resolved
from hedgerow.cart import training as cart_training
from hedgerow.growing.core import grower
from hedgerow.io.model_file import model_from_bytes, model_to_bytes
from hedgerow.params import grouped
from tests.helpers.chunked import Rows, divided_into

from .configurations import Configuration, draw_configuration
from .tables import DrawnTable

RMSE_OF = (
    "squared_error",
    "absolute_error",
    "huber",
    "pseudo_huber",
    "fair",
    "log_cosh",
    "poisson",
    "gamma",
)
"""Losses whose predictions are numbers like the target."""


class Finding(Exception):
    """A law that a fit has broken."""


def check(seed: int, index: int, core: bool = False) -> str:
    """Check configuration ``index``; return ``"fitted"`` or the error that refused it.

    Raises
    ------
    Finding
        If a law is broken; other errors are findings too.
    """
    configuration = draw_configuration(seed, index, core)
    with _threads_for_few_rows(configuration), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TASKS[configuration.task](configuration)


@contextmanager
def _threads_for_few_rows(configuration: Configuration) -> Any:
    """Let threads share the work of small tables too."""
    kept = resolved._CELLS_PER_THREAD, grower._SLOT_BYTES, cart_training._CELLS_PER_THREAD
    if configuration.is_split_up:
        resolved._CELLS_PER_THREAD = cart_training._CELLS_PER_THREAD = 1
    if not configuration.keeps_slots:
        grower._SLOT_BYTES = 1
    try:
        yield
    finally:
        resolved._CELLS_PER_THREAD, grower._SLOT_BYTES, cart_training._CELLS_PER_THREAD = kept


# -- fits ------------------------------------------------------------------------------


def make(configuration: Configuration, n_jobs: int, **other: Any) -> Any:
    """Return the unfitted estimator."""
    name = configuration.estimator
    kind = getattr(hedgerow, name if name.startswith("CART") else f"Hedgerow{name}")
    return kind(**grouped({**configuration.params, "n_jobs": n_jobs, **other}))


def arguments(configuration: Configuration, form: str | None = None) -> dict[str, Any]:
    """Return the arguments of ``fit`` after X and y."""
    found = dict(configuration.fit)
    if "X_val" in found:
        found["X_val"] = found["X_val"].make(form)
    return found


def fitted(configuration: Configuration, n_jobs: int, form: str | None = None, **other: Any) -> Any:
    """Return the fitted estimator, or the error of this library that refuses it."""
    X = configuration.table.make(form)
    try:
        model = make(configuration, n_jobs, **other)
        return model.fit(X, configuration.target, **arguments(configuration, form))
    except HedgerowError as error:
        return error


def same_error(first: Exception, second: Any, where: str) -> str:
    """Return the error of a fit; raise if the other fit differs."""
    if type(first) is not type(second) or str(first) != str(second):
        raise Finding(f"{where}: {first!r} and {second!r}")
    return f"{type(first).__name__}: {first}"


def bytes_of(model: Any) -> bytes:
    """Return the bytes of the model without the parameters of the estimator."""
    return model_to_bytes(model.booster_.model)


def check_fit(configuration: Configuration) -> str:
    """Check the laws of a fit of an estimator."""
    model, other = fitted(configuration, 1), fitted(configuration, configuration.n_threads)
    if isinstance(model, Exception):
        refused = same_error(model, other, "one thread and several")
        _check_refusal(configuration, refused)
        return refused
    if isinstance(other, Exception):
        raise Finding(f"one thread fits, several do not: {other!r}")
    if bytes_of(model) != bytes_of(other):
        raise Finding("one thread and several give different bytes")
    if configuration.is_settled:
        _check_twins(configuration, model)
    _check_predictions(configuration, model)
    _check_curves(configuration, model)
    _check_file(configuration, model)
    return "fitted"


def _check_refusal(configuration: Configuration, refused: str) -> None:
    """Check that an error for the sparse table only mentions sparse tables."""
    if not configuration.table.is_sparse or not configuration.is_settled or "sparse" in refused:
        return
    if not isinstance(fitted(configuration, 1, configuration.table.dense_form()), Exception):
        raise Finding(f"the dense table is fitted, the sparse one not: {refused}")


def _check_twins(configuration: Configuration, model: Any) -> None:
    """Check the same values in another container, and other columns of the histogram."""
    params, table = configuration.params, configuration.table
    # Several targets share trees with vector leaves, but not with requested bundles.
    shared = np.ndim(configuration.target) == 2 and params.get("bundle_features") is True
    if (
        not shared
        and params.get("max_conflict_rate", 0.0) == 0.0
        and params.get("tree_method") is None
    ):
        bundled = params.get("bundle_features", "auto")
        twin = fitted(configuration, 1, bundle_features="auto" if bundled is False else False)
        if isinstance(twin, Exception):
            if "bundle" not in str(twin):
                raise Finding(f"with other bundles: {twin!r}")
        elif bytes_of(twin) != bytes_of(model):
            raise Finding("bundles change the model")
    if table.is_sparse:
        twin = fitted(configuration, 1, table.dense_form())
        if isinstance(twin, Exception):
            raise Finding(f"the sparse table is fitted, the dense one not: {twin!r}")
        if bytes_of(twin) != bytes_of(model):
            raise Finding("sparse and dense tables give different bytes")


# -- predictions -----------------------------------------------------------------------


def outputs(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return all kinds of predictions."""
    found = {"predict": np.asarray(model.predict(X)), "apply": np.asarray(model.apply(X))}
    if hasattr(model, "predict_proba"):
        try:
            found["proba"] = np.asarray(model.predict_proba(X))
        except (AttributeError, HedgerowError):
            assert model.objective == "hinge"
    if hasattr(model, "booster_"):
        found["raw"] = model.booster_.predict(X, kind="raw")
        found["leaf"] = model.booster_.predict(X, kind="leaf", n_jobs=2)
    return found


def same(first: dict[str, np.ndarray], second: dict[str, np.ndarray], where: str) -> None:
    """Raise if predictions differ."""
    for kind, values in first.items():
        other = second[kind]
        if values.shape != other.shape or not _equal(values, other):
            raise Finding(f"{kind} differs {where}")


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    if first.dtype.kind == "f":
        return bool(np.array_equal(first, second, equal_nan=True))
    return bool(np.array_equal(first, second))


def _check_predictions(configuration: Configuration, model: Any) -> None:
    table, unseen = configuration.table, configuration.unseen
    n_rows = table.n_rows
    X = table.make()
    try:
        of_training = outputs(model, X)
    except HedgerowError:  # a category of the rows that were set aside
        if configuration.params.get("unknown_category") != "error":
            raise
        return
    for kind, values in of_training.items():
        if len(values) != n_rows:
            raise Finding(f"{kind} has {len(values)} rows, not {n_rows}")
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise Finding(f"{kind} of the training rows is NaN")
    total = 1.0
    if "proba" in of_training and np.ndim(configuration.target) == 1:
        total = of_training["proba"].sum(axis=1)
    if not np.allclose(total, 1.0):
        raise Finding("probabilities do not add up to 1")
    few = np.arange(min(3, n_rows))
    same(
        {k: v[few] for k, v in of_training.items()}, outputs(model, table.take(few).make()), "alone"
    )
    if unseen is None:
        return
    try:
        plain = outputs(model, unseen.make())
    except DataTypeError:  # text, in a column that had no value before
        return
    except HedgerowError:
        if configuration.params.get("unknown_category") != "error":
            raise
        return
    if table.is_sparse:
        dense = outputs(model, unseen.make(table.dense_form()))
        same(plain, dense, "between sparse and dense rows")
    if configuration.index % 3 == 0:
        _check_rounds(configuration, model)


def _check_rounds(configuration: Configuration, model: Any) -> None:
    """Check that the last stage is the prediction, and that importances are finite."""
    booster, X = model.booster_, configuration.table.make()
    for kind in ("gain", "split", "cover"):
        found = booster.feature_importance(kind)
        if found.shape != (configuration.table.n_features,) or not np.isfinite(found).all():
            raise Finding(f"importance by {kind}: {found}")
    try:
        stages = list(booster.staged_raw_scores(X))
    except HedgerowError:
        return
    raw = booster.raw_scores(X)
    if len(stages) != booster.num_rounds:
        raise Finding(f"{len(stages)} stages of {booster.num_rounds} rounds")
    if stages and not np.allclose(stages[-1], raw, rtol=1e-9, atol=1e-9, equal_nan=True):
        raise Finding("the last stage is not the prediction")


def _check_curves(configuration: Configuration, model: Any) -> None:
    """Check that recorded scores are those of the model's predictions."""
    fit, curves = configuration.fit, model.evals_result_
    plain = configuration.estimator == "Regressor" and np.ndim(configuration.target) == 1
    if not plain or model.objective not in RMSE_OF or model.booster_.num_rounds == 0:
        return
    # Where features of a bundle conflict, rounds see one of them; predictions see both.  Means
    # of the target stand for categories otherwise in training than in prediction.
    conflicts = configuration.params.get("max_conflict_rate", 0.0) > 0.0
    if conflicts or model.booster_.model.inputs is not None:
        return
    sets = {
        "train": (configuration.table, configuration.target, fit.get("sample_weight")),
        "validation": (fit.get("X_val"), fit.get("y_val"), None),
    }
    for name, (table, y, weight) in sets.items():
        if table is None or "rmse" not in curves.get(name, {}):
            continue
        of_rows = {"offset": fit["offset"]} if "offset" in fit else {}
        predicted = model.predict(table.make(), **of_rows)
        score = np.sqrt(np.average((predicted - np.asarray(y, float)) ** 2, weights=weight))
        noted = curves[name]["rmse"][model.booster_.num_rounds - 1]
        if not np.isclose(score, noted, rtol=1e-6, atol=1e-9 * np.abs(predicted).max()):
            raise Finding(f"rmse of {name} rows: noted {noted}, predicted {score}")


def _check_file(configuration: Configuration, model: Any) -> None:
    """Check that a saved model predicts the same."""
    X = (configuration.unseen or configuration.table).make()
    try:
        model.predict(X)
    except HedgerowError:  # seen by the check of predictions
        return
    data = bytes_of(model)
    back = Booster(model_from_bytes(data)[0])
    if model_to_bytes(back.model) != data:
        raise Finding("a model that was read is written with other bytes")
    same(
        {"raw": model.booster_.predict(X, kind="raw")}, {"raw": back.predict(X, kind="raw")}, "read"
    )
    if configuration.index % 4:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.hedgerow"
        model.save(path)
        loaded = type(model).load(path)
    same(outputs(model, X), outputs(loaded, X), "after loading")


# -- other tasks -----------------------------------------------------------------------


def check_cross_fit(configuration: Configuration) -> str:
    """Check folds with one thread and with several."""
    if configuration.estimator == "Ranker" or "X_val" in configuration.fit:
        return check_fit(configuration)
    found = []
    for n_jobs in (1, configuration.n_threads):
        try:
            done = cross_fit(
                make(configuration, n_jobs), configuration.table.make(), configuration.target, 3,
                n_jobs=n_jobs, **configuration.fit,
            )  # fmt: skip
            found.append((done.oof_raw, bytes_of(done.model)))
        except HedgerowError as error:
            found.append(error)
    first, second = found
    if isinstance(first, Exception):
        return same_error(first, second, "folds by one thread and several")
    if isinstance(second, Exception):
        raise Finding(f"folds by one thread are fitted, by several not: {second!r}")
    if not _equal(first[0], second[0]) or first[1] != second[1]:
        raise Finding("folds by one thread and several differ")
    return "fitted"


def check_continue(configuration: Configuration) -> str:
    """Check that a model can be continued with other rows."""
    first = fitted(configuration, 1)
    if isinstance(first, Exception):
        return f"{type(first).__name__}: {first}"
    table = configuration.table
    rows = np.random.default_rng(configuration.index).permutation(table.n_rows)
    arguments_ = {k: v[rows] for k, v in configuration.fit.items() if k not in ("X_val", "y_val")}
    found: list[Any] = []
    for n_jobs in (1, configuration.n_threads):
        try:
            model = make(configuration, n_jobs)
            model.fit(
                table.take(rows).make(), configuration.target[rows], init_model=first, **arguments_
            )
            found.append(model)
        except HedgerowError as error:
            found.append(error)
    if isinstance(found[0], Exception):
        return same_error(found[0], found[1], "going on by one thread and several")
    if isinstance(found[1], Exception) or bytes_of(found[0]) != bytes_of(found[1]):
        raise Finding("going on by one thread and several differ")
    _check_predictions(configuration, found[0])
    return "fitted"


def check_train(configuration: Configuration) -> str:
    """Check ``train``: batches of rows, in one chunk and in several, give the model of memory."""
    table, y, fit = configuration.table, np.asarray(configuration.target), configuration.fit
    params = dict(configuration.params)
    of_data = {
        k: params.pop(k) for k in ("categorical_features", "unknown_category") if k in params
    }
    params.pop("class_weight", None)
    parts = []
    if configuration.estimator == "Classifier":
        y = np.unique(y, return_inverse=True)[1] if y.ndim == 1 else y
        if params.get("objective", "auto") == "auto":
            several = y.ndim == 1 and len(np.unique(y)) > 2
            params["objective"] = "softmax" if several else "logistic"
    elif "X_val" in fit:
        parts = [_rows_of(fit["X_val"], np.asarray(fit["y_val"]), {})]
    parts = [_rows_of(table, y, fit), *parts]
    first = None
    if configuration.index % 3 == 0:
        kept = ("objective", "num_parallel_tree", "zero_as_missing")
        few = {"n_estimators": 2} | {name: params[name] for name in kept if name in params}
        begun = _trained(few, [replace(parts[0], roles={}).in_memory(**of_data)])
        first = None if isinstance(begun, Exception) else begun

    def outcome(n_jobs: int, size: int = 0) -> Any:
        given = [
            rows.in_batches(size, **of_data) if size else rows.in_memory(**of_data)
            for rows in parts
        ]
        return _trained({**params, "n_jobs": n_jobs}, given, init_model=first)

    n_jobs, size = configuration.n_threads, 1 + configuration.index * 7 % table.n_rows
    expected, other = outcome(1), outcome(n_jobs)
    if isinstance(expected, Exception):
        return same_error(expected, other, "train by one thread and several")
    with divided_into(64):
        in_chunks = outcome(n_jobs, size)
    found = {"by several threads": other, "in batches": outcome(n_jobs, size)}
    if not isinstance(in_chunks, Exception):  # chunks refuse what needs all rows
        found["in chunks"] = in_chunks
    for where, booster in found.items():
        if isinstance(booster, Exception) or booster.to_bytes() != expected.to_bytes():
            raise Finding(f"train {where} gives another model: {booster!r}")
    return "fitted"


def _rows_of(table: DrawnTable, y: np.ndarray, fit: dict[str, Any]) -> Rows:
    """Return a frame with the columns of the table, of targets, weights, offsets and so on."""
    frame, roles = table.make("pandas"), {}
    if y.dtype.names:
        y = np.where(y["event"], y["time"], -y["time"])
    given = {
        name: fit[name] for name in ("sample_weight", "offset", "qid", "groups") if name in fit
    }
    columns = {}
    for role, values in {"y": y, **given}.items():
        parts = np.asarray(values).reshape(len(values), -1).T
        names = [f"{role} {number}" for number in range(len(parts))]
        columns |= dict(zip(names, parts, strict=True))
        roles[role.removeprefix("sample_")] = names[0] if len(names) == 1 else names
    target = roles.pop("y")
    return Rows(frame.assign(**columns), list(frame.columns), target, roles)


def _trained(params: dict[str, Any], data: list[Dataset], **more: Any) -> Any:
    """Return the model, or the error of this library that refuses it."""
    try:
        return train(params, *data, **more)
    except HedgerowError as error:
        return error


def check_cart(configuration: Configuration) -> str:
    """Check the same laws for single trees, which have no bins."""
    model, other = fitted(configuration, 1), fitted(configuration, configuration.n_threads)
    if isinstance(model, Exception):
        return same_error(model, other, "one thread and several")
    X = configuration.table.make()
    same(outputs(model, X), outputs(other, X), "between one thread and several")
    if sparse.issparse(X):
        form = configuration.table.dense_form()
        dense = fitted(configuration, 1, form)
        if isinstance(dense, Exception):
            raise Finding(f"sparse rows are fitted, dense ones are not: {dense!r}")
        same(outputs(model, X), outputs(dense, configuration.table.make(form)), "of dense rows")
    unseen = configuration.unseen.make()
    loaded = pickle.loads(pickle.dumps(model))
    try:
        model.predict(unseen)
    except HedgerowError as error:
        return f"{type(error).__name__}: {error}"
    same(outputs(model, unseen), outputs(loaded, unseen), "after loading")
    return "fitted"


def check_refit(configuration: Configuration) -> str:
    """Check new leaf values for the trees of a model."""
    model = fitted(configuration, 1)
    if isinstance(model, Exception):
        return f"{type(model).__name__}: {model}"
    table, y = configuration.table, configuration.target
    if configuration.estimator == "Classifier" and np.ndim(y) == 1:
        y = np.unique(y, return_inverse=True)[1]
    found: list[Any] = []
    given = {k: v for k, v in configuration.fit.items() if k in ("sample_weight", "offset", "qid")}
    for n_jobs in (1, configuration.n_threads):
        try:
            found.append(model.booster_.refit(table.make(), y, decay=0.5, n_jobs=n_jobs, **given))
        except HedgerowError as error:
            found.append(error)
    if isinstance(found[0], Exception):
        return same_error(found[0], found[1], "refit by one thread and several")
    if model_to_bytes(found[0].model) != model_to_bytes(found[1].model):
        raise Finding("refit by one thread and several differ")
    if np.isnan(found[0].predict(table.make(), kind="raw")).any():
        raise Finding("a refitted model predicts NaN")
    return "fitted"


TASKS = {
    "refit": check_refit,
    "fit": check_fit,
    "cross_fit": check_cross_fit,
    "continue": check_continue,
    "train": check_train,
    "cart": check_cart,
}
