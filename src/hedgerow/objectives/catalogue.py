"""Objectives by name; the module of an objective is imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hedgerow.objectives.base import Objective

OBJECTIVES: dict[str, str] = {
    "squared_error": "robust:SquaredError",
    "absolute_error": "quantile:AbsoluteError",
    "quantile": "quantile:Quantile",
    "logistic": "classes:Logistic",
    "exponential": "classes:Exponential",
    "softmax": "classes:Softmax",
    "huber": "robust:Huber",
    "pseudo_huber": "robust:PseudoHuber",
    "fair": "robust:Fair",
    "log_cosh": "robust:LogCosh",
    "expectile": "robust:Expectile",
    "mape": "robust:AbsolutePercentage",
    "poisson": "positive:Poisson",
    "gamma": "positive:Gamma",
    "tweedie": "positive:Tweedie",
    "squared_log_error": "positive:SquaredLogError",
    "normal": "distributions.losses:NormalLoss",
    "log_normal": "distributions.losses:LogNormalLoss",
    "cross_entropy": "classes:CrossEntropy",
    "focal": "classes:Focal",
    "hinge": "classes:Hinge",
    "one_vs_all": "classes:OneVsAll",
    "cox": "survival.cox:Cox",
    "aft": "survival.aft:AcceleratedFailureTime",
    "lambdarank": "ranking.losses:LambdaRank",
    "rank_map": "ranking.losses:RankMap",
    "rank_pairwise": "ranking.losses:RankPairwise",
    "rank_xendcg": "ranking.losses:RankCrossEntropy",
}
"""Module and class of each objective."""

RANKING: tuple[str, ...] = ("lambdarank", "rank_map", "rank_pairwise", "rank_xendcg")
"""Names of the ranking objectives."""

SURVIVAL: tuple[str, ...] = ("cox", "aft")
"""Names of the objectives of times to an event."""

DISTRIBUTIONAL: tuple[str, ...] = ("poisson", "normal", "log_normal")
"""Names of the objectives that learn a distribution."""


CUSTOM = "custom"
"""Name of the losses of users."""

Task = Literal["regression", "two classes", "classes"]
"""What a loss of a user is for."""

AnyTask = Task | Literal["labels", "quantiles", "survival", "ranking"]
"""What a loss is for."""


def task_of(objective: Objective) -> AnyTask:
    """Return the kind of target of an objective."""
    known: AnyTask = getattr(objective, "task", "regression")
    return known


def scored_as(objective: Objective) -> AnyTask:
    """Return the kind of predictions for metrics; few metrics take several numbers per row."""
    known: AnyTask = getattr(objective, "scored_as", task_of(objective))
    return known


def objective_class(name: str) -> Callable[..., Objective]:
    """Return the class of an objective."""
    # Importing all made ``from hedgerow import HedgerowClassifier`` 40 ms slower.
    module, attribute = OBJECTIVES[name].split(":")
    found: Callable[..., Objective] = getattr(
        import_module(f"hedgerow.objectives.{module}"), attribute
    )
    return found
