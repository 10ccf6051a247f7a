"""A fit frees its memory when it ends: no object waits for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow
from hedgerow import CARTRegressor, HedgerowClassifier, HedgerowRanker, HedgerowRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = X[:, 0] * X[:, 1]
LABELS = (Y > 0).astype(np.int64)


def regressor(**params: Any) -> HedgerowRegressor:
    return HedgerowRegressor(n_estimators=3, **params)


FITS: dict[str, Callable[[], object]] = {
    "automatic": lambda: HedgerowClassifier(patience=3).fit(X[:150], LABELS[:150]),
    "plain": lambda: regressor(early_stopping=False).fit(X, Y),
    "early stopping": lambda: regressor(early_stopping=True).fit(X, Y),
    "exact": lambda: regressor(tree_method="exact").fit(X, Y),
    "symmetric": lambda: regressor(grow_policy="symmetric").fit(X, Y),
    "linear leaves": lambda: regressor(linear_leaves=True).fit(X, Y),
    "vector leaves": lambda: regressor(multi_strategy="multi_output_tree").fit(X, X[:, :2]),
    "goss": lambda: regressor(sampling="goss").fit(X, Y),
    "dart": lambda: regressor(boosting="dart").fit(X, Y),
    "ranking": lambda: HedgerowRanker(n_estimators=3).fit(X, LABELS, qid=np.arange(400) // 20),
    "train": lambda: hedgerow.train({"n_estimators": 3}, hedgerow.Dataset(X, Y)),
    "cart": lambda: CARTRegressor(max_depth=3).fit(X, Y),
    "predict": lambda: regressor().fit(X, Y).predict(X),
    "explain": lambda: regressor().fit(X, Y).explain(X[:5]),
}


def garbage_of(act: Callable[[], object]) -> list[Any]:
    """Return the package's objects that only the garbage collector frees after a second call."""
    act()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        kept = act()
        gc.collect()
        found = [
            type(each).__qualname__
            for each in gc.garbage
            if type(each).__module__.startswith(("hedgerow", "numpy"))
        ]
        del kept
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return found


@pytest.mark.fast(1)
@pytest.mark.parametrize("name", FITS)
def test_nothing_waits_for_a_search(name: str) -> None:
    assert garbage_of(FITS[name]) == []


def test_nothing_waits_for_a_search_of_files(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.c_[X, Y], delimiter=",", header="a,b,c,d,e,y", comments="")
    rows = hedgerow.Dataset.from_files(path, target="y")
    assert garbage_of(lambda: hedgerow.train({"n_estimators": 3}, rows)) == []


def test_a_round_says_when_its_model_is_made() -> None:
    seen: list[Any] = []
    HedgerowRegressor(n_estimators=2, callbacks=seen.append).fit(X, Y)
    with pytest.raises(hedgerow.ParameterError, match="this fit has ended"):
        seen[-1].model()
