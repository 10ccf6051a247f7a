"""Learning curves of a model, as a table and as a plot; views of a booster as its methods.

Glossary
--------
curve    scores of one metric on some rows, one per round
best     the last round of a model trained with early stopping
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import FloatArray
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.inspection.background import inspected
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.model import ImportanceKind, Model, feature_importance
from hedgerow.peers import OF_IMPORTANCE, advised
from hedgerow.plot import picture, text
from hedgerow.plot import style as s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hedgerow.inspection.methods import Inspections

OF_FOLDS = "cv"
"""Name of the curves of folds."""


def _rounds(model: Model, rows: str, n_scores: int) -> list[int]:
    """Return the rounds of a curve; one of the folds may stand for several rounds of the model."""
    first = model.training.get("init_rounds", 0)
    stride = model.training.get("folds", {}).get("stride", 1.0) if rows == OF_FOLDS else 1.0
    return [first + round(stride * number) for number in range(1, n_scores + 1)]


def _sets(model: Model) -> dict[str, Mapping[str, Sequence[float]]]:
    """Return the curves of each set of rows: validation sets first, in the user's order."""
    history = model.training.get("history", {})
    order = [*model.training.get("validation_sets", ()), "validation", "train", "out_of_bag"]
    place = {rows: place for place, rows in enumerate(dict.fromkeys(order))}
    return {
        rows: history[rows]
        for rows in sorted(history, key=lambda rows: place.get(rows, len(place)))
    }


def _history(model: Model) -> list[tuple[str, str, Sequence[float]]]:
    """Return rows, metric and scores of each curve, with the metric of early stopping first."""
    sets = _sets(model)
    watched = model.training.get("watched")
    found = [
        (rows, metric, scores)
        for rows, curves in sets.items()
        for metric, scores in sorted(curves.items())  # files store them by name
    ]
    return sorted(found, key=lambda curve: curve[1] != watched)


