"""Values of wrong types in the JSON of a model file are refused or harmless."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.boosting.resume.continuing import Start
from hedgerow.cli.main import main
from hedgerow.errors import HedgerowError, ModelFormatError
from tests.io.test_model_file import take_apart, with_metadata

RNG = np.random.default_rng(0)
N = 120
X = {
    "size": RNG.normal(size=N),
    "town": RNG.choice(["Bonn", "Jena", "Ulm"], N),
    "count": RNG.integers(0, 9, N),
}
Y = X["size"] + RNG.normal(size=N)
QID = np.repeat(np.arange(N // 10), 10)
TINY: dict[str, Any] = {"n_estimators": 3, "max_leaves": 3, "min_samples_leaf": 5}
PLAIN: dict[str, Any] = {**TINY, "early_stopping": False}
ROWS = {name: column[:4] for name, column in X.items()}
ODD: tuple[Any, ...] = (
    None, True, 7, -3, 0.5, 2**63, {"$float": "nan"}, {"$float": "inf"}, "x", "<U-73741825", [],
    [1, "a"], [[0.5]], {}, {"a": 1}, {"a": [None]},
)  # fmt: skip
"""A value of every JSON type."""


def _stopped() -> Any:
    rows = {name: column[::2] for name, column in X.items()}
    valid = {"X_val": rows, "y_val": Y[::2]}
    first = HedgerowRegressor(**TINY).fit(X, Y, **valid)
    return HedgerowRegressor(**TINY, learning_rate=[0.3, 0.2, 0.1]).fit(
        X, Y, init_model=first, **valid
    )


def _of_folds() -> Any:
    names = np.array(["no", "yes"])[(Y > 0).astype(int)]
    settings = {**TINY, "early_stopping": "cv", "class_weight": {"yes": 2.0}}
    return HedgerowClassifier(**settings).fit(X, names)


def _weighted() -> Any:
    return HedgerowClassifier(**PLAIN, class_weight="balanced").fit(X, np.digitize(Y, [0.0, 1.0]))


def _ranking() -> Any:
    return HedgerowRanker(**PLAIN, boosting="dart").fit(X, np.digitize(Y, [0.0, 1.0]), qid=QID)


def _quantiles() -> Any:
    settings = {**PLAIN, "objective": "quantile", "quantile": [0.1, 0.9]}
    return HedgerowRegressor(**settings).fit(X, Y)


def _survival() -> Any:
    target = np.where(Y > -1.0, 1.0, -1.0) * np.exp(Y)  # censored ones with a minus sign
    return HedgerowRegressor(**PLAIN, objective="cox").fit(X, target)


def _constrained() -> Any:
    settings = {"monotone_constraints": {"size": 1}, "interaction_constraints": [["size", "town"]]}
    settings |= {"feature_penalties": {"count": 0.5}}
    settings |= {"boosting": "gbdt", "subsample": 0.7, "oob_score": True}
    offset = X | {"known": np.zeros(N)}
    return HedgerowRegressor(**PLAIN, **settings).fit(offset, Y, offset="known")


def _several() -> Any:
    return HedgerowRegressor(**PLAIN).fit(X, np.column_stack([Y, -Y]))


def _with_statistics() -> Any:
    settings = {**PLAIN, "target_statistics": True, "linear_leaves": True}
    return HedgerowRegressor(**settings).fit(X, Y)


def _own_loss() -> Any:
    def half(y: Any, raw: Any) -> tuple[Any, Any]:
        return raw - y, np.ones_like(y)

    return HedgerowRegressor(**PLAIN, objective=half).fit(X, Y)


MODELS = {
    "stopped": _stopped,
    "folds": _of_folds,
    "weighted": _weighted,
    "ranking": _ranking,
    "quantiles": _quantiles,
    "survival": _survival,
    "constrained": _constrained,
    "several": _several,
    "statistics": _with_statistics,
    "own": _own_loss,
}


@cache
def content(name: str, folder: str) -> tuple[type, bytes]:
    estimator = MODELS[name]()
    path = f"{folder}/{name}"
    estimator.save(path)
    with open(path, "rb") as file:
        return type(estimator), file.read()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every place and value of a JSON document; only the first items of long lists."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:3]):
            yield from places(item, (*path, number))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


@dataclass(frozen=True)
class Place:
    """A place of a record, and the value there as JSON."""

    text: str
    path: tuple[Any, ...]
    value: str


def places_of(data: bytes) -> list[Place]:
    metadata = take_apart(data)[0]["__metadata__"]
    texts = [name for name in ("training", "estimator", "schema", "inputs") if name in metadata]
    return [
        Place(name, path, json.dumps(value))
        for name in texts
        for path, value in places(json.loads(metadata[name]))
    ]


def places_of_earlier(name: str, folder: str) -> set[Place]:
    """Return the places and values of the earlier models in the list."""
    earlier = itertools.takewhile(lambda other: other != name, MODELS)
    return {place for other in earlier for place in places_of(content(other, folder)[1])}


def forged(data: bytes, name: str, path: tuple[Any, ...], new: Any) -> bytes:
    value = replaced(json.loads(take_apart(data)[0]["__metadata__"][name]), path, new)
    return with_metadata(data, **{name: json.dumps(value)})


def look_everywhere(estimator: Any, path: str) -> None:
    """Call everything that reads a record; errors for users are allowed."""
    booster = estimator.booster_
    rows = ROWS | {name: np.zeros(4) for name in booster.offset_columns}
    for look in (
        lambda: estimator.predict(rows),
        lambda: estimator.predict_proba(rows) if hasattr(estimator, "predict_proba") else None,
        lambda: (repr(booster), repr(estimator), booster.stopped_by, booster.target_names),
        lambda: (booster.evals_result, booster.best_iteration, booster.history_frame(None)),
        lambda: booster.feature_importance(),
        lambda: booster.to_text(),
        lambda: booster.verify_monotone(),
        lambda: list(booster.staged_predict(rows)),
        lambda: booster.refit(rows, np.arange(4.0) % 2),
        lambda: [hasattr(estimator, name) for name in ("oob_improvement_", "oob_score_")],
        lambda: estimator.chosen_params_,
        lambda: booster.predict_survival_function(rows, [1.0]),
        lambda: main(["inspect", path]),
        lambda: Start(booster.model).rates_and(0.1, 5),
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                look()
        except HedgerowError:
            pass


def try_all(name: str, tmp_path_factory: Any, share: float, of_known: float) -> tuple[int, int]:
    """Try a share of all forgeries, and a smaller share of those that an earlier model has."""
    folder = str(tmp_path_factory.getbasetemp())
    kind, data = content(name, folder)
    known = places_of_earlier(name, folder) if of_known != share else set()
    path, rng = f"{folder}/forged", np.random.default_rng(1)
    n_refused, n_tried, wrong = 0, 0, []
    for place, new in itertools.product(places_of(data), ODD):
        where = place.text, place.path, new
        if rng.random() > (of_known if place in known else share):
            continue
        n_tried += 1
        with open(path, "wb") as file:
            file.write(forged(data, *where))
        try:
            estimator = kind.load(path)
        except ModelFormatError:
            n_refused += 1
            continue
        except Exception as error:
            wrong.append(f"{where} ends in {error!r}")
            continue
        try:
            look_everywhere(estimator, path)
        except Exception as error:
            wrong.append(f"{where} is read, but ends in {error!r}")
    assert not wrong, wrong[:10]
    return n_refused, n_tried


@pytest.mark.parametrize("name", list(MODELS)[:3])
def test_any_value_of_another_type_is_refused_or_harmless(name, tmp_path_factory) -> None:
    n_refused, n_tried = try_all(name, tmp_path_factory, share=0.03, of_known=0.03)
    assert n_tried > 25
    assert n_refused > n_tried / 8


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MODELS))
def test_every_value_of_another_type_is_refused_or_harmless(name, tmp_path_factory) -> None:
    """Only a fifth of the places with the value of an earlier model are tried."""
    n_refused, n_tried = try_all(name, tmp_path_factory, share=1.0, of_known=0.2)
    assert n_tried > 500
    assert n_refused > n_tried / 8
