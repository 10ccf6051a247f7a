"""Shapley values equal those of LightGBM and XGBoost for the same trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hedgerow
from hedgerow import Dataset, ParameterError, train
from hedgerow.booster import Booster
from tests.reference.naive_explain import NaiveExplainer

N = 400
PARAMS = {"n_estimators": 8, "max_leaves": 20, "min_samples_leaf": 4, "early_stopping": False,
          "linear_leaves": False}  # fmt: skip


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N, 6))
    X[rng.random((N, 6)) < 0.1] = np.nan
    known = np.nan_to_num(X, nan=0.4)
    y = known[:, 0] * known[:, 1] + np.abs(known[:, 2]) + (known[:, 3] > 0) * known[:, 4]
    return X, y + 0.1 * rng.normal(size=N)


def booster_of(**parameters: Any) -> Booster:
    X, y = data()
    return train({**PARAMS, **parameters}, Dataset(X, y))


# ---- the package shap ------------------------------------------------------------------


def test_shap_draws_what_it_is_given() -> None:
    shap = pytest.importorskip("shap", reason="the package shap is not installed")
    plt = pytest.importorskip("matplotlib.pyplot")
    booster, (X, _) = booster_of(), data()
    found = booster.explain(X).to_shap()
    shap.plots.beeswarm(found, show=False)
    plt.close("all")
    shap.plots.waterfall(found[0], show=False)
    plt.close("all")


# ---- lines of LightGBM -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("with_background", "interactions"), [(False, False), (True, False), (False, True)]
)
def test_lines_of_lightgbm_add_up(with_background: bool, interactions: bool, tmp_path: Any) -> None:
    """LightGBM's linear leaves have no bounds; a missing number gives the leaf's constant."""
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    X, y = data()
    parameters = {"num_leaves": 8, "linear_tree": True, "verbose": -1, "num_threads": 1}
    peer = lightgbm.train(parameters, lightgbm.Dataset(X, y), 6)
    peer.save_model(tmp_path / "model.txt")
    booster = hedgerow.load(tmp_path / "model.txt")
    assert booster.model.forest.slopes is not None
    raw = booster.predict(X, kind="raw")
    np.testing.assert_allclose(raw, peer.predict(X), rtol=0, atol=1e-10)
    others = X[:20] if with_background else None
    found = booster.explain(X, background=others, interactions=interactions)
    total = found.values.reshape(len(X), -1).sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, raw, rtol=0, atol=1e-10)
    if with_background:
        expected = NaiveExplainer(booster).values(X[:3], others)[..., 0]
        np.testing.assert_allclose(found.values[:3], expected, rtol=0, atol=1e-11)


def test_lines_of_many_columns_are_refused(tmp_path: Any) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 14))
    y = np.prod(np.where(X > 0, 1.2, 0.8), axis=1)
    parameters = {"num_leaves": 400, "linear_tree": True, "verbose": -1, "num_threads": 1,
                  "min_data_in_leaf": 2}  # fmt: skip
    lightgbm.train(parameters, lightgbm.Dataset(X, y), 2).save_model(tmp_path / "model.txt")
    booster = hedgerow.load(tmp_path / "model.txt")
    with pytest.raises(ParameterError, match=r"linear leaf has 1\d columns"):
        booster.explain(X[:2])
