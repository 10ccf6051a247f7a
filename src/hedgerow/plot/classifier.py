"""Calibration of predicted probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import FloatArray, distinct
from hedgerow.boosting.row_data.checks import check_weight
from hedgerow.errors import DataError, ParameterError
from hedgerow.plot import style as s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Z = 1.96


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted and observed shares of a class, in bins with about equally many rows."""

    predicted: FloatArray  # mean probability of the rows of a bin
    observed: FloatArray  # share of these rows that are of the class
    low: FloatArray
    high: FloatArray  # ends of the 95% interval of the observed share
    rows: Any
    weights: FloatArray  # of the rows

    @property
    def error(self) -> float:
        """Mean difference of predicted and observed shares over the rows (ECE)."""
        gaps = np.abs(self.predicted - self.observed)
        return float(np.average(gaps, weights=self.weights))


def calibration_of(
    is_class: Any, probability: Any, n_bins: int = 10, sample_weight: Any = None
) -> Calibration:
    """Compare probabilities of a class with the observed shares in at most ``n_bins`` bins."""
    truth, p = np.asarray(is_class, dtype=np.float64), np.asarray(probability, dtype=np.float64)
    if len(truth) != len(p) or len(p) == 0:
        raise DataError(f"there are {len(truth)} targets for {len(p)} probabilities.")
    weight = check_weight(sample_weight, len(p))
    weight = np.ones(len(p)) if weight is None else weight
    truth, p, weight = truth[weight > 0.0], p[weight > 0.0], weight[weight > 0.0]
    inner = np.quantile(p, np.linspace(0, 1, s.checked_most(n_bins, "n_bins") + 1)[1:-1])
    place = np.searchsorted(distinct(inner), p, side="left")
    rows = np.bincount(place)
    used = rows > 0
    mass = np.bincount(place, weights=weight)[used].astype(np.float64)
    predicted = np.bincount(place, weights=weight * p)[used] / mass
    observed = np.bincount(place, weights=weight * truth)[used] / mass
    counted = mass**2 / np.bincount(place, weights=weight**2)[used]
    low, high = wilson_interval(observed, counted)
    return Calibration(predicted, observed, low, high, rows[used], mass)


def wilson_interval(share: FloatArray, rows: Any) -> tuple[FloatArray, FloatArray]:
    """Return the 95% interval of a share of some rows (Wilson 1927)."""
    n, square = np.asarray(rows, dtype=np.float64), _Z**2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = _Z / (1 + square / n) * np.sqrt(share * (1 - share) / n + square / (4 * n**2))
    return middle - half, middle + half


def plot_calibration(
    y: Any,
    probability: Any,
    classes: Sequence[Any] | None = None,
    ax: Axes | None = None,
    *,
    n_bins: int = 10,
    sample_weight: Any = None,
) -> Axes:
    """Draw observed shares against predicted probabilities.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Classes.
    probability : array-like of shape (n_rows,) or (n_rows, n_classes)
        Probability of the second class, or of each class.
    classes : sequence, optional
        Labels in the order of the probabilities; default: the labels in y, sorted.
    ax : matplotlib Axes, optional
    n_bins : int, default=10
        Maximum number of points, each of about equally many rows.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows in the shares and in the distribution.

    Returns
    -------
    matplotlib.axes.Axes
        Whiskers are 95% intervals; with more than two classes each class has a line, eight at
        most.  Bars at the bottom show the distribution of the probabilities.

    Raises
    ------
    DataError, ParameterError
        If the shapes do not fit.
    """
    table = np.asarray(probability, dtype=np.float64)
    labels = np.asarray(y)
    known = list(distinct(labels)) if classes is None else list(classes)
    if table.ndim == 1:
        table = np.column_stack((1.0 - table, table))
    if table.shape[1] != len(known):
        raise ParameterError(
            f"there are {table.shape[1]} columns of probabilities for {len(known)} classes: "
            "pass classes, the labels in the order of the columns."
        )
    shown = [1] if len(known) == 2 else list(range(min(len(known), s.MOST_LINES)))
    ax = s.new_axes("plot_calibration", ax, 4.4, 4.2)
    ax.plot([0, 1], [0, 1], color=s.LINE, lw=0.9, ls=(0, (2, 2)), zorder=1)
    for line, k in enumerate(shown):
        found = calibration_of(labels == known[k], table[:, k], n_bins, sample_weight)
        label = f"{s.short(known[k], 20)}: off by {found.error:.3f}"
        spans = [found.observed - found.low, found.high - found.observed]
        ax.errorbar(
            found.predicted, found.observed, yerr=np.maximum(spans, 0.0), color=s.COLOURS[line],
            ls=s.DASHES[line], marker=s.MARKS[line], ms=4.5, lw=1.2, elinewidth=0.8, capsize=2,
            label=label, zorder=3,
        )  # fmt: skip
    mass = None if sample_weight is None else np.repeat(np.asarray(sample_weight), len(shown))
    drawn = table[:, shown].reshape(-1)
    counts, edges = np.histogram(drawn, bins=20, range=(0.0, 1.0), weights=mass)
    heights = 0.12 * counts / counts.max()
    ax.bar(edges[:-1], heights, np.diff(edges), align="edge", color=s.PALE, lw=0, zorder=0.5)
    s.finish(ax, "y")
    ax.set(xlim=(-0.02, 1.02), ylim=(0.0, 1.02), aspect="equal")
    s.name_axes(ax, "predicted probability", "share that came true")
    s.literal_legend(ax, loc="upper left")
    return ax
