"""Importances as bars with standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hedgerow.errors import DataTypeError, brief
from hedgerow.inspection.importance import Importances
from hedgerow.inspection.methods import Inspections
from hedgerow.plot import style as s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HATCHES = ("", "///", "\\\\\\", "...", "xxx", "---", "ooo", "|||")


def plot_importance(
    importances: Importances | Inspections, ax: Axes | None = None, *, most: int = 20
) -> Axes:
    """Plot importances as bars, the most important column on top.

    Parameters
    ----------
    importances : Importances, Booster or fitted estimator
        From :meth:`hedgerow.Booster.importance` or the functions of
        :mod:`hedgerow.inspection`; of a model, its importances by gain
        (``model.plot_importance(kind)`` draws others).
    ax : matplotlib Axes, optional
        Default: a new figure of suitable height.
    most : int, default=20
        Maximum number of columns.  One bar below them shows the sum of the others, if it is
        meaningful (not for permutations).

    Returns
    -------
    matplotlib.axes.Axes
        Whiskers are 1.96 standard errors, if the importances are estimates.  For several
        outputs the parts of a bar are stacked.

    Raises
    ------
    ParameterError
        If ``most`` is not a whole number >= 1.
    DataTypeError
        If ``importances`` is something else.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.datasets import load_pima
    >>> from hedgerow.plot import plot_importance
    >>> X, y, names, _ = load_pima()
    >>> booster = train({"n_estimators": 20}, Dataset(X, y, feature_names=names))
    >>> axes = plot_importance(booster.importance("gain"), most=3)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['Glucose', 'BMI', 'Age', '5 other columns']
    """
    most = s.checked_most(most)
    if isinstance(importances, Inspections):
        importances = importances.importance()
    if not isinstance(importances, Importances):
        raise DataTypeError(
            "importances must be the result of importance, a Booster or a fitted estimator; got "
            f"{brief(importances)}."
        )
    shown = importances.top(most)
    names = s.short_names(shown.names)
    values = shown.values.reshape(len(names), -1)
    n_others = len(importances.names) - len(names)
    if n_others > 0:
        sums_up = importances.kind != "permutation"
        names.append(f"{n_others} other column{'s' if n_others > 1 else ''}")
        every = importances.values.reshape(len(importances.names), -1)
        others = every[list(importances.order[most:])].sum(axis=0)
        values = np.vstack((values, others if sums_up else np.full(values.shape[1], np.nan)))
    ax = s.new_axes("plot_importance", ax, 6.8, 1.0 + 0.28 * len(names))
    start, outputs = np.zeros(len(values)), shown.output_names
    for output in range(values.shape[1]):
        style, label = output % s.MOST_LINES, None
        if outputs and output <= s.MOST_LINES:
            label = s.short(outputs[output], 20)
        if outputs and output == s.MOST_LINES:
            label = f"{values.shape[1] - s.MOST_LINES} others"
        ax.barh(
            np.arange(len(values)), values[:, output], left=start, height=0.66,
            color=s.COLOURS[style], hatch=_HATCHES[style], edgecolor="white", lw=0.5, label=label,
        )  # fmt: skip
        start = start + np.nan_to_num(values[:, output])
    total, ends = values.sum(axis=1), shown.total  # right ends of bars, or of whiskers
    if shown.errors is not None and not shown.output_names:
        reach = 1.96 * shown.errors.reshape(len(ends), -1)[:, 0]
        ax.errorbar(
            ends, np.arange(len(ends)), xerr=reach, fmt="none", ecolor=s.INK, elinewidth=1.0,
            capsize=2.5, zorder=3,
        )  # fmt: skip
        ends = np.asarray(ends + reach)
    ends = np.append(ends, total[len(ends) :])
    top, low = float(np.nanmax(np.append(ends, 0.0))), float(np.nanmin(np.append(total, 0.0)))
    span = (top - low) or 1.0
    ax.set_xlim(low - (0.02 * span if low < 0.0 else 0.0), top + 0.14 * span)
    for place in np.flatnonzero(~np.isnan(total)).tolist():
        ax.annotate(
            s.rounded(float(total[place])), (max(float(ends[place]), 0.0), place), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=s.SMALL, color=s.FAINT,
        )  # fmt: skip
    s.named_rows(ax, names)
    s.finish(ax, "x")
    ax.axvline(0.0, color=s.LINE, lw=0.8)
    s.name_axes(ax, importances.unit)
    if shown.output_names:
        s.literal_legend(ax, loc="lower right")
    return ax
