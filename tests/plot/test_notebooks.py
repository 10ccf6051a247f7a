"""What a notebook shows: a line for each result, each picture once, and public modules at once."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import hedgerow
from hedgerow import inspection

plt = pytest.importorskip("matplotlib.pyplot")

MARKUP = "<img src=x onerror=alert(1)> & $x$"
N_ROWS = 120


@cache
def table() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01", "us") + rng.integers(0, 700, N_ROWS) * np.timedelta64(1, "D")
    return {MARKUP: rng.normal(size=N_ROWS), "day": days, "noise": rng.normal(size=N_ROWS)}


@cache
def model() -> Any:
    X = table()
    y = (X[MARKUP] * (X["noise"] > 0) > 0.1).astype(float)
    return hedgerow.HedgerowRegressor(n_estimators=4, min_samples_leaf=2).fit(X, y)


def some(n: int = 30) -> dict[str, Any]:
    return {name: column[:n] for name, column in table().items()}


RESULTS: dict[str, Callable[[], Any]] = {
    "Booster": lambda: model().booster_,
    "CrossFit": lambda: hedgerow.cross_fit(model(), some(), np.arange(30.0), cv=2),
    "CrossValidation": lambda: hedgerow.cv(
        {"n_estimators": 2}, hedgerow.Dataset(some(), np.arange(30.0)), folds=2
    ),
    "Effect": lambda: model().partial_dependence(some())["day"],
    "Explanation": lambda: model().explain(some()),
    "ExportReport": lambda: hedgerow.ExportReport("m.json", "json", ("<img>",)),
    "Importances": lambda: model().importance(),
    "MemoryEstimate": lambda: hedgerow.estimate_memory((1_000_000, 28)),
    "PartialDependence": lambda: model().partial_dependence(some()),
    "Translation": lambda: hedgerow.from_lightgbm_params({"num_leaves": 15, "max_bin": 4_000}),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_a_short_repr(name: str) -> None:
    found = RESULTS[name]()
    assert type(found).__name__ == name
    line = repr(found)
    assert line.startswith(f"<{name}: ")
    assert len(line) < 250
    assert "\n" not in line


def test_no_public_result_is_left_out() -> None:
    every = [getattr(home, name) for home in (hedgerow, inspection) for name in home.__all__]
    results = {each.__name__ for each in every if is_dataclass(each) and not hasattr(each, "fit")}
    assert results
    assert results <= set(RESULTS)


def drawn() -> dict[str, Callable[[], Any]]:
    p, fitted, X = hedgerow.plot, model(), some()
    y = np.arange(30) % 2
    kept = hedgerow.HedgerowRegressor(n_estimators=3, train_scores=True).fit(X, y).booster_
    return {
        "plot_beeswarm": lambda: p.plot_beeswarm(fitted.explain(X)),
        "plot_calibration": lambda: p.plot_calibration(y, np.linspace(0, 1, 30)),
        "plot_history": lambda: p.plot_history(kept.model),
        "plot_importance": lambda: p.plot_importance(fitted),
        "plot_partial_dependence": lambda: p.plot_partial_dependence(fitted.partial_dependence(X)),
        "plot_tree": lambda: p.plot_tree(fitted.booster_.model),
        "plot_waterfall": lambda: p.plot_waterfall(fitted.explain(X)),
        "Booster.plot_history": kept.plot_history,
        "Booster.plot_importance": fitted.booster_.plot_importance,
        "Booster.plot_partial_dependence": lambda: fitted.booster_.plot_partial_dependence(X),
        "Booster.plot_tree": fitted.booster_.plot_tree,
    }


def n_shown(result: object) -> int:
    """Count pictures: figures of pyplot, shown after a cell, and the result if it is a picture."""
    n_figures = len(plt.get_fignums())
    try:
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.core.pylabtools import select_figure_formats
    except ImportError:
        return n_figures + hasattr(result, "savefig")
    shell = InteractiveShell.instance()
    select_figure_formats(shell, {"png"})
    return n_figures + ("image/png" in shell.display_formatter.format(result)[0])


def test_notebooks_show_each_picture_once() -> None:
    pictures = drawn()
    public = {name for name in hedgerow.plot.__all__ if name.startswith("plot_")}
    methods = {f"Booster.{name}" for name in dir(hedgerow.Booster) if name.startswith("plot_")}
    assert set(pictures) == public | methods
    shown = {}
    for name, draw in pictures.items():
        plt.close("all")
        shown[name] = n_shown(draw())
    plt.close("all")
    assert set(shown.values()) == {1}, shown


def test_public_modules_need_no_import() -> None:
    code = (
        "import hedgerow as h; h.plot.plot_importance; h.inspection.Effect; h.datasets.load_pima;"
        "assert 'metrics' in dir(h); print([getattr(h, name).__name__ for name in h._MODULES])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert importlib.import_module("hedgerow.plot").__name__ in result.stdout
