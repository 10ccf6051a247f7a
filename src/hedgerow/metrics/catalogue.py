"""The metrics by name, with their tasks, descriptions and aliases.

``name@value`` sets the parameter of a metric: ``pinball@0.9``, ``error@0.3``,
``top_k_error@3``.  Otherwise the parameter is that of the training loss, or the
default.  Names of scikit-learn, LightGBM and XGBoost for the same metrics work, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hedgerow.errors import ParameterError, brief
from hedgerow.metrics import classes as c
from hedgerow.metrics import curves, scores
from hedgerow.metrics import regression as r
from hedgerow.metrics.base import Metric, MetricFunction, Task, built_in
from hedgerow.metrics.curves import Curve
from hedgerow.metrics.scores import Explained, Mean
from hedgerow.objectives import robust
from hedgerow.objectives.quantile import Quantile
from hedgerow.params import Interval

_NUMBERS: tuple[Task, ...] = ("regression",)
_CLASSES: tuple[Task, ...] = ("two classes", "classes")
_TWO: tuple[Task, ...] = ("two classes",)
_MANY: tuple[Task, ...] = ("classes",)

_SHARE = Interval(0.0, 1.0, low_open=True, high_open=True)
_DISTANCE = Interval(0.0, math.inf, low_open=True, high_open=True)
_POWER = Interval(1.0, 2.0, low_open=True, high_open=True)
_COUNT = Interval(1, 10_000, integer=True)

_AVERAGES = {
    "second": ("", _TWO),
    "macro": ("mean over classes", _CLASSES),
    "micro": ("of all rows together", _CLASSES),
    "weighted": ("mean by weight of classes", _CLASSES),
}


def _curve(name: str, summary: curves.Summary, by_weight: bool = False) -> MetricFunction:
    return partial(curves.one_against_rest, name, summary, by_weight)


def _table(summary: Callable[..., float]) -> MetricFunction:
    return partial(c.of_table, summary)


_BY_RAW = "`auc` of pairs by raw scores (Kleiman and Page 2019)"

_OF_NUMBERS: tuple[tuple[str, MetricFunction, str], ...] = (
    ("rmse", Mean(scores.squared_errors, math.sqrt), "root of the mean squared error"),
    ("mse", Mean(scores.squared_errors), "mean squared error"),
    ("mae", Mean(scores.absolute_errors), "mean absolute error"),
    ("r2", Explained(), "explained share of the variance"),
    ("mape", Mean(r.percentage_errors), "mean of abs(y - m) / abs(y)"),
    ("smape", Mean(r.symmetric_errors), "mean of 2 abs(y - m) / (abs(y) + abs(m))"),
    ("msle", Mean(r.squared_log_errors), "mean squared error of log(1 + y)"),
    ("rmsle", Mean(r.squared_log_errors, math.sqrt), "root of `msle`"),
    ("median_error", r.median_error, "median absolute error"),
    ("max_error", r.largest_error, "largest absolute error"),
    ("log_cosh", Mean(partial(r.loss_of, robust.LogCosh())), "mean of log cosh(y - m)"),
    ("poisson_deviance", Mean(r.poisson_deviances), "mean deviance, y from 0 on"),
    ("poisson", Mean(r.poisson_losses), "mean of m - y log m"),
    ("poisson_nloglik", Mean(r.poisson_likelihoods), "the same plus log(y!)"),
    ("gamma_deviance", Mean(r.gamma_deviances), "mean deviance, positive y"),
    ("gamma_nloglik", Mean(r.gamma_likelihoods), "mean of y / m + log m"),
    ("cross_entropy", Mean(c.cross_entropies), "for shares y and m from 0 to 1"),
    ("kldiv", Mean(c.divergences), "the same minus that of m = y"),
)  # fmt: skip
"""Metrics of numbers: name, score, description."""

_OF_CLASSES: tuple[tuple[str, tuple[Task, ...], MetricFunction, str], ...] = (
    ("logloss", _CLASSES, Mean(scores.log_losses), "mean of -log(p of the true class)"),
    ("accuracy", _CLASSES, Mean(scores.hits), "share of rows classified correctly"),
    ("error", _CLASSES, Mean(scores.misses), "share of rows classified wrongly"),
    ("brier", _CLASSES, Mean(c.brier_scores), "mean squared error of p"),
    ("hinge", _CLASSES, Mean(c.hinge_losses), "mean of max(0, 1 - margin)"),
    (
        "auc", _CLASSES, _curve("auc", Curve.area, True),
        "area under the ROC curve; classes by weight",
    ),
    (
        "average_precision", _CLASSES, _curve("average_precision", Curve.average_precision),
        "area under the PR curve, in steps",
    ),
    (
        "aucpr", _CLASSES, _curve("aucpr", Curve.precision_recall_area),
        "area under the PR curve, interpolated",
    ),
    (
        "ks", _CLASSES, _curve("ks", Curve.largest_gap),
        "largest distance of the classes' distributions",
    ),
    (
        "auc_ovr", _MANY, _curve("auc_ovr", Curve.area),
        "`auc` of each class against the rest, all alike",
    ),
    ("auc_mu", _MANY, curves.auc_mu, _BY_RAW),
    ("balanced_accuracy", _CLASSES, _table(c.balanced_accuracy), "mean recall"),
    ("mcc", _CLASSES, _table(c.matthews), "Matthews' correlation coefficient"),
    ("kappa", _CLASSES, _table(c.kappa), "Cohen's kappa"),
)  # fmt: skip
"""Metrics of classes: name, tasks, score, description."""

_LOWER = ("logloss", "error", "brier", "hinge")
_FROM_RAW = ("hinge", "auc_mu")


def _without_parameter() -> Iterator[Metric]:
    for name, score, what in _OF_NUMBERS:
        yield built_in(name, score, _NUMBERS, what, higher=name == "r2")
    for name, tasks, score, what in _OF_CLASSES:
        higher, from_raw = name not in _LOWER, name in _FROM_RAW
        yield built_in(name, score, tasks, what, higher=higher, from_raw=from_raw)
    for kind, what in (
        ("precision", "share of class 1 among rows predicted so"),
        ("recall", "share of class 1 that is predicted so"),
        ("f1", "harmonic mean of precision and recall"),
    ):
        for averaging, (mean, tasks) in _AVERAGES.items():
            name, text = (f"{kind}_{averaging}", f"`{kind}`, {mean}") if mean else (kind, what)
            score = _table(partial(c.class_score, kind, averaging))
            yield built_in(name, score, tasks, text, higher=True)


@dataclass(frozen=True, slots=True)
class WithParameter:
    """A metric with a parameter."""

    make: Callable[[Any], MetricFunction]  # the score for a value
    attribute: str  # of objectives that have the same parameter
    default: float
    allowed: Interval
    tasks: tuple[Task, ...]
    what: str
    higher: bool = False

    def metric(self, name: str, value: float) -> Metric:
        """Return the metric for a value of its parameter."""
        return built_in(name, self.make(value), self.tasks, self.what, higher=self.higher)


def _of_loss(
    make: Callable[..., Any], attribute: str, default: float, allowed: Interval, what: str
) -> WithParameter:
    """Return the mean of a loss whose raw score is the prediction."""
    return WithParameter(
        lambda value: Mean(partial(r.loss_of, make(**{attribute: value}))),
        attribute, default, allowed, _NUMBERS, what,
    )  # fmt: skip


def _mean(values: Callable[..., Any]) -> Callable[[float], Mean]:
    return lambda value: Mean(partial(values, value))


WITH_PARAMETER: dict[str, WithParameter] = {
    "pinball": _of_loss(Quantile, "level", 0.5, _SHARE, "mean pinball loss at a quantile"),
    "expectile": _of_loss(robust.Expectile, "expectile", 0.5, _SHARE, "mean asymmetric square"),
    "huber": _of_loss(robust.Huber, "delta", 1.0, _DISTANCE, "mean of Huber's loss at delta"),
    "pseudo_huber": _of_loss(
        robust.PseudoHuber, "delta", 1.0, _DISTANCE, "mean of the smooth loss at delta"
    ),
    "fair": _of_loss(robust.Fair, "delta", 1.0, _DISTANCE, "mean of Fair's loss at delta"),
    "tweedie_deviance": WithParameter(
        _mean(r.tweedie_deviances), "tweedie_power", 1.5, _POWER, _NUMBERS,
        "mean deviance of a power",
    ),
    "tweedie_nloglik": WithParameter(
        _mean(r.tweedie_likelihoods), "tweedie_power", 1.5, _POWER, _NUMBERS,
        "part of the likelihood that depends on m",
    ),
    "error_at": WithParameter(
        _mean(c.misses_at), "", 0.5, _SHARE, _TWO, "share of rows wrong at a threshold on p"
    ),
    "top_k_error": WithParameter(
        _mean(c.top_misses), "", 2, _COUNT, _MANY, "share of rows not among the k first classes"
    ),
    "top_k_accuracy": WithParameter(
        _mean(c.top_hits), "", 2, _COUNT, _MANY, "share of rows among the k first classes",
        higher=True,
    ),
    "calibration_error": WithParameter(
        lambda bins: partial(c.calibration_error, bins), "", 10, _COUNT, _CLASSES,
        "mean distance of p and share over so many bins",
    ),
}  # fmt: skip
"""Metrics with a parameter, by name."""

_ORDERED = "share of the pairs in right order"
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *_without_parameter(),
        *(entry.metric(name, entry.default) for name, entry in WITH_PARAMETER.items()),
        built_in(
            "concordance", partial(curves.concordance, 1.0), ("survival",), _ORDERED, higher=True
        ),
    )
}

ALIASES: dict[str, str] = {
    "l1": "mae",
    "mean_absolute_error": "mae",
    "l2": "mse",
    "mean_squared_error": "mse",
    "l2_root": "rmse",
    "root_mean_squared_error": "rmse",
    "mean_absolute_percentage_error": "mape",
    "mean_squared_log_error": "msle",
    "root_mean_squared_log_error": "rmsle",
    "median_absolute_error": "median_error",
    "quantile": "pinball",
    "mphe": "pseudo_huber",
    "poisson-nloglik": "poisson_nloglik",
    "gamma": "gamma_nloglik",
    "gamma-nloglik": "gamma_nloglik",
    "gamma-deviance": "gamma_deviance",
    "tweedie": "tweedie_nloglik",
    "tweedie-nloglik": "tweedie_nloglik",
    "xentropy": "cross_entropy",
    "kullback_leibler": "kldiv",
    "log_loss": "logloss",
    "binary_logloss": "logloss",
    "multi_logloss": "logloss",
    "mlogloss": "logloss",
    "binary_error": "error",
    "multi_error": "error",
    "merror": "error",
    "roc_auc": "auc",
    "roc_auc_ovr": "auc_ovr",
    "roc_auc_ovr_weighted": "auc",
    "brier_score": "brier",
    "matthews_corrcoef": "mcc",
    "cohen_kappa": "kappa",
    "ece": "calibration_error",
}
"""Aliases; names of scikit-learn, LightGBM and XGBoost for their own metrics have priority."""


def find_metric(name: str, parameter_of: Callable[[str], float | None]) -> Metric | None:
    """Return the metric for a name, with this name; None if there is none, or raise."""
    base, at, text = name.partition("@")
    base = ALIASES.get(base, base)
    if at and base == "error":
        base = "error_at"
    if base in WITH_PARAMETER:
        entry = WITH_PARAMETER[base]
        known = parameter_of(entry.attribute)
        value = entry.default if known is None else known
        if at:
            try:
                value = int(text) if entry.allowed.integer else float(text)
            except ValueError:
                value = math.nan
            if value not in entry.allowed:
                raise ParameterError(
                    f"eval_metric {brief(name)}: the value after @ must be {entry.allowed}; got "
                    f"{brief(text)}."
                )
        return entry.metric(name, value)
    if base not in METRICS:
        return None
    if at:
        some = ", ".join(f"'{known}@'" for known in WITH_PARAMETER)
        raise ParameterError(
            f"eval_metric {brief(name)}: {base!r} has no parameter; these have one: {some}, and "
            "the ranking metrics."
        )
    return replace(METRICS[base], name=name)
