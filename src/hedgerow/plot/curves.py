"""Learning curves of a model: as a table and as a picture; part of a booster.

Glossary
--------
curve    scores of one metric on some rows, one after each round
best     the round with which a model ends that stopped early
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hedgerow.data.frames import FrameLibrary, make_frame
from hedgerow.errors import ParameterError, did_you_mean
from hedgerow.model.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _FAINT = "#1f2933", "#4b5763"
_LINES = {
    "validation": ("#0072b2", "-"),
    "train": ("#d55e00", "--"),
    "out_of_bag": ("#009e73", ":"),
}
"""Colour and dashes of each part of the rows: nothing is said by colour alone."""

OF_FOLDS = "cv"
"""Name of the curves of folds."""

_OTHERS = (
    ("#cc79a7", "-."),
    ("#e69f00", (0, (5, 1))),
    ("#56b4e9", (0, (3, 1, 1, 1))),
    ("#000000", (0, (1, 2))),
)
"""The same for validation sets with names, after the first, which has that of ``validation``."""


def history_columns(model: Model) -> dict[str, list[Any]]:
    """One entry for each round, part of the rows, and metric.

    Parameters
    ----------
    model : Model

    Returns
    -------
    dict of lists
        ``round`` from 1, or from that after the rounds of a model that the fit has gone on
        from; ``seconds`` from the beginning of the fit to the end of the
        round, NaN where they are not known; ``rows``: ``"validation"`` or the name of a
        validation set, ``"train"``, ``"out_of_bag"`` or ``"cv"``; ``metric``; ``value``.
    """
    columns: dict[str, list[Any]] = {
        name: [] for name in ("round", "seconds", "rows", "metric", "value")
    }
    for rows, metric, scores in _history(model):
        known = () if rows == OF_FOLDS else model.seconds
        seconds = (*known, *(len(scores) * [math.nan]))
        columns["round"] += _rounds(model, rows, len(scores))
        columns["seconds"] += seconds[: len(scores)]
        columns["rows"] += len(scores) * [rows]
        columns["metric"] += len(scores) * [metric]
        columns["value"] += scores
    return columns


def _rounds(model: Model, rows: str, n_scores: int) -> list[int]:
    """Rounds of the model after which the scores of a curve are.

    A round of the folds may stand for several of the model.
    """
    first = model.training.get("init_rounds", 0)
    stride = model.training.get("folds", {}).get("stride", 1.0) if rows == OF_FOLDS else 1.0
    return [first + round(stride * number) for number in range(1, n_scores + 1)]


def _history(model: Model) -> list[tuple[str, str, Sequence[float]]]:
    """Rows, metric and scores of each curve, that which decides early stopping first.

    A file keeps curves by name, so their order is made here.
    """
    watched = model.training.get("watched")
    parts = _places(model)
    found = [
        (rows, metric, scores)
        for rows, curves in model.training.get("history", {}).items()
        for metric, scores in curves.items()
    ]
    return sorted(
        found, key=lambda curve: (curve[1] != watched, parts.get(curve[0], len(parts)), curve[1])
    )


def _places(model: Model) -> dict[str, int]:
    """Place of the curves of each part of the rows: validation sets first, as they were given."""
    order = [*model.training.get("validation_sets", ()), *_LINES]
    return {rows: place for place, rows in enumerate(dict.fromkeys(order))}


def _style(model: Model, rows: str) -> tuple[str, Any]:
    """Colour and dashes of the curve of some rows."""
    sets = list(model.training.get("validation_sets", ()))
    if rows in _LINES and rows not in sets:
        return _LINES[rows]
    place = sets.index(rows) if rows in sets else 1
    return _LINES["validation"] if place == 0 else _OTHERS[(place - 1) % len(_OTHERS)]


def plot_history(
    model: Model,
    metric: str | None = None,
    ax: Axes | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """Draw the learning curves of one metric with matplotlib.

    Parameters
    ----------
    model : Model
    metric : str, optional
        Name of a metric; the first by default, which decides early stopping.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.
    path : str or path-like, optional
        Also write the figure to this file, of a type that its name ends with.

    Returns
    -------
    matplotlib.axes.Axes
        With a mark at the best round, if the fit looked for one.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If nothing was evaluated, or not by this metric.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.datasets import load_pima
    >>> from hedgerow.plot import plot_history
    >>> X, y, names, _ = load_pima()
    >>> params = {"objective": "logistic", "n_estimators": 30, "early_stopping": True}
    >>> booster = train(params, Dataset(X, y, feature_names=names))
    >>> axes = plot_history(booster.model)
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('round', 'loss')
    >>> axes.figure.savefig("curves.png")  # doctest: +SKIP
    """
    name, curves = _curves_of(model, metric)
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plot_history needs matplotlib: pip install 'hedgerow[plot]'. "
            "Without it there is history_frame."
        ) from error
    if ax is None:
        ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")[1]
    for rows, scores in curves.items():
        colour, dashes = _style(model, rows)
        label = rows.replace("_", " ")
        rounds = _rounds(model, rows, len(scores))
        ax.plot(rounds, scores, dashes, color=colour, lw=1.8, label=label)
    _mark_best(ax, model, name, *next(iter(curves.items())))
    ax.set_xlabel("round", color=_INK)
    ax.set_ylabel(name, color=_INK)
    ax.tick_params(colors=_FAINT)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e4e7eb", lw=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False)
    if path is not None:
        ax.figure.canvas.print_figure(os.fspath(path))
    return ax


def _curves_of(model: Model, metric: str | None) -> tuple[str, dict[str, Sequence[float]]]:
    """Name of the metric, and scores by part of the rows."""
    known = list(dict.fromkeys(name for _, name, _ in _history(model)))
    if not known:
        raise ParameterError(
            "the model has no learning curves: nothing was evaluated. Train it with validation "
            "rows, early_stopping=True, or an eval_metric."
        )
    chosen = known[0] if metric is None else metric
    if chosen not in known:
        raise ParameterError(
            f"metric {chosen!r} was not evaluated, but {', '.join(map(repr, known))}."
            f"{did_you_mean(str(chosen), known)}"
        )
    return chosen, {rows: scores for rows, name, scores in _history(model) if name == chosen}


def _mark_best(ax: Axes, model: Model, metric: str, rows: str, scores: Sequence[float]) -> None:
    best = model.training.get("best_round")
    if best is None:
        return
    line = ax.axvline(best, color=_FAINT, lw=0.9, ls=(0, (2, 2)), zorder=1)
    if "folds" in model.training:  # the curves are of other models than that of all rows
        line.set_label(f"on all rows: {best} rounds")
        return
    score = score_at(model, rows, metric, scores, best)
    if score is None:
        line.set_label(f"best: round {best}")
        return
    # Its words stand in the legend, where they cover no curve.
    label = f"best: round {best}, {score:.5g}"
    ax.plot([best], [score], "o", ms=7, mfc="white", mec=_INK, mew=1.6, zorder=4, label=label)


def score_at(
    model: Model, rows: str, metric: str, scores: Sequence[float], number: int
) -> float | None:
    """The score of a curve after round ``number`` of the model; None if it is not known.

    A curve begins after the rounds of a model that the fit has gone on from, whose own score
    the record tells apart.
    """
    place = number - model.training.get("init_rounds", 0) - 1
    if place >= 0:
        return scores[place]
    known: float | None = model.training.get("init_scores", {}).get(rows, {}).get(metric)
    return known if place == -1 else None


class CurveViews:
    """What the training record tells: where it ended, and the learning curves."""

    model: Model

    @property
    def best_iteration(self) -> int | None:
        """Round with the best validation score, with which the model ends.

        Rounds count from the first of the model that the fit went on from, if it did, and
        the best may be that with which this model ended.
        Where folds have told when to stop, the rounds of the model of all rows, which may
        be more than the folds have done.  None if it was trained without early stopping.
        """
        best: int | None = self.model.training.get("best_round")
        return best

    @property
    def stopped_by(self) -> str | None:
        """What ended the training.

        ``"rounds"``, ``"early_stopping"``, ``"callback"``, ``"time_budget"`` or
        ``"interrupt"``; None for a model of a version that did not note it.
        """
        reason: str | None = self.model.training.get("stopped_by")
        return reason

    @property
    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Learning curves: ``evals_result["validation"]["loss"][i]`` after round i + 1.

        Several validation sets are there by name, the first of which decides early
        stopping, and training rows as ``"train"`` with ``train_scores``.
        The key is ``"train"`` where there were no validation rows; empty if
        nothing was to be evaluated.  It is ``"cv"`` where folds have told when to stop; a
        round of theirs may stand for several of the model, as ``history_frame`` counts.
        """
        history: Mapping[str, Mapping[str, Sequence[float]]]
        history = self.model.training.get("history", {})
        places = _places(self.model)
        return {
            rows: {name: list(scores) for name, scores in history[rows].items()}
            for rows in sorted(history, key=lambda rows: places.get(rows, len(places)))
        }

    def history_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """The scores of all rounds as a data frame, one row for each score.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None for a dict of
            lists.

        Returns
        -------
        data frame
            Columns ``round`` (from 1), ``seconds`` (from the beginning of the fit to the
            end of the round; NaN for a model that was read or unpickled, as model files
            hold no times, for rounds of a checkpoint and of folds), ``rows``
            (``"validation"`` or the name of a validation set, ``"train"``,
            ``"out_of_bag"`` or ``"cv"``), ``metric``, ``value``.  No rows if nothing was evaluated.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0])
        >>> params = {"n_estimators": 2, "min_samples_leaf": 1, "eval_metric": "mae"}
        >>> train(params, data).history_frame()[["round", "rows", "metric"]]
           round   rows metric
        0      1  train    mae
        1      2  train    mae
        """
        return make_frame(history_columns(self.model), backend)

    def plot_history(
        self,
        metric: str | None = None,
        ax: Axes | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> Axes:
        """Draw the learning curves of one metric; see :func:`hedgerow.plot.plot_history`."""
        return plot_history(self.model, metric, ax, path=path)


__all__ = ["CurveViews", "history_columns", "plot_history", "score_at"]
