"""Progress bars, and learning curves as tables and plots."""

from __future__ import annotations

import io
import math
import pickle
import sys
import types

import numpy as np
import pytest

from hedgerow import Dataset, HedgerowRegressor, load, train
from hedgerow.boosting.loop.callbacks import NotebookBar, ProgressBar, TerminalLine, find_display
from hedgerow.errors import ParameterError
from tests.helpers.terminals import Terminal

N = 240
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 4))
Y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.1 * RNG.normal(size=N)
SMALL = {"max_leaves": 5, "n_estimators": 6, "early_stopping": False}


def regressor(**settings) -> HedgerowRegressor:
    return HedgerowRegressor(**{**SMALL, **settings})


# -- progress bars -------------------------------------------------------------


class Shown:
    """``IPython.display.display`` and the handle that it gives."""

    def __init__(self) -> None:
        self.first: list[dict[str, str]] = []
        self.later: list[dict[str, str]] = []

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.first.append(data)
        return self

    def update(self, data, *, raw) -> None:
        assert raw
        self.later.append(data)


def stand_in(monkeypatch, shown: Shown, *, kernel: object) -> None:
    """Replace IPython as if it were loaded in a notebook or in a terminal."""
    module = types.ModuleType("IPython")
    shell = types.SimpleNamespace(kernel=kernel) if kernel else types.SimpleNamespace()
    module.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display = types.ModuleType("IPython.display")
    display.display = shown.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", display)


def test_a_notebook_shows_one_output_that_changes(monkeypatch, capsys) -> None:
    shown = Shown()
    stand_in(monkeypatch, shown, kernel=object())
    monkeypatch.setattr(ProgressBar, "SECONDS_BETWEEN", 0.0)

    def a_lt_b(y, prediction, weight) -> float:
        return 0.25

    a_lt_b.__name__ = "a<b"
    regressor(progress=True, eval_metric=a_lt_b).fit(X, Y)
    assert len(shown.first) == 1
    assert [data["text/plain"].split()[0] for data in (*shown.first, *shown.later)] == [
        f"{number}/6" for number in range(1, 7)
    ]
    last = shown.later[-1]
    assert last["text/plain"].startswith("6/6  train a<b 0.25  ")
    assert last["text/html"].startswith('<progress value="6" max="6"></progress> 6/6  train a&lt;b')
    assert capsys.readouterr() == ("", "")


def test_a_terminal_of_ipython_is_a_terminal(monkeypatch) -> None:
    shown = Shown()
    stand_in(monkeypatch, shown, kernel=None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(find_display(), TerminalLine)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))  # half loaded
    assert isinstance(find_display(), TerminalLine)


def test_displays(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    regressor(progress=True).fit(X, Y)
    assert terminal.getvalue().endswith("\n")
    assert "6/6" in terminal.getvalue()
    assert "IPython" not in sys.modules
    for stream in (io.StringIO(), None):  # a file; no console at all
        monkeypatch.setattr(sys, "stderr", stream)
        assert find_display() is None
        regressor(progress=True).fit(X, Y)
        assert stream is None or stream.getvalue() == ""
    shown = Shown()
    NotebookBar(shown.display).draw(1, 2, [])
    assert shown.first[0]["text/plain"] == "1/2"


# -- learning curves -----------------------------------------------------------


@pytest.fixture(scope="module")
def stopped() -> HedgerowRegressor:
    settings = {"early_stopping": True, "learning_rate": 0.7, "n_estimators": 200}
    return regressor(**settings, eval_metric=["rmse", "mae"], subsample=0.7, oob_score=True).fit(
        X, Y
    )


def test_the_history_is_a_table(stopped) -> None:
    frame = stopped.history_frame()
    assert list(frame.columns) == ["round", "seconds", "rows", "metric", "value"]
    result = stopped.evals_result_
    n_rounds = len(result["validation"]["rmse"])
    assert len(frame) == 3 * n_rounds
    for rows, metric in (("validation", "rmse"), ("validation", "mae"),
                         ("out_of_bag", "improvement")):  # fmt: skip
        part = frame[(frame["rows"] == rows) & (frame["metric"] == metric)]
        assert part["value"].tolist() == result[rows][metric]
        assert part["round"].tolist() == list(range(1, n_rounds + 1))
        assert part["seconds"].is_monotonic_increasing
        assert part["seconds"].min() > 0.0
    columns = stopped.booster_.history_frame(None)
    assert columns["value"] == frame["value"].tolist()
    polars = pytest.importorskip("polars")
    assert isinstance(stopped.history_frame("polars"), polars.DataFrame)


def test_files_hold_no_times(stopped, tmp_path) -> None:
    stopped.save(tmp_path / "m")
    for booster in (load(tmp_path / "m"), pickle.loads(pickle.dumps(stopped.booster_))):
        columns = booster.history_frame(None)
        assert columns["value"] == stopped.history_frame(None)["value"]
        assert all(map(math.isnan, columns["seconds"]))
    assert regressor().fit(X, Y).history_frame(None)["round"] == []


def test_rounds_of_a_checkpoint_have_no_times(tmp_path) -> None:
    params = {**SMALL, "eval_metric": "mae"}
    train({**params, "n_estimators": 2}, Dataset(X, Y), checkpoint=tmp_path)
    columns = train(params, Dataset(X, Y), checkpoint=tmp_path).history_frame(None)
    assert [math.isnan(seconds) for seconds in columns["seconds"]] == [True] * 2 + [False] * 4


def test_curves_of_folds_are_drawn_with_the_rounds_of_all_rows() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    model = HedgerowRegressor(random_state=0).fit(X, Y)
    ax = model.plot_history()
    assert [line.get_label() for line in ax.lines] == [
        "cv",
        f"on all rows: {model.best_iteration_} rounds",
    ]
    assert set(ax.lines[1].get_xdata()) == {model.best_iteration_}
    plt.close("all")


def test_curves_are_drawn_with_the_best_round_marked(stopped, tmp_path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    path = tmp_path / "curves.png"
    ax = stopped.plot_history(path=path)
    assert path.read_bytes()[:4] == b"\x89PNG"
    assert ax.get_ylabel() == "rmse"
    best = stopped.best_iteration_
    scores = stopped.evals_result_["validation"]["rmse"]
    curve = next(line for line in ax.lines if line.get_label() == "validation")
    assert curve.get_ydata().tolist() == scores
    assert ax.get_legend().get_texts()[-1].get_text() == (
        f"best: round {best}, {scores[best - 1]:.5g}"
    )
    assert any(line.get_xdata() == [best] and line.get_ydata() == [scores[best - 1]]
               for line in ax.lines if len(line.get_xdata()) == 1)  # fmt: skip
    own = plt.subplots()[1]
    assert stopped.booster_.plot_history("improvement", own) is own
    assert own.lines[0].get_label() == "out of bag"
    plain = regressor(eval_metric="mae").fit(X, Y).plot_history()
    assert plain.lines[0].get_label() == "train"
    assert len(plain.lines) == 1
    plt.close("all")


def test_curves_that_cannot_be_drawn(stopped, monkeypatch) -> None:
    with pytest.raises(ParameterError, match="no learning curves: nothing was evaluated"):
        regressor().fit(X, Y).plot_history()
    with pytest.raises(ParameterError, match=r"metric 'rsme' .* Did you mean 'rmse'"):
        stopped.plot_history("rsme")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'hedgerow\[plot\]'"):
        stopped.plot_history()
