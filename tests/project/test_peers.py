"""Test losses are not worse than those of other engines and of float64 sums."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, mean_squared_error
from threadpoolctl import threadpool_limits

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers import engine
from tests.reference import naive

SEEDS = range(5)


def assert_no_worse(ours, theirs, slack=0.002):
    """Check that the mean log ratio of paired losses is not above 0 by more than its noise."""
    ratio = np.log(np.asarray(ours) / np.asarray(theirs))
    noise = ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert ratio.mean() <= 2.5 * noise + slack, f"{ratio.mean():+.4f} +- {noise:.4f}: {ratio}"


# -- real data ---------------------------------------------------------------------------


def california(shared_data):
    import pandas as pd

    frame = pd.read_parquet(shared_data("california") / "data.parquet")
    numbers = frame.select_dtypes("number")
    target = next(name for name in numbers.columns if "value" in name.lower())
    return numbers.drop(columns=target).to_numpy(float), numbers[target].to_numpy(float)


def adult(shared_data):
    import pandas as pd

    folder = shared_data("adult")
    frame = pd.concat([pd.read_parquet(folder / f"{part}.parquet") for part in ("train", "test")])
    last = frame.columns[-1]
    y = frame[last].astype(str).str.contains(">50K|^1|True", regex=True)
    return frame.drop(columns=last).select_dtypes("number").to_numpy(float), y.to_numpy(float)


def pima(shared_data):
    from hedgerow.datasets import load_pima

    X, y, *_ = load_pima()
    return np.asarray(X, float), np.asarray(y, float)


def test_loss(model, X, y, is_classifier):
    if is_classifier:
        return log_loss(y, model.predict_proba(X)[:, 1])
    return mean_squared_error(y, model.predict(X))


test_loss.__test__ = False


@pytest.mark.fast(1)
@pytest.mark.parametrize("read", [pima, california, adult])
def test_real_data_are_fitted_as_well_as_by_peers(read, shared_data) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = read(shared_data)
    is_classifier = read is not california
    common = {"learning_rate": 0.1, "min_samples_leaf": 20}
    ours, theirs = [], []
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(y))
        if len(order) > 12_000:
            order = order[:12_000]
        train, test = order[len(order) // 4 :], order[: len(order) // 4]
        hedgerow = HedgerowClassifier if is_classifier else HedgerowRegressor
        hist = HistGradientBoostingClassifier if is_classifier else HistGradientBoostingRegressor
        light = lightgbm.LGBMClassifier if is_classifier else lightgbm.LGBMRegressor
        models = [
            hedgerow(
                n_estimators=100, max_leaves=31, reg_lambda=0.0, early_stopping=False,
                random_state=seed, n_jobs=2, **common,
            ),
            hist(max_iter=100, max_leaf_nodes=31, early_stopping=False, **common),
            light(
                n_estimators=100, num_leaves=31, learning_rate=0.1, min_child_samples=20,
                reg_lambda=0.0, n_jobs=1, verbose=-1,
            ),
        ]  # fmt: skip
        # One thread: the peers' spin when other processes use the processors.
        with threadpool_limits(1):
            losses = [
                test_loss(model.fit(X[train], y[train]), X[test], y[test], is_classifier)
                for model in models
            ]
        ours.append(losses[0])
        theirs.append(np.mean(losses[1:]))
    assert_no_worse(ours, theirs, slack=0.005)


# -- quantised against float64 --------------------------------------------------------------


NOISE = {
    "student": lambda rng, n: rng.standard_t(1.5, n),
    "lognormal": lambda rng, n: rng.lognormal(0.0, 3.0, n),
    "pareto": lambda rng, n: rng.pareto(1.0, n),
    "normal": lambda rng, n: rng.normal(size=n),
}
N_TRAIN, N_TEST = 12_000, 12_000


def heavy(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_TRAIN + N_TEST, 5))
    signal = 2 * X[:, 0] + np.sin(3 * X[:, 1]) * X[:, 2]
    return X, signal, signal + NOISE[kind](rng, len(X)), rng


def both_losses(X, signal, y, objective, weight, n_rounds=12):
    """Return test losses of the engine and of its float64 twin on the same bins.

    The first loss is on noisy test targets, the second on the signal without noise.
    """
    train, test = slice(0, N_TRAIN), slice(N_TRAIN, None)
    params = BoostParams(n_estimators=n_rounds, reg_lambda=0.0, max_leaves=16)
    fitted = engine.boost(X[train], y[train], params, objective, weight=weight)
    ours = fitted.predict_raw(X[test])[0]
    matrix = engine.binned(X, weight=None if weight is None else np.append(weight, weight))
    bins = engine.columns_of(matrix)
    _, theirs, _ = naive.boost(
        bins[:, train], matrix.spec.bin_counts.tolist(), matrix.spec.stride, y[train],
        make_objective(objective).initial_score(y[train], weight),
        naive.Rules(20, 1e-3), n_rounds, objective, weight, test_bins=bins[:, test], max_leaves=16,
    )  # fmt: skip
    loss = make_objective(objective)
    return [
        (loss.loss(y[test], raw[None], None), np.abs(raw - signal[test]).mean())
        for raw in (ours, theirs[0])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["none", "uniform", "heavy"])
@pytest.mark.parametrize("kind", NOISE)
def test_heavy_tails_lose_nothing_by_rounding(kind, weights) -> None:
    pairs = []
    for seed in SEEDS:
        X, signal, y, rng = heavy(kind, seed)
        weight = {
            "none": None,
            "uniform": rng.uniform(0.5, 2.0, N_TRAIN),
            "heavy": rng.pareto(1.0, N_TRAIN) + 0.01,
        }[weights]
        pairs.append(both_losses(X, signal, y, "squared_error", weight))
    pairs = np.array(pairs)
    for which in range(2):
        assert_no_worse(pairs[:, 0, which], pairs[:, 1, which], slack=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 0.02])
def test_logistic_loses_nothing_by_rounding(rate) -> None:
    pairs = []
    for seed in SEEDS:
        X, signal, y, _ = heavy("normal", seed)
        y = (y > np.quantile(y, 1 - rate)).astype(float)
        pairs.append(both_losses(X, signal, y, "logistic", None))
    pairs = np.array(pairs)
    assert_no_worse(pairs[:, 0, 0], pairs[:, 1, 0], slack=0.005)