def plot_history(
    model: Model | Inspections,
    metric: str | None = None,
    ax: Axes | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """Draw the learning curves of one metric with matplotlib.

    Parameters
    ----------
    model : Booster, fitted estimator or Model
    metric : str, optional
        Name of a metric; default: the first, which early stopping uses.
    ax : matplotlib Axes, optional
        Axes to draw on; default: a new figure.
    path : str or path-like, optional
        Also write the figure to this file, in the format of its suffix.

    Returns
    -------
    matplotlib.axes.Axes
        Axes with a mark at the best round, if the fit used early stopping.

    Raises
    ------
    ParameterError
        If nothing was evaluated, or the metric was not.
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
    model = inspected(model).model
    history = _history(model)
    known = list(dict.fromkeys(name for _, name, _ in history))
    if not known:
        raise ParameterError(
            "the model has no learning curves: nothing was evaluated. Train it with validation "
            "rows, early_stopping=True, or an eval_metric."
        )
    chosen = known[0] if metric is None else metric
    if not is_one_of(chosen, known):
        raise ParameterError(
            f"metric {brief(chosen)} was not evaluated, but {', '.join(map(repr, known))}."
            f"{did_you_mean(chosen, known)}"
        )
    curves = {rows: scores for rows, name, scores in history if name == chosen}
    ax = s.new_axes("plot_history", ax, 7.0, 4.2)
    for line, (rows, scores) in enumerate(curves.items()):
        rounds = _rounds(model, rows, len(scores))
        k = line % s.MOST_LINES
        label = rows.replace("_", " ")
        ax.plot(rounds, scores, label=label, color=s.COLOURS[k], ls=s.DASHES[k], lw=1.8)
    _mark_best(ax, model, chosen, *next(iter(curves.items())))
    s.name_axes(ax, "round", chosen)
    s.finish(ax, "y")
    s.literal_legend(ax)
    if path is not None:
        ax.figure.canvas.print_figure(os.fspath(path))
    return ax


def _mark_best(ax: Axes, model: Model, metric: str, rows: str, scores: Sequence[float]) -> None:
    best = model.training.get("best_round")
    if best is None:
        return
    line = ax.axvline(best, color=s.FAINT, lw=0.9, ls=(0, (2, 2)), zorder=1)
    if "folds" in model.training:  # the curves are from the folds, not from the final model
        line.set_label(f"on all rows: {best} rounds")
        return
    score = score_at(model, rows, metric, scores, best)
    if score is None:
        line.set_label(f"best: round {best}")
        return
    # The text is in the legend, which covers no curve.
    label = f"best: round {best}, {score:.5g}"
    ax.plot([best], [score], "o", ms=7, mfc="white", mec=s.INK, mew=1.6, zorder=4, label=label)


def score_at(
    model: Model, rows: str, metric: str, scores: Sequence[float], number: int
) -> float | None:
    """Return the score of a curve after round ``number`` of the model; None if unknown."""
    place = number - model.training.get("init_rounds", 0) - 1
    if place >= 0:
        return scores[place]
    known: float | None = model.training.get("init_scores", {}).get(rows, {}).get(metric)
    return known if place == -1 else None


class ModelViews(BoosterPart):
    """Mixin of the booster: its trees as tables, text and pictures; its training, with curves."""

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return all nodes of all trees as a data frame, one row for each node.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None for a dict of
            lists.

        Returns
        -------
        data frame
            Columns of :func:`hedgerow.plot.forest_frame`; levels of mixed types are text in
            libraries with typed columns.
        """
        columns = {
            name: column if isinstance(column, list) else column.tolist()
            for name, column in text.forest_frame(self.model).items()
        }
        return make_frame(columns, backend)

    to_text = text.tree_text
    to_rules = text.tree_rules
    plot_tree = picture.plot_tree

    @advised(OF_IMPORTANCE)
    def feature_importance(self, kind: ImportanceKind = "gain") -> FloatArray:
        """Return the importance of each feature, summed over all splits.

        The importance of a target statistic of two columns is divided equally between them.

        Parameters
        ----------
        kind : {"gain", "split", "cover"}, default="gain"
            ``"gain"``: loss reduction.  ``"split"``: number of splits.  ``"cover"``: sum of
            hessians of the rows in the split nodes.

        Returns
        -------
        float64, shape (n_features,)
        """
        return feature_importance(self.model, kind)

    @property
    def best_iteration(self) -> int | None:
        """Round with the best validation score, the last round of the model.

        After continued training, rounds count from the first round of the initial model, and
        the best round may be the last one of that model.
        With folds, it counts the rounds of the final model, which may be more than the rounds of
        the folds.  None if the model was trained without early stopping.
        """
        best: int | None = self.model.training.get("best_round")
        return best

    @property
    def stopped_by(self) -> str | None:
        """The reason for the end of the training.

        ``"rounds"``, ``"early_stopping"``, ``"callback"``, ``"time_budget"`` or
        ``"interrupt"``; None for a model of an older version.
        """
        reason: str | None = self.model.training.get("stopped_by")
        return reason

    @property
    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Learning curves: ``evals_result["validation"]["loss"][i]`` after round i + 1.

        Named validation sets have their names as keys; early stopping uses the first.
        Training rows are ``"train"``, with ``train_scores`` or if there were no validation rows.
        The key is ``"cv"`` if folds decided early stopping; a round of the folds may stand for
        several rounds of the model, as in ``history_frame``.  The dict is empty if nothing was
        evaluated.
        """
        return {
            rows: {name: list(scores) for name, scores in curves.items()}
            for rows, curves in _sets(self.model).items()
        }

    def history_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return the scores of all rounds as a data frame, one row for each score.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None returns a dict of
            lists.

        Returns
        -------
        data frame
            Columns ``round`` (from 1), ``seconds`` (from the beginning of the fit to the
            end of the round; NaN for a loaded or unpickled model, because model files
            contain no times, and for rounds of a checkpoint and of folds), ``rows``
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
        columns: dict[str, list[Any]] = {
            name: [] for name in ("round", "seconds", "rows", "metric", "value")
        }
        for rows, metric, scores in _history(self.model):
            n, known = len(scores), () if rows == OF_FOLDS else self.model.seconds
            columns["round"] += _rounds(self.model, rows, n)
            columns["seconds"] += [*known, *(n * [math.nan])][:n]
            columns["rows"] += n * [rows]
            columns["metric"] += n * [metric]
            columns["value"] += scores
        return make_frame(columns, backend)

    plot_history = plot_history
