"""Plots of a model's columns as methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hedgerow.inspection.methods import Inspections

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hedgerow.arrays import AnyArray
    from hedgerow.inspection.background import Columns, Kind
    from hedgerow.inspection.methods import AnyImportance
    from hedgerow.metrics import MetricChoice


class InspectionPictures(Inspections):
    """Inspection of a model's columns, with plots."""

    def plot_importance(
        self,
        kind: AnyImportance = "gain",
        X: Any = None,
        y: Any = None,
        ax: Axes | None = None,
        *,
        most: int = 20,
        metric: MetricChoice = None,
        n_repeats: int = 5,
        random_state: int = 0,
        sample_weight: Any = None,
    ) -> Axes:
        """Plot the importance of each column.

        ``ax`` and ``most`` are described in :func:`hedgerow.plot.plot_importance`, the other
        parameters in :meth:`importance`.
        """
        from hedgerow.plot.importance import plot_importance  # a fit draws nothing

        found = self.importance(
            kind, X, y, metric=metric, n_repeats=n_repeats, random_state=random_state,
            sample_weight=sample_weight,
        )  # fmt: skip
        return plot_importance(found, ax, most=most)

    def plot_partial_dependence(
        self,
        X: Any,
        columns: Columns = None,
        *,
        kind: Kind = "raw",
        most: int = 12,
        output: int | str | None = None,
        sample_weight: Any = None,
    ) -> AnyArray:
        """Plot partial dependence, one panel for each column; return the axes of the panels.

        ``most`` and ``output`` are described in :func:`hedgerow.plot.plot_partial_dependence`, the
        other parameters in :meth:`partial_dependence`.
        """
        from hedgerow.plot.effects import plot_partial_dependence

        found = self.partial_dependence(X, columns, kind=kind, sample_weight=sample_weight)
        return plot_partial_dependence(found, most=most, output=output)
