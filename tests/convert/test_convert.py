"""Imported models predict what their own libraries predict."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import hedgerow
from hedgerow.convert.thresholds import keys_below_float32, keys_up_to_float32
from hedgerow.kernels.tables.keys import keys_of_floats

RNG = np.random.default_rng(0)
N = 600
X = RNG.normal(size=(N, 6))
X[RNG.random(X.shape) < 0.1] = np.nan
X[:60, 3] = 0.0
Z = np.nan_to_num(X)
Y = Z[:, 0] * Z[:, 1] + np.sin(Z[:, 2]) + np.abs(Z[:, 3])


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
    keys = keys_of_floats(rows)
    assert (keys <= up_to).tolist() == (rounded <= cut).tolist()
    # A key of nothing is the lowest number, which no row has.
    assert (keys <= below).tolist() == (rounded < float(np.float32(cut))).tolist()
