"""Predictions against the targets: the plots for each kind of model.

==================  ==================================================================
classes, labels     calibration; confusion
numbers             predictions against true values, of each target
distributions       as for numbers, and the share of rows within central intervals
quantiles           as for numbers, and the share of rows below each level
times of events     survivors of three groups of predicted risk (Kaplan and Meier 1958)
rankings            mean grade of the rows by their predicted position in the query
==================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.booster import objective_of
from hedgerow.objectives.distributions.losses import NormalLoss
from hedgerow.plot import style as s
from hedgerow.plot.classifier import plot_calibration, wilson_interval
from hedgerow.report.findings import SAMPLE, Findings, part_of
from hedgerow.report.html import inline_figure, inline_plot, new_figure, table_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PANELS = 6
_MOST_CLASSES = 20
_MOST_FREQUENT = f", of the {_MOST_CLASSES} most frequent classes"
_PLACES = 15
_LEVELS = (0.5, 0.8, 0.9, 0.95)
_GROUPS = ("lowest third of risk", "middle third", "highest third")


def predictions_html(found: Findings) -> list[str]:
    """Return the part of the page that compares predictions with targets."""
    if found.classes is not None and found.probability is not None:
        return _of_classes(found)
    by_task = {
        "labels": _of_labels, "survival": _of_times, "ranking": _of_ranking,
        "quantiles": _of_quantiles,
    }  # fmt: skip
    if found.task in by_task:
        return by_task[found.task](found)
    parts = _of_numbers(found)
    if isinstance(objective_of(found.booster.model), NormalLoss):
        rows = []
        for level in _LEVELS:
            ends = found.booster.predict_interval(found.X, level)
            inside = (ends[:, 0] <= found.y) & (found.y <= ends[:, 1])
            rows.append((f"{level:.0%}", *_share(inside, found.weight)))
        parts.append(table_html(("central interval", "share of rows in it", "95% interval"), rows))
    return parts


def _panels(drawn: Sequence[str]) -> str:
    return f'<div class="panels pair">{"".join(drawn)}</div>'


def _of_classes(found: Findings) -> list[str]:
    assert found.classes is not None
    labels = found.classes.tolist()
    n = min(len(labels), _MOST_CLASSES)
    drawn = [
        inline_plot(
            (4.6, 4.4),
            lambda ax: plot_calibration(
                found.y, found.probability, labels, ax, sample_weight=found.weight
            ),
            "Share that came true by predicted probability, with 95% intervals.",
        ),
        inline_plot(
            (max(4.6, 1.9 + 0.5 * n), max(4.4, 1.5 + 0.46 * n)),
            lambda ax: _draw_confusion(ax, found),
            f"Share of each true class by predicted class{_MOST_FREQUENT * (len(labels) > n)}.",
        ),
    ]
    return ["<h2>Calibration and confusion</h2>", _panels(drawn)]


def _draw_confusion(ax: Axes, found: Findings) -> None:
    from sklearn.metrics import ConfusionMatrixDisplay

    assert found.classes is not None
    rows = np.array([np.count_nonzero(found.y == label) for label in found.classes])
    shown = found.classes[np.sort(np.argsort(-rows, kind="stable")[:_MOST_CLASSES])]
    ConfusionMatrixDisplay.from_predictions(
        found.y, found.predicted, labels=shown, sample_weight=found.weight, normalize="true",
        display_labels=s.short_names(shown.tolist(), 18), xticks_rotation="vertical", ax=ax,
        cmap="Blues", colorbar=False, values_format=".0%", text_kw={"fontsize": s.SMALL},
    )  # fmt: skip
    for label in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        label.set_parse_math(False)
    s.name_axes(ax, "predicted class", "true class")


def _of_labels(found: Findings) -> list[str]:
    chances = found.probability
    assert chances is not None

    def draw(ax: Axes, k: int) -> None:
        plot_calibration(found.y[:, k], chances[:, k], [0, 1], ax, sample_weight=found.weight)

    drawn = [
        inline_plot(
            (4.6, 4.4), partial(draw, k=k),
            f"Label {s.short(name, 40)}: share that came true by predicted probability.",
        )
        for k, name in enumerate(found.booster.output_names[:_MOST_PANELS])
    ]  # fmt: skip
    return ["<h2>Calibration</h2>", _panels(drawn)]


def _of_numbers(found: Findings) -> list[str]:
    true, predicted = (np.atleast_2d(values.T) for values in (found.y, found.predicted))
    captions = [f"Target {s.short(name, 40)}" for name in found.booster.output_names]
    if found.y.ndim == 1:
        captions = ["True values against predictions"]
    drawn = [
        _agreement(*own) for own in zip(true, predicted, captions[:_MOST_PANELS], strict=False)
    ]
    return ["<h2>Predictions</h2>", _panels(drawn)]


def _of_quantiles(found: Findings) -> list[str]:
    names = found.booster.output_names
    middle = len(names) // 2
    caption = f"True values against predictions of level {names[middle]}"
    drawn = _agreement(found.y, found.predicted[:, middle], caption)
    below = found.y[:, None] <= found.predicted
    rows = [(name, *_share(below[:, k], found.weight)) for k, name in enumerate(names)]
    table = table_html(("level", "share of rows not above", "95% interval"), rows)
    return ["<h2>Predictions</h2>", _panels([drawn]), table]


def _share(is_so: AnyArray, weight: FloatArray | None) -> tuple[str, str]:
    """Return a share of rows, and its interval."""
    share = float(np.average(is_so, weights=weight))
    low, high = wilson_interval(np.array(share), effective_rows(weight, len(is_so)))
    return f"{share:.1%}", f"{float(low):.1%} … {float(high):.1%}"


def effective_rows(weight: FloatArray | None, n_rows: int) -> float:
    """Return how many rows of equal weight say as much about a share (Kish 1965)."""
    if weight is None:
        return float(n_rows)
    return float(weight.sum() ** 2 / (weight**2).sum())


def _agreement(true: FloatArray, predicted: AnyArray, caption: str) -> str:
    """Plot true values against predictions."""
    predicted = np.asarray(predicted, dtype=np.float64)
    rows = np.arange(len(true))
    if len(rows) > SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(len(true), SAMPLE, replace=False))
    both = np.concatenate((predicted[rows], true[rows]))
    low, high = (float(edge) for edge in np.percentile(both, [0.5, 99.5]))
    span = (high - low) or 1.0
    ends = low - 0.03 * span, high + 0.03 * span

    def draw(ax: Axes) -> None:
        ax.plot(ends, ends, color=s.LINE, lw=0.9, ls=(0, (2, 2)))
        style: dict[str, Any] = {"color": s.COLOURS[0], "rasterized": len(rows) > 500}
        ax.plot(predicted[rows], true[rows], "o", ms=3, mew=0, alpha=0.35, **style)
        s.finish(ax, "y")
        ax.set(xlim=ends, ylim=ends)
        s.name_axes(ax, "prediction", "true value")

    return inline_plot((4.6, 4.2), draw, f"{caption}; on the line they are equal.")


def _of_times(found: Findings) -> list[str]:
    figure = new_figure(6.2, 3.8)
    ax = figure.add_subplot()
    times, happened = np.abs(found.y), found.y > 0.0
    risk = found.predicted if objective_of(found.booster.model).name == "cox" else -found.predicted
    third = np.searchsorted(np.quantile(risk, [1 / 3, 2 / 3]), risk, side="left")
    for k, name in enumerate(_GROUPS):
        own = third == k
        if own.any():
            at, share = survivors(times[own], happened[own], part_of(found.weight, own))
            style = {"color": s.COLOURS[k], "ls": s.DASHES[k]}
            ax.plot(at, share, drawstyle="steps-post", lw=1.8, label=name, **style)
    s.finish(ax, "y")
    ax.set_ylim(0.0, 1.02)
    ax.set_xlim(0.0, float(np.quantile(times, 0.98)))
    s.literal_legend(ax, labelcolor=s.INK)
    s.name_axes(ax, "time", "share without the event")
    caption = (
        "Rows without the event by time, in three groups of predicted risk (Kaplan-Meier). The "
        "further apart the curves, the better the model separates the groups."
    )
    return ["<h2>Predicted risk and events</h2>", inline_figure(figure, caption)]


def survivors(
    times: FloatArray, happened: AnyArray, weight: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the share of rows without an event after each time (Kaplan and Meier 1958)."""
    mass = np.ones(len(times)) if weight is None else weight
    times, happened, mass = times[mass > 0.0], happened[mass > 0.0], mass[mass > 0.0]
    at, place = np.unique(times, return_inverse=True)
    events = np.bincount(place, weights=happened * mass, minlength=len(at))
    leaving = np.bincount(place, weights=mass, minlength=len(at))
    waiting = np.cumsum(leaving[::-1])[::-1]
    share = np.cumprod(1.0 - np.minimum(events / waiting, 1.0))
    return np.concatenate(([0.0], at)), np.concatenate(([1.0], share))


