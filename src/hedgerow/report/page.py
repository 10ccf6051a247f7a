"""The ladder as one self-contained HTML page: table, curves and drawn trees."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.data import Schema
from hedgerow.plot import plot_tree
from hedgerow.plot.labels import ModelLike
from hedgerow.report.html import inline_figure, inline_plot, page_html, table_html
from hedgerow.report.ladder import Result, Split, log_loss, score_names, squared_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def ladder_page(results: Sequence[Result], split: Split, title: str) -> str:
    """Return the results of all steps as self-contained HTML; needs matplotlib.

    Parameters
    ----------
    results : sequence of Result
        What :func:`climb` returned.
    split : Split
        The rows that it trained and tested on.
    title : str
        Name of the table.
    """
    score, loss = score_names(split.task)
    lead = (
        f"{split.task.capitalize()}: {len(split.y_train):,} rows to train on, "
        f"{len(split.y_test):,} to test, {len(split.feature_names)} columns. "
        "Every rung used the same rows."
    )
    parts = [
        f"<h1>The ladder on {html.escape(title)}</h1>",
        f'<p class="lead">{lead}</p>',
        _table(results, score, loss),
        "<h2>Train and test score</h2>",
        inline_plot(
            (9.0, 0.5 + 0.34 * len(results)), lambda axes: _draw_scores(axes, results, score),
            f"{score} of each rung; further right is better.",
        ),
    ]  # fmt: skip
    curves = _curves(results, split)
    if curves:
        parts += [
            "<h2>Test loss, tree by tree</h2>",
            inline_plot(
                (9.0, 4.6), lambda axes: _draw_curves(axes, curves, loss),
                f"{loss} on the test rows after each round.",
            ),
        ]  # fmt: skip
    parts += _trees(results, split)
    return page_html(f"The ladder on {title}", parts)


def _table(results: Sequence[Result], score: str, loss: str) -> str:
    best_score = max(result.test_score for result in results)
    best_loss = min(result.test_loss for result in results)
    scores = (f"train {score}", f"test {score}", f"train {loss}", f"test {loss}")
    rows, best = [], set()
    for place, result in enumerate(results):
        numbers = (result.train_score, result.test_score, result.train_loss, result.test_loss)
        size = (f"{result.seconds:.2f}", f"{result.n_trees:,}", f"{result.n_leaves:,}")
        texts = [f"{number:.3f}" for number in numbers]
        rows.append((result.rung.name, *texts, *size, result.rung.what))
        best |= {(place, 2)} if result.test_score == best_score else set()
        best |= {(place, 4)} if result.test_loss == best_loss else set()
    head = ("rung", *scores, "seconds", "trees", "leaves", "what is new")
    return table_html(head, rows, (8,), best)


def _draw_scores(axes: Axes, results: Sequence[Result], score: str) -> None:
    places = np.arange(len(results))[::-1]
    train = [result.train_score for result in results]
    test = [result.test_score for result in results]
    axes.hlines(places, train, test, color="#cbd2d9", linewidth=2, zorder=1)
    axes.scatter(train, places, color="white", edgecolor="#1f2933", label="train", zorder=2)
    axes.scatter(test, places, color="#0b7285", label="test", zorder=3)
    axes.set_yticks(places, [result.rung.name for result in results])
    axes.set_xlabel(score)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e4e7eb")
    axes.set_axisbelow(True)


def _curves(results: Sequence[Result], split: Split) -> dict[str, FloatArray]:
    """Draw the test loss after each round, for steps whose trees are a plain sum."""
    curves = {}
    for result in results:
        booster = getattr(result.estimator, "booster_", None)
        if booster is None or booster.model.training["parameters"]["boosting"] != "gbdt":
            continue
        fitted = result.estimator
        if split.task == "regression":
            errors = (squared_errors(split.y_test, y) for y in fitted.staged_predict(split.X_test))
            curve = np.array([np.sqrt(own).mean() for own in errors])
        else:
            staged = fitted.staged_predict_proba(split.X_test)
            curve = np.array([log_loss(fitted.classes_, split.y_test, p) for p in staged])
        if len(curve) > 0:  # without enough rows to split there are no rounds
            curves[result.rung.name] = curve
    return curves


def _draw_curves(axes: Axes, curves: dict[str, FloatArray], loss: str) -> None:
    from matplotlib import colormaps

    colours = colormaps["viridis"](np.linspace(0.0, 0.9, len(curves)))
    styles = ("-", "--", "-.", ":")
    for number, (name, curve) in enumerate(curves.items()):
        rounds = np.arange(1, len(curve) + 1)
        axes.plot(rounds, curve, styles[number % 4], color=colours[number], label=name)
    # A step without shrinkage may diverge: show the range of the other steps.
    low = min(curve.min() for curve in curves.values())
    start = max(curve[0] for curve in curves.values())
    axes.set_ylim(low - 0.05 * (start - low), start + 0.25 * (start - low))
    axes.set_xlabel("round")
    axes.set_ylabel(loss)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e7eb")


def _trees(results: Sequence[Result], split: Split) -> list[str]:
    """Return the pruned tree, and the first tree of leaf-wise boosting."""
    parts = []
    names = split.feature_names
    for result in results:
        if result.rung.name == "pruned tree":
            title, tree = f"The pruned tree ({result.n_leaves} leaves)", result.estimator
            parts += _tree(title, tree.drawing(), tree.tree_.schema, names)
        if result.rung.name == "leaf-wise":
            model = result.estimator.booster_.model
            if model.forest.n_trees == 0:  # too few rows to split
                continue
            title = "The first tree of leaf-wise boosting"
            parts += _tree(title, model.forest, model.schema, names)
    return parts


def _tree(title: str, tree: ModelLike, schema: Schema, names: Sequence[str]) -> list[str]:
    # The models were trained on an array: the split has the names.
    columns = [replace(column, name=n) for column, n in zip(schema.columns, names, strict=True)]
    named = replace(schema, columns=tuple(columns), named=True)
    figure = plot_tree(tree, schema=named).get_figure(root=True)
    assert figure is not None
    return [f"<h2>{html.escape(title)}</h2>", inline_figure(figure, "Read from left to right.")]
