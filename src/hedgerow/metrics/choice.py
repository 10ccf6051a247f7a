"""What ``eval_metric`` may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hedgerow.errors import ParameterError
from hedgerow.metrics.base import MetricFunction

Reduce: TypeAlias = Literal["worst", "mean"] | None


@dataclass(frozen=True, slots=True, eq=False)
class GroupedMetric:
    """A metric of each group of the scored rows, as ``eval_metric``.

    Parameters
    ----------
    metric : str or callable
        What ``eval_metric`` takes: a name, a scorer, a function.
    groups : str, int, or array-like of shape (n_rows,)
        A column of X, by name or position; or the group of each row of ``X_val``, of X
        if no ``X_val`` is given (also where rows of X are set aside).  Missing values
        are a group.
    reduce : {"worst", "mean"} or None, default="worst"
        One number of those of all groups, each counting alike; None: a learning curve
        for each group, which early stopping cannot watch.

    Raises
    ------
    ParameterError
        If ``reduce`` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import HedgerowRegressor
    >>> from hedgerow.metrics import GroupedMetric
    >>> rng = np.random.default_rng(0)
    >>> X, group = rng.normal(size=(300, 2)), rng.choice(["a", "b"], size=300)
    >>> model = HedgerowRegressor(n_estimators=5, eval_metric=GroupedMetric("mae", group))
    >>> list(model.fit(X, X[:, 0]).evals_result_["train"])
    ['mae[worst of group]']
    """

    metric: str | Callable[..., Any]
    groups: Any
    reduce: Reduce = "worst"

    def __post_init__(self) -> None:
        if self.reduce not in ("worst", "mean", None):
            raise ParameterError(
                f"reduce of a GroupedMetric must be 'worst', 'mean' or None; got {self.reduce!r}."
            )
        if isinstance(self.metric, GroupedMetric):
            raise ParameterError("a GroupedMetric needs a metric of rows, not another of groups.")

    def __repr__(self) -> str:
        named = isinstance(self.groups, str | int)
        groups = repr(self.groups) if named else f"<{len(self.groups)} rows>"
        return f"GroupedMetric({self.metric!r}, groups={groups}, reduce={self.reduce!r})"


MetricChoice: TypeAlias = (
    str
    | MetricFunction
    | Callable[..., Any]
    | GroupedMetric
    | Sequence[str | MetricFunction | Callable[..., Any] | GroupedMetric]
    | None
)
"""What ``eval_metric`` may be."""
