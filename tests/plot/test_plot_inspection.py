"""Plots of importances, effects, explanations and classes: their contents and layout."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from hedgerow import DataError, DataTypeError, HedgerowClassifier, HedgerowRegressor, ParameterError
from hedgerow.inspection.importance import Importances
from hedgerow.plot import (
    plot_beeswarm,
    plot_calibration,
    plot_importance,
    plot_partial_dependence,
    plot_waterfall,
)
from hedgerow.plot.classifier import calibration_of, wilson_interval
from hedgerow.plot.style import LETTERS, cell_text, rounded, short, short_names, signed

LONG = "a_very_long_column_name_that_never_ends_and_goes_on_and_on"
NAMES = ("price in $ and $", "colour", LONG, "plain")
N_ROWS = 200


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    plt.close("all")


@dataclass(frozen=True)
class Explained:
    """Stands for an explanation of SHAP values."""

    values: Any
    base_values: Any
    data: Any
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...] = ()
    interactions: bool = False


def table(n_rows: int = N_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        NAMES[0]: rng.lognormal(size=n_rows),
        NAMES[1]: rng.choice(["red", "green", "a colour of a very long name"], n_rows),
        NAMES[2]: rng.normal(size=n_rows), NAMES[3]: rng.normal(size=n_rows),
    })  # fmt: skip
    frame.loc[rng.random(n_rows) < 0.2, NAMES[3]] = np.nan
    frame.loc[rng.random(n_rows) < 0.1, NAMES[1]] = None
    return frame


def explained(n_rows: int = N_ROWS, outputs: tuple[str, ...] = ()) -> Explained:
    rng = np.random.default_rng(1)
    shape = (n_rows, 4, len(outputs)) if outputs else (n_rows, 4)
    values = rng.normal(size=shape) * np.array([3.0, 2.0, 1.0, 0.1])[:, *(None for _ in shape[2:])]
    base = np.arange(1.0, 1.0 + len(outputs)) if outputs else np.array(0.5)
    return Explained(values, base, table(n_rows), NAMES, outputs)


def model() -> Any:
    frame = table()
    y = np.log(frame[NAMES[0]]) + frame[NAMES[1]].eq("red") + frame[NAMES[2]] ** 2
    return HedgerowRegressor(
        n_estimators=15, early_stopping=False, linear_leaves=False, min_samples_leaf=5
    ).fit(frame, y), frame


def labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels() if label.get_text()]


def check_no_overlap(figure: Any) -> None:
    """Check that no two labels of an axis overlap, and that all are inside the figure."""
    figure.canvas.draw()
    whole = figure.bbox
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            boxes = [
                label.get_window_extent()
                for label in axis.get_ticklabels()
                if label.get_text() and label.get_visible()
            ]
            inside = [box for box in boxes if box.width > 0]
            for one, two in itertools.combinations(inside, 2):
                both = mpl.transforms.Bbox.intersection(one, two)
                assert both is None or min(both.width, both.height) < 1.0, axes.get_xlabel()
        for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
            if text.get_text():
                box = text.get_window_extent()
                assert box.x0 >= whole.x0 - 1
                assert box.x1 <= whole.x1 + 1


def test_names_are_short_and_distinct() -> None:
    assert short("plain") == "plain"
    assert len(short(LONG)) == LETTERS
    assert short(LONG).startswith("a_very_long")
    alike = [f"sensor_channel_{k:03d}_mean_over_the_last_week" for k in range(30)]
    shown = short_names(alike)
    assert len(set(shown)) == 30
    assert all(f"{k:03d}" in text and len(text) <= LETTERS for k, text in enumerate(shown))
    alike = [f"measurement_of_sensor_number_{k:03d}_in_volts" for k in range(300)]
    shown = short_names(alike)
    assert len(set(shown)) == 300
    assert all(f"{k:03d}" in text and len(text) <= LETTERS for k, text in enumerate(shown))
    assert short_names(["same", "same"]) == ["same (1)", "same (2)"]
    assert short("\x1b[31m") == "'\\x1b[31m'"


def test_numbers_and_cells() -> None:
    assert [rounded(x) for x in (0.123456, 12345.6, 1e9, -2.0)] == [
        "0.123",
        "12,346",
        "1e+09",
        "−2",
    ]
    assert [signed(x) for x in (1.0, -1.0)] == ["+1", "−1"]
    shown = [cell_text(x) for x in (None, np.nan, True, 3, 3.0, 0.12345, "red", 20180131.0)]
    assert shown == ["missing", "missing", "True", "3", "3", "0.1235", "red", "20180131"]


def test_importance_shows_the_strongest_columns_and_the_rest() -> None:
    values = np.array([0.1, 0.5, 0.05, 0.35])
    found = Importances(NAMES, values, None, "gain", "share of the loss reduction")
    axes = plot_importance(found, most=2)
    assert labels(axes.yaxis) == ["colour", "plain", "2 other columns"]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx([0.5, 0.35, 0.15])
    assert axes.get_xlabel() == "share of the loss reduction"
    assert axes.yaxis_inverted()
    check_no_overlap(axes.figure)


def test_importance_with_errors_and_outputs() -> None:
    values, errors = np.array([0.1, 0.5, -0.05, 0.35]), np.array([0.01, 0.1, 0.02, 0.0])
    found = Importances(NAMES, values, errors, "permutation", "auc lost")
    axes = plot_importance(found, most=3)
    ends = axes.collections[0].get_segments()
    assert ends[0][:, 0].tolist() == pytest.approx([0.5 - 0.196, 0.5 + 0.196])
    assert len(axes.texts) == 3  # the rest has no sum
    low, high = axes.get_xlim()
    assert low <= 0.0
    assert high > 0.5 + 0.196
    several = Importances(NAMES, np.ones((4, 3)), None, "shap", "x", ("a", "b", "c $ d $"))
    axes = plot_importance(several)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "c $ d $"]
    assert len({bar.get_hatch() for bar in axes.patches}) == 3
    check_no_overlap(axes.figure)


def test_partial_dependence_has_a_panel_for_each_column() -> None:
    fitted, frame = model()
    found = fitted.partial_dependence(frame)
    drawn = plot_partial_dependence(found)
    assert [axes.get_xlabel() for axes in drawn] == [short(name) for name in NAMES]
    limits = {axes.get_ylim() for axes in drawn}
    assert len(limits) == 1
    panels = {axes.get_xlabel(): axes for axes in drawn}
    numbers = panels[short(NAMES[0])]
    x, values = numbers.lines[0].get_data()
    middles = (x[::2] + x[1::2]) / 2
    np.testing.assert_allclose(values[::2], found[NAMES[0]].at(middles))
    np.testing.assert_allclose(values[1::2], values[::2])
    assert len(numbers.patches) == 30
    notes = [text.get_text() for text in panels["plain"].texts]
    assert "missing" in notes
    check_no_overlap(numbers.figure)


def test_partial_dependence_of_categories() -> None:
    fitted, frame = model()
    effect = fitted.partial_dependence(frame)["colour"]
    axes = plot_partial_dependence(effect)
    shown = labels(axes.xaxis)
    assert shown == ["a colour …name", "green", "red", "missing"]
    points = axes.lines[0].get_ydata()
    np.testing.assert_allclose(points, [*effect.values, effect.missing])
    check_no_overlap(axes.figure)


def test_many_categories_are_those_with_the_most_rows() -> None:
    rng = np.random.default_rng(0)
    city = np.array([f"city number {k:03d}" for k in np.minimum(rng.geometric(0.1, 500), 80)])
    frame = pd.DataFrame({"city": city})
    fitted = HedgerowRegressor(
        n_estimators=5, early_stopping=False, target_statistics=False, linear_leaves=False
    ).fit(frame, rng.normal(size=500))
    axes = plot_partial_dependence(fitted.partial_dependence(frame)["city"])
    assert len(labels(axes.xaxis)) == 12
    assert any("categories not shown" in text.get_text() for text in axes.texts)
    check_no_overlap(axes.figure)


def test_partial_dependence_of_several_outputs() -> None:
    fitted, frame = model()
    classes = np.digitize(frame[NAMES[0]], [0.7, 1.5])
    classifier = HedgerowClassifier(n_estimators=5, early_stopping=False).fit(frame, classes)
    found = classifier.partial_dependence(frame, kind="probability")
    panels = plot_partial_dependence(found, most=2)
    assert len(panels) == 2
    assert [text.get_text() for text in panels[0].figure.legends[0].get_texts()] == ["0", "1", "2"]
    only = plot_partial_dependence(found, most=2, output=1)
    assert not only[0].figure.legends
    with pytest.raises(ParameterError, match="from 0 to 2"):
        plot_partial_dependence(found, output=3)
    with pytest.raises(ParameterError, match="single effect"):
        plot_partial_dependence(found, plt.subplots()[1])  # type: ignore[call-overload]
    del fitted


def test_beeswarm_has_a_point_for_each_row() -> None:
    found = explained()
    axes = plot_beeswarm(found)
    order = np.argsort(-np.abs(found.values).mean(axis=0))
    assert labels(axes.yaxis) == [short(NAMES[k]) for k in order]
    every = np.concatenate([points.get_offsets() for points in axes.collections])
    assert len(every) == 4 * N_ROWS
    for place, column in enumerate(order):
        own = every[np.abs(every[:, 1] - place) < 0.5]
        np.testing.assert_allclose(np.sort(own[:, 0]), np.sort(found.values[:, column]))
    check_no_overlap(axes.figure)


def test_pictures_of_columns_refuse_pairs() -> None:
    pairs = Explained(np.zeros((5, 4, 4)), 0.0, table(5), NAMES, interactions=True)
    for draw in (plot_beeswarm, plot_waterfall):
        with pytest.raises(ParameterError, match="has interactions"):
            draw(pairs)


def test_beeswarm_of_one_row_and_of_outputs() -> None:
    axes = plot_beeswarm(explained(1))
    assert sum(len(points.get_offsets()) for points in axes.collections) == 4
    several = explained(20, ("low", "high"))
    with pytest.raises(ParameterError, match="has 2 outputs"):
        plot_beeswarm(several)
    assert plot_beeswarm(several, output=1).get_title(loc="left") == "high"


def test_waterfall_goes_from_the_base_to_the_raw_score() -> None:
    found = explained()
    axes = plot_waterfall(found, 3, most=2)
    names = labels(axes.yaxis)
    assert len(names) == 3
    assert names[2] == "2 other columns"
    row = found.values[3]
    order = np.argsort(-np.abs(row))
    assert names[0].startswith(short(NAMES[order[0]], 24))
    total = 0.5 + row.sum()
    assert axes.get_title(loc="left") == f"row 3: raw score {rounded(total)}"
    tips = [patch.get_xy()[2, 0] for patch in axes.patches]
    starts = [patch.get_xy()[0, 0] for patch in axes.patches]
    assert tips[0] == pytest.approx(total)
    assert starts[-1] == pytest.approx(0.5)
    assert tips[1:] == pytest.approx(starts[:-1])
    assert [text.get_text() for text in axes.texts] == [
        signed(x) for x in (*row[order[:2]], row[order[2:]].sum())
    ]
    check_no_overlap(axes.figure)
    for wrong in (N_ROWS, -N_ROWS - 1, 1.5, True):
        with pytest.raises(ParameterError, match="row must be from 0 to 199"):
            plot_waterfall(found, wrong)  # type: ignore[arg-type]
    last = plot_waterfall(found, -1)
    assert last.get_title(loc="left").startswith("row 199")


def test_waterfall_with_offsets_begins_where_the_row_does() -> None:
    found = explained(5)
    offset = Explained(found.values, np.arange(5.0), found.data, NAMES)
    axes = plot_waterfall(offset, 3)
    assert axes.patches[-1].get_xy()[0, 0] == pytest.approx(3.0)
    several = explained(5, ("low", "high"))
    offset = Explained(
        several.values, np.arange(10.0).reshape(5, 2), several.data, NAMES, ("low", "high")
    )
    axes = plot_waterfall(offset, 3, output=1)
    assert axes.patches[-1].get_xy()[0, 0] == pytest.approx(7.0)


def test_calibration_is_that_of_its_rows() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(5000)
    y = rng.random(5000) < p
    found = calibration_of(y, p)
    assert found.rows.sum() == 5000
    assert len(found.rows) == 10
    assert ((found.low <= found.predicted) & (found.predicted <= found.high)).mean() >= 0.8
    for k in range(10):
        edges = np.quantile(p, [k / 10, (k + 1) / 10])
        inside = (p > edges[0]) & (p <= edges[1]) if k else p <= edges[1]
        assert found.observed[k] == pytest.approx(y[inside].mean())
    axes = plot_calibration(y, p)
    assert axes.get_legend().get_texts()[0].get_text() == f"True: off by {found.error:.3f}"
    few = calibration_of([True], [0.5])
    assert few.rows.tolist() == [1]
    with pytest.raises(DataError, match="1 targets for 2"):
        calibration_of([True], [0.5, 0.5])


def test_calibration_of_weighted_rows_is_that_of_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    p, weight = rng.random(400).round(1), rng.integers(0, 4, 400)
    y = rng.random(400) < p
    found = calibration_of(y, p, sample_weight=weight)
    repeated = calibration_of(np.repeat(y, weight), np.repeat(p, weight))
    np.testing.assert_allclose(found.predicted, repeated.predicted)
    np.testing.assert_allclose(found.observed, repeated.observed)
    np.testing.assert_array_equal(found.weights, repeated.rows)
    assert found.error == pytest.approx(repeated.error)
    assert found.rows.sum() == (weight > 0).sum()
    # Unequal weights say less than equal ones, and a common factor says nothing.
    assert (found.high - found.low > repeated.high - repeated.low).all()
    equal = calibration_of(y, p, sample_weight=np.full(400, 7.0))
    np.testing.assert_allclose(equal.low, calibration_of(y, p).low)
    axes = plot_calibration(y, p, sample_weight=weight)
    assert axes.get_legend().get_texts()[0].get_text() == f"True: off by {found.error:.3f}"
    with pytest.raises(DataError, match="sample_weight must not be negative"):
        calibration_of(y, p, sample_weight=-np.ones(400))


def test_wilson_interval_of_known_values() -> None:
    low, high = wilson_interval(np.array([0.5]), np.array([10]))
    assert low[0] == pytest.approx(0.2366, abs=1e-4)
    assert high[0] == pytest.approx(0.7634, abs=1e-4)


def test_calibration_of_several_classes() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    axes = plot_calibration(rng.choice(["a", "b", "c"], 300), p)
    assert [t.get_text()[0] for t in axes.get_legend().get_texts()] == ["a", "b", "c"]
    with pytest.raises(ParameterError, match="2 columns of probabilities for 3 classes"):
        plot_calibration(["a", "b", "c"], p[:3, :2])


def test_estimators_draw() -> None:
    fitted, frame = model()
    axes = plt.subplots()[1]
    assert fitted.plot_importance("split", ax=axes) is axes
    assert len(fitted.plot_partial_dependence(frame, most=3)) == 3
    y = np.zeros(N_ROWS)
    shown = fitted.plot_importance("permutation", frame, y, metric="mae", n_repeats=2)
    assert shown.get_xlabel() == "mae added"
    with pytest.raises(ParameterError, match="most must be"):
        fitted.plot_importance(most=0)


def test_outputs_have_names_and_models_are_importances() -> None:
    """What explain takes as outputs, every picture takes as output."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.array(["lo", "mid", "hi"])[np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])]
    model = HedgerowClassifier(n_estimators=3).fit(X, y)
    names = model.booster_.output_names
    found, explanation = model.partial_dependence(X), model.explain(X)
    pictures: dict[Any, Any] = {
        plot_beeswarm: explanation,
        plot_waterfall: explanation,
        plot_partial_dependence: found["x0"],
    }
    for draw, given in pictures.items():
        images = []
        for output in (names.index("hi"), "hi"):
            shown = draw(given, output=output)
            buffer = io.BytesIO()
            shown.figure.savefig(buffer, format="png", dpi=30, metadata={"Software": None})
            images.append(buffer.getvalue())
        assert images[0] == images[1]
        with pytest.raises(ParameterError, match=r"output must be .*'lo'.*got 'high'"):
            draw(given, output="high")
    plot_partial_dependence(found, output="hi")
    model.plot_partial_dependence(X, output="mid")
    for given in (model, model.booster_):
        axes = plot_importance(given)
        assert labels(axes.yaxis) == labels(model.plot_importance().yaxis)
    with pytest.raises(DataTypeError, match="a Booster or a fitted estimator"):
        plot_importance({"x0": 1.0})
