"""Crosses of columns: the same trees as on columns that the user computes, on every path."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import Booster, HedgerowRegressor, cross_fit, load
from hedgerow.data.inputs import OPERATIONS, Cross
from hedgerow.data.schema import Column, Schema
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.kernels.tables.keys import keys_of_floats
from tests.io.test_model_file import reseal, take_apart

CROSSES = [("a", "b", "ratio"), ("b", "c", "product"), (2, 0, "difference")]
PLAIN: dict[str, Any] = {"n_estimators": 20, "min_samples_leaf": 3, "early_stopping": False}


def naive(operation: str, a: float, b: float) -> float:
    """Return the cross of two numbers by its definition."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    with np.errstate(all="ignore"):
        x, y = np.float64(a), np.float64(b)
        if operation == "product":
            return float(x * y)
        if operation == "difference":
            return float(x - y)
        return float(x / y) if b != 0.0 else math.nan


def table(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame["b"] = np.round(frame["b"], 1)  # some zeros
    frame.loc[::17, "a"] = np.nan
    frame["city"] = rng.choice(["x", "y", "z"], n)
    y = np.where(frame["b"] == 0, 0.0, np.clip(frame["a"].fillna(0) / frame["b"], -3, 3))
    return frame, y + 0.1 * rng.normal(size=n)


def widened(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the crosses as columns."""
    pairs = {"r": ("a", "b", "ratio"), "p": ("b", "c", "product"), "d": ("c", "a", "difference")}
    return frame.assign(
        **{
            name: [naive(how, x, z) for x, z in zip(frame[one], frame[two], strict=True)]
            for name, (one, two, how) in pairs.items()
        }
    )


numbers = st.floats(width=64) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan])


@given(a=numbers, b=numbers, operation=st.sampled_from(OPERATIONS), how=st.sampled_from("fdk"))
def test_tables_and_rows_have_the_numbers_of_the_definition(
    a: float, b: float, operation: Any, how: str
) -> None:
    schema = Schema((Column("a"), Column("b")))
    values: Any = np.array([[a, b]])
    if how == "f":
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        a, b = map(float, values[0])
    cross, out = Cross(0, 1, operation), np.empty(1)
    cross.compute(keys_of_floats(values) if how == "k" else values, schema, out)
    expected = naive(operation, a, b)
    np.testing.assert_array_equal(keys_of_floats(out), keys_of_floats(np.array([expected])))
    row = cross.of_row([a, b])
    np.testing.assert_array_equal(keys_of_floats(np.array([row])), keys_of_floats(out))


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "symmetric": {"grow_policy": "symmetric", "max_depth": 4},
    "linear leaves": {"linear_leaves": True},
    "exact": {"tree_method": "exact"},
    "sampled": {"subsample": 0.6, "colsample_bynode": 0.5},
    "goss": {"sampling": "goss"},
    "dart": {"boosting": "dart"},
    "forest": {"boosting": "rf", "subsample": 0.6},
    "held out": {"early_stopping": True},
    "folds": {"early_stopping": "cv"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_trees_are_those_of_columns_that_the_user_computes(kind: str) -> None:
    frame, y = table()
    if kind == "exact":
        frame = frame.drop(columns="city")
    params = {**PLAIN, "random_state": 3, **KINDS[kind]}
    crossed = HedgerowRegressor(**params, feature_crosses=CROSSES).fit(frame, y)
    plain = HedgerowRegressor(**params).fit(widened(frame), y)
    new, _ = table(seed=1)
    new = new[frame.columns]
    np.testing.assert_array_equal(crossed.predict(new), plain.predict(widened(new)))
    assert crossed.n_features_in_ == frame.shape[1]


def load_bytes(model: Any) -> Any:
    return Booster(model_from_bytes(model_to_bytes(model.booster_.model))[0])


def test_files_rows_folds_and_explanations(tmp_path: Path) -> None:
    frame, y = table()
    model = HedgerowRegressor(**PLAIN, feature_crosses=CROSSES, random_state=0).fit(frame, y)
    predicted = model.predict(frame)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(frame), predicted)
    rows = frame.head(60).to_dict("records")
    np.testing.assert_array_equal([model.booster_.predict_one(row) for row in rows], predicted[:60])
    shap = model.explain(frame)
    np.testing.assert_allclose(
        shap.values.sum(axis=1) + shap.base_values, predicted, rtol=1e-9, atol=1e-9
    )
    assert shap.values.shape == frame.shape
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model_to_bytes(
        HedgerowRegressor(**model.repeat_params_).fit(frame, y).booster_.model
    ) == model_to_bytes(model.booster_.model)
    averaged = cross_fit(
        HedgerowRegressor(**PLAIN, feature_crosses=CROSSES, random_state=0), frame, y
    )
    np.testing.assert_array_equal(
        load_bytes(averaged.model).predict(frame), averaged.model.predict(frame)
    )


# -- chosen by the folds -------------------------------------------------------


def test_folds_take_crosses_that_matter_and_no_others() -> None:
    frame, y = table(900)
    frame = frame[["a", "b", "c"]].fillna(0.5)
    y = frame["a"] * frame["b"] + 0.05 * y
    model = HedgerowRegressor(random_state=0, n_jobs=1).fit(frame[:600], y[:600])
    crosses = model.chosen_params_["feature_crosses"]
    assert {("a", "b", "product"), ("b", "a", "product")} & {tuple(cross) for cross in crosses}
    plain = HedgerowRegressor(random_state=0, n_jobs=1, feature_crosses=None)
    assert sum("feature_crosses" in entry for entry in model.chosen_params_["tried"]) == 1
    assert f"{len(crosses)} crosses" in str(model._get_fitted_attr_html())
    errors = [
        float(np.mean((each.predict(frame[600:]) - y[600:]) ** 2))
        for each in (model, plain.fit(frame[:600], y[:600]))
    ]
    assert errors[0] < 0.5 * errors[1]
    rng = np.random.default_rng(1)
    steps = (frame["a"] > 0) + 2.0 * (frame["c"] > 1) + 0.3 * rng.normal(size=900)
    others = HedgerowRegressor(random_state=0, n_jobs=1).fit(frame, steps)
    assert others.chosen_params_["feature_crosses"] is None


# -- errors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crosses", "match"),
    [
        ("none", "feature_crosses must be a list"),
        (3, "must be a list of"),
        ([("a", "b")], r"entry 0 must be \(column, column, operation\)"),
        ([("a", "b", "quotient")], "operation must be one of 'product'"),
        ([("a", "b", "ratios")], "Did you mean 'ratio'"),
        ([("a", "nope", "ratio")], "nope"),
        ([("a", "a", "ratio")], "with itself"),
        ([("a", "city", "ratio")], "'city' holds categories"),
    ],
)
def test_wrong_crosses_are_named(crosses: Any, match: str) -> None:
    frame, y = table(60)
    with pytest.raises(ParameterError, match=match):
        HedgerowRegressor(**PLAIN, feature_crosses=crosses).fit(frame, y)


def test_what_crosses_exclude_is_named() -> None:
    frame, y = table(60)
    numbers = frame[["a", "b", "c"]]
    model = HedgerowRegressor(**PLAIN, feature_crosses=[("a", "b", "ratio")])
    with pytest.raises(ParameterError, match="monotone_constraints"):
        model.set_params(monotone_constraints={"a": 1}).fit(numbers, y)
    model.set_params(monotone_constraints=None)
    with pytest.raises(ParameterError, match="zero_as_missing"):
        model.set_params(zero_as_missing=True).fit(numbers, y)
    model.set_params(zero_as_missing=False)
    fitted = model.fit(numbers, y)
    assert fitted.verify_monotone("a", 1).verdict == "unknown"
    with pytest.raises(ParameterError, match="crosses of columns"):
        HedgerowRegressor(**PLAIN).fit(numbers, y, init_model=fitted)
    with pytest.raises(ParameterError, match="feature_crosses"):
        model.fit(numbers, y, init_model=HedgerowRegressor(**PLAIN).fit(numbers, y))
    with pytest.raises(ParameterError, match="crosses of columns"):
        fitted.export("nowhere.txt", "lightgbm")


@pytest.mark.parametrize("groups", ["no_interactions", [["a"], ["b", "c"]], [["b"]]])
def test_crosses_keep_to_interaction_constraints(groups: Any) -> None:
    frame, y = table(60)
    model = HedgerowRegressor(**PLAIN, interaction_constraints=groups)
    with pytest.raises(ParameterError, match="'a' and 'b', but interaction_constraints"):
        model.set_params(feature_crosses=[("a", "b", "ratio")]).fit(frame[["a", "b", "c"]], y)


@pytest.mark.parametrize("groups", ["pairwise", [["a", "b"], ["c"]], [["c"]]])
def test_crosses_of_columns_that_may_interact(groups: Any) -> None:
    frame = table(300)[0].fillna(1.0)
    crosses = [("a", "b", "product")]
    model = HedgerowRegressor(**PLAIN, interaction_constraints=groups, feature_crosses=crosses)
    model.fit(frame[["a", "b", "c"]], frame["a"] * frame["b"])
    assert model.booster_.model.inputs is not None
    # A product of a and b has no interaction with c.
    rows = np.array([[0.3, 0.4, -1.0], [0.3, 0.4, 1.0], [-0.8, 0.1, -1.0], [-0.8, 0.1, 1.0]])
    at = model.predict(pd.DataFrame(rows, columns=list("abc")))
    if groups != "pairwise":
        assert at[1] - at[0] == pytest.approx(at[3] - at[2], abs=1e-12)


def test_a_column_of_weight_zero_is_in_no_cross() -> None:
    frame = table(300)[0].fillna(1.0)
    crosses = [("a", "b", "product"), ("b", "c", "product")]
    model = HedgerowRegressor(
        **PLAIN, feature_crosses=crosses, feature_weights={"a": 0.0}, colsample_bynode=0.9
    ).fit(frame[["a", "b", "c"]], frame["a"] * frame["b"] + frame["c"])
    assert model.feature_importances_[0] == 0.0
    assert model.feature_importances_[1] > 0.0


# -- forged files ------------------------------------------------------------------


@pytest.mark.parametrize(
    "forged",
    [
        None, [], {}, {"crosses": None}, {"crosses": [[0, 1]]}, {"crosses": [[0, 1, "power"]]},
        {"crosses": [[0, 0, "ratio"]]}, {"crosses": [[0, 9, "ratio"]]},
        {"crosses": [[-1, 1, "ratio"]]}, {"crosses": [[0, True, "ratio"]]},
        {"crosses": [[0, 3, "ratio"]]}, {"crosses": []}, {"crosses": [], "more": 1},
        {"crosses": [[0, 1, ["ratio"]]]},
    ],
)  # fmt: skip
def test_forged_crosses_are_refused(forged: Any) -> None:
    frame, y = table()
    model = HedgerowRegressor(**PLAIN, feature_crosses=CROSSES).fit(frame, y).booster_.model
    data = model_to_bytes(model)
    head, payload = take_apart(data)
    assert head["__metadata__"]["schema_version"] == "7"
    head["__metadata__"]["crosses"] = json.dumps(forged, separators=(",", ":"))
    with pytest.raises(ModelFormatError):
        model_from_bytes(reseal(head, payload))
