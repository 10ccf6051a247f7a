"""The values of ``eval_metric``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hedgerow.argument_types import is_one_of
from hedgerow.errors import ParameterError, brief
from hedgerow.metrics.base import MetricFunction

Reduce: TypeAlias = Literal["worst", "mean"] | None


@dataclass(frozen=True, slots=True, eq=False)
class GroupedMetric:
    """A metric for each group of the scored rows, as ``eval_metric``.

    Parameters
    ----------
    metric : str or callable
        A value of ``eval_metric``: a name, a scorer or a function.
    groups : str, int, or array-like of shape (n_rows,)
        A column of X, by name or position; or the group of each row of ``X_val``, or of X
        without ``X_val`` (also if rows of X are held out).  Missing values
        are a group.
    reduce : {"worst", "mean"} or None, default="worst"
        Reduces the scores of the groups to one number, unweighted; None: one learning curve
        per group, which early stopping cannot use.

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
        if self.reduce is not None and not is_one_of(self.reduce, ("worst", "mean")):
            raise ParameterError(
                "reduce of a GroupedMetric must be 'worst', 'mean' or None; got "
                f"{brief(self.reduce)}."
            )
        if isinstance(self.metric, GroupedMetric):
            raise ParameterError(
                "a GroupedMetric needs a metric of rows, not another GroupedMetric."
            )

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
"""The values of ``eval_metric``."""
