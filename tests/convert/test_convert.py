"""Imported models predict what their own libraries predict."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import hedgerow
from hedgerow import HedgerowError, ModelFormatError
from hedgerow.convert.thresholds import (
    float32_after,
    keys_below_float32,
    keys_up_to_float32,
    rounded_down,
)
from hedgerow.kernels.tables.keys import keys_of_floats
from tests.helpers.examples import examples

RNG = np.random.default_rng(0)
N = 600
X = RNG.normal(size=(N, 6))
X[RNG.random(X.shape) < 0.1] = np.nan
X[:60, 3] = 0.0
Z = np.nan_to_num(X)
Y = Z[:, 0] * Z[:, 1] + np.sin(Z[:, 2]) + np.abs(Z[:, 3])
CLASSES = np.digitize(Y, [0.2, 1.0])


def edges_of(values: np.ndarray, cuts: np.ndarray, dtype: Any) -> np.ndarray:
    """Return rows with every cut, the adjacent floats, and special values."""
    cuts = np.unique(cuts.astype(dtype))
    near = [np.nextafter(cuts, dtype(-np.inf)), cuts, np.nextafter(cuts, dtype(np.inf))]
    odd = np.array([0.0, -0.0, 1e-36, -1e-36, np.inf, -np.inf, np.nan], dtype)
    points = np.concatenate([*near, odd])
    rows = np.tile(values[:1].astype(dtype), (len(points) * values.shape[1], 1))
    for j in range(values.shape[1]):
        rows[j * len(points) : (j + 1) * len(points), j] = points
    return rows


# -- LightGBM ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "target"),
    [
        ({"objective": "regression"}, Y),
        ({"objective": "regression_l1"}, Y),
        ({"objective": "poisson"}, np.abs(Y)),
        ({"objective": "quantile", "alpha": 0.9}, Y),
        ({"objective": "binary"}, CLASSES > 0),
        ({"objective": "multiclass", "num_class": 3}, CLASSES),
        ({"objective": "regression", "boosting": "dart"}, Y),
        ({"objective": "regression", "boosting": "rf", "bagging_freq": 1,
          "bagging_fraction": 0.6}, Y),
        ({"objective": "regression", "zero_as_missing": True}, Y),
        ({"objective": "regression", "use_missing": False}, Y),
        ({"objective": "regression", "linear_tree": True}, Y),
    ],
)  # fmt: skip
def test_lightgbm(tmp_path: Path, params: dict[str, Any], target: np.ndarray) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    theirs = lightgbm.train({"verbose": -1, "num_leaves": 15, **params},
                            lightgbm.Dataset(X, target), 12)  # fmt: skip
    theirs.save_model(tmp_path / "model.txt")
    ours = hedgerow.load(tmp_path / "model.txt")
    cuts = np.array(thresholds_of(theirs.dump_model()))
    table = np.concatenate([X, edges_of(X, cuts, np.float64)])
    if "linear_tree" in params:
        table = X
    if params.get("boosting") != "rf":  # whose raw score is a sum, its prediction the mean
        expected = theirs.predict(table, raw_score=True)
        np.testing.assert_allclose(ours.predict(table, "raw"), expected, rtol=1e-14, atol=1e-14)
    kind = "probability" if params["objective"] in ("binary", "multiclass") else "value"
    found = ours.predict(table, kind)
    if params["objective"] == "binary":
        found = found[:, 1] if found.ndim == 2 else found
    np.testing.assert_allclose(found, theirs.predict(table), rtol=1e-12)
    # A copy in our own format is the same model.
    ours.save(tmp_path / "copy")
    again = hedgerow.load(tmp_path / "copy")
    np.testing.assert_array_equal(again.predict(table, "raw"), ours.predict(table, "raw"))


def thresholds_of(node: Any) -> list[float]:
    """Return every number named "threshold" in a dump."""
    if isinstance(node, dict):
        own = [node["threshold"]] if isinstance(node.get("threshold"), float) else []
        return own + [t for child in node.values() for t in thresholds_of(child)]
    if isinstance(node, list):
        return [t for child in node for t in thresholds_of(child)]
    return []


def test_lightgbm_says_the_same_of_why(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    theirs = lightgbm.train({"verbose": -1}, lightgbm.Dataset(X, Y), 20)
    theirs.save_model(tmp_path / "model.txt")
    found = hedgerow.load(tmp_path / "model.txt").explain(X)
    expected = theirs.predict(X, pred_contrib=True)
    np.testing.assert_allclose(found.values, expected[:, :-1], atol=1e-12)
    np.testing.assert_allclose(found.base_values, expected[0, -1], atol=1e-12)


def test_lightgbm_with_categories(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": Z[:, 0], "c": pd.Categorical(np.array(list("abcdef"))[
        RNG.integers(0, 6, N)])})  # fmt: skip
    target = Y + (frame["c"] == "b") + 2 * (frame["c"] == "e")
    theirs = lightgbm.train(
        {"verbose": -1, "min_data_per_group": 5}, lightgbm.Dataset(frame, target), 10
    )
    theirs.save_model(tmp_path / "model.txt")
    ours = hedgerow.load(tmp_path / "model.txt")
    np.testing.assert_allclose(ours.predict(frame), theirs.predict(frame), rtol=1e-14)


# -- XGBoost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize(
    ("params", "target"),
    [
        ({"objective": "reg:squarederror"}, Y),
        ({"objective": "binary:logistic"}, CLASSES > 0),
        ({"objective": "multi:softprob", "num_class": 3}, CLASSES),
        ({"objective": "count:poisson"}, np.abs(Y)),
        ({"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.3}, Y),
        ({"objective": "reg:squarederror", "num_parallel_tree": 3, "subsample": 0.7}, Y),
    ],
)
def test_xgboost(tmp_path: Path, params: dict[str, Any], target: np.ndarray, suffix: str) -> None:
    xgboost = pytest.importorskip("xgboost")
    theirs = xgboost.train({"max_depth": 4, **params}, xgboost.DMatrix(X, target), 10)
    path = tmp_path / f"model.{suffix}"
    theirs.save_model(path)
    ours = hedgerow.load(path)
    dump = [json.loads(tree) for tree in theirs.get_dump(dump_format="json")]
    cuts = np.array([t for tree in dump for t in split_conditions(tree)])
    table = np.concatenate([X.astype(np.float32), edges_of(X, cuts, np.float32)])
    table = table[~np.isinf(table).any(axis=1)]  # which XGBoost refuses
    expected = theirs.predict(xgboost.DMatrix(table), output_margin=True)
    np.testing.assert_allclose(ours.predict(table, "raw"), expected, rtol=2e-5, atol=2e-5)
    leaves = theirs.predict(xgboost.DMatrix(table), pred_leaf=True)
    our_leaves = ours.predict(table, "leaf")
    for theirs_of, ours_of in zip(leaves.T, our_leaves.T, strict=True):
        pairs = set(zip(theirs_of.tolist(), ours_of.tolist(), strict=True))
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def split_conditions(node: Any) -> list[float]:
    """Return every split of a dumped tree."""
    if "children" not in node:
        return []
    return [node["split_condition"], *(t for c in node["children"] for t in split_conditions(c))]


def test_xgboost_says_the_same_of_why(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(X, Y)
    theirs = xgboost.train({"max_depth": 5}, data, 10)
    theirs.save_model(tmp_path / "model.json")
    ours = hedgerow.load(tmp_path / "model.json")
    expected = theirs.predict(data, pred_contribs=True)
    np.testing.assert_allclose(ours.explain(X).values, expected[:, :-1], atol=2e-5)
    some = theirs.predict(data, pred_interactions=True)[:40, :-1, :-1]
    pairs = ours.explain(X[:40], interactions=True).values
    np.testing.assert_allclose(pairs, some, atol=2e-5)


# -- CatBoost and scikit-learn ----------------------------------------------------------------


def test_catboost(tmp_path: Path) -> None:
    catboost = pytest.importorskip("catboost")
    theirs = catboost.CatBoostRegressor(iterations=20, verbose=0, allow_writing_files=False)
    theirs.fit(X, Y)
    theirs.save_model(str(tmp_path / "model.json"), format="json")
    ours = hedgerow.load(tmp_path / "model.json")
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: HistGradientBoostingRegressor(max_iter=20),
        lambda: HistGradientBoostingClassifier(max_iter=20),
        lambda: RandomForestRegressor(10, random_state=0),
        lambda: RandomForestClassifier(10, random_state=0),
        lambda: ExtraTreesRegressor(10, random_state=0),
        lambda: ExtraTreesClassifier(10, random_state=0),
        lambda: GradientBoostingRegressor(n_estimators=20),
        lambda: GradientBoostingClassifier(n_estimators=20),
        lambda: DecisionTreeRegressor(max_depth=6),
        lambda: DecisionTreeClassifier(max_depth=6),
    ],
)
def test_scikit_learn(make: Callable[[], Any]) -> None:
    theirs = make()
    is_classifier = hasattr(theirs, "predict_proba")
    table = (
        X
        if isinstance(theirs, HistGradientBoostingRegressor | HistGradientBoostingClassifier)
        else Z
    )
    theirs.fit(table, CLASSES if is_classifier else Y)
    ours = hedgerow.from_sklearn(theirs)
    if is_classifier:
        np.testing.assert_allclose(
            ours.predict(table, "probability"), theirs.predict_proba(table), rtol=1e-12, atol=1e-14
        )
    else:
        np.testing.assert_allclose(ours.predict(table), theirs.predict(table), rtol=1e-13)
    found = ours.explain(table[:20])
    raw = ours.predict(table[:20], "raw")
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, raw, atol=1e-9)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosters_of_peers_that_predict_probabilities_are_said_to_do_so(library, tmp_path) -> None:
    """A ported script must not take classes for probabilities."""
    peer = pytest.importorskip(library)
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] > 0) * 1
    if library == "lightgbm":
        convert, estimator = hedgerow.from_lightgbm, peer.LGBMClassifier(n_estimators=3, verbose=-1)
        number, path = peer.LGBMRegressor(n_estimators=3, verbose=-1), tmp_path / "m.txt"
    else:
        convert, estimator = hedgerow.from_xgboost, peer.XGBClassifier(n_estimators=3)
        number, path = peer.XGBRegressor(n_estimators=3), tmp_path / "m.json"
    estimator.fit(X, y)
    given = estimator.booster_ if library == "lightgbm" else estimator.get_booster()
    given.save_model(path)
    for read in (lambda: convert(given), lambda: hedgerow.load(path)):
        with pytest.warns(hedgerow.HedgerowWarning, match="predict_proba for prob") as found:
            booster = read()
        assert len(found) == 1
        assert found[0].filename == __file__
        expected = given.predict(X if library == "lightgbm" else peer.DMatrix(X))
        np.testing.assert_allclose(booster.predict_proba(X)[:, 1], expected, rtol=1e-5)
    number.fit(X, X[:, 0])
    booster.save(tmp_path / "own.hedgerow")
    with warnings.catch_warnings():
        warnings.simplefilter("error", hedgerow.HedgerowWarning)
        hedgerow.load(tmp_path / "own.hedgerow")
        if library == "xgboost":
            convert(peer.train({"objective": "binary:hinge"}, peer.DMatrix(X, y), 2))
        assert convert(estimator).predict(X).tolist() == estimator.predict(X).tolist()
        convert(number.booster_ if library == "lightgbm" else number.get_booster())


def test_what_is_no_model_of_trees_is_refused() -> None:
    with pytest.raises(HedgerowError, match="LinearRegression"):
        hedgerow.from_sklearn(LinearRegression().fit(Z, Y))


# -- forged files -----------------------------------------------------------------------------


def files(folder: Path) -> list[bytes]:
    """Return a small model of each format."""
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    lightgbm.train({"verbose": -1, "num_leaves": 5}, lightgbm.Dataset(X, Y), 2).save_model(
        folder / "l"
    )
    other = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, Y), 2)
    for suffix in ("json", "ubj"):
        other.save_model(folder / f"x.{suffix}")
    return [(folder / name).read_bytes() for name in ("l", "x.json", "x.ubj")]


def test_any_bytes_give_a_model_or_one_error(tmp_path: Path) -> None:
    originals = files(tmp_path)
    path = tmp_path / "forged"

    @settings(deadline=None, max_examples=examples(300))
    @given(data=st.data())
    def forge(data: st.DataObject) -> None:
        content = bytearray(data.draw(st.sampled_from(originals)))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            what = data.draw(st.sampled_from(["set", "cut", "insert", "digit"]))
            if what == "set":
                content[at] = data.draw(st.integers(0, 255))
            elif what == "cut":
                del content[at : at + data.draw(st.integers(1, 40))]
            elif what == "insert":
                content[at:at] = data.draw(st.binary(max_size=8))
            else:
                content[at : at + 1] = data.draw(st.sampled_from([b"9", b"-", b"e", b"0"]))
            if not content:
                break
        path.write_bytes(bytes(content))
        try:
            model = hedgerow.load(path)
        except ModelFormatError:
            return
        found = model.predict(np.zeros((2, model.num_features)), "raw")
        assert len(found) == 2

    forge()


FLOAT32_MOST = float(np.finfo(np.float32).max)
FLOAT32_ENDS = (FLOAT32_MOST, -FLOAT32_MOST, np.inf, -np.inf)


@pytest.mark.parametrize("cut", [0.1, *FLOAT32_ENDS])
def test_cuts_of_float32_are_silent_and_right_at_the_ends(cut: float) -> None:
    """A CatBoost model with ``nan_mode="Max"`` has the largest float32 as a cut."""
    rows = np.array([0.1, 0.0, 1e300, -1e300, *FLOAT32_ENDS])
    with np.errstate(over="ignore"):
        rounded = rows.astype(np.float32).astype(np.float64)
    with np.errstate(all="raise"):
        up_to = keys_up_to_float32(np.array([cut]))
        below = keys_below_float32(np.array([cut], dtype=np.float32))
        after = float32_after(rounded_down(np.array([cut])))
    keys = keys_of_floats(rows)
    assert (keys <= up_to).tolist() == (rounded <= cut).tolist()
    # A key of nothing is the lowest number, which no row has.
    assert (keys <= below).tolist() == (rounded < float(np.float32(cut))).tolist()
    assert (rounded < after).tolist() == (rounded <= cut).tolist() or np.isposinf(cut)