def _of_ranking(found: Findings) -> list[str]:
    assert found.query is not None
    grades = found.y
    figure = new_figure(6.2, 3.8)
    ax = figure.add_subplot()
    tie = np.random.default_rng(0).random(len(grades))  # equal scores have no order
    for k, (name, keys) in enumerate(
        (("by the model", found.predicted), ("best possible", grades))
    ):
        mean = _by_place(found, keys, tie)
        at = np.arange(1, len(mean) + 1)
        style = {"color": s.COLOURS[k], "ls": s.DASHES[k]}
        ax.plot(at, mean, "o", ms=4, lw=1.8, label=name, **style)
    every = float(np.average(grades, weights=found.weight))
    ax.axhline(every, color=s.LINE, lw=0.9, ls=(0, (2, 2)), label="mean of all rows")
    s.finish(ax, "y")
    s.literal_legend(ax, labelcolor=s.INK)
    s.name_axes(ax, "position in the query", "mean grade")
    caption = "Mean grade of the rows at each position of their query, in the order of the model."
    return ["<h2>Order of the rows</h2>", inline_figure(figure, caption)]


def _by_place(found: Findings, keys: AnyArray, tie: FloatArray) -> FloatArray:
    """Return the mean grade at the first positions of all queries."""
    query = found.query
    assert query is not None
    weight = np.ones(len(query)) if found.weight is None else found.weight
    order = np.lexsort((tie, -np.asarray(keys, dtype=np.float64), query))
    _, start = np.unique(query[order], return_index=True)
    place = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
    mass = np.bincount(place, weights=weight[order])[:_PLACES]
    total = np.bincount(place, weights=(weight * found.y)[order])[:_PLACES]
    return np.divide(total, mass, out=np.full(len(mass), np.nan), where=mass > 0.0)
