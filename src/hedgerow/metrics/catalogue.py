"""The metrics by name, with their tasks, descriptions and aliases.

``name@value`` sets the parameter of a metric: ``pinball@0.9``, ``error@0.3``,
``top_k_error@3``.  Otherwise the parameter is that of the training loss, or the
default.  Names of scikit-learn, LightGBM and XGBoost for the same metrics work, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from hedgerow.errors import ParameterError, brief
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.metrics import confusion, curves, probability, regression, scores
from hedgerow.metrics.base import Metric, MetricFunction, OfCountedRows, Task
from hedgerow.metrics.confusion import ClassScores, OfTable
from hedgerow.metrics.curves import AucMu, Curve, OneAgainstOne, OneAgainstRest
from hedgerow.metrics.regression import LossOf, MeanOf, RowValues, Skill
from hedgerow.metrics.scores import Explained, Mean, RowSums
from hedgerow.metrics.survival import Concordance
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

Maker: TypeAlias = Callable[[float], "RowValues | MetricFunction"]


def _mean(
    name: str,
    values: RowValues,
    tasks: tuple[Task, ...],
    what: str,
    *,
    higher: bool = False,
    from_raw: bool = False,
    then: Callable[[float], float] = float,
) -> Metric:
    """Return the metric for a mean over rows, transformed by ``then``."""
    sums = Mean(values, then)
    function = OfCountedRows(name, MeanOf(values, then), from_raw)
    return Metric(name, function, higher, tasks, from_raw, sums, what, built_in=True)


def _of_all_rows(
    name: str,
    function: MetricFunction,
    tasks: tuple[Task, ...],
    what: str,
    *,
    higher: bool = False,
    from_raw: bool = False,
    sums: RowSums | None = None,
) -> Metric:
    """Return the metric for a score that needs all rows at once, unless it has ``sums``."""
    counted = OfCountedRows(name, function, from_raw)
    return Metric(name, counted, higher, tasks, from_raw, sums, what, built_in=True)


def _of_numbers() -> Iterator[Metric]:
    def mean(name: str, values: RowValues, what: str) -> Metric:
        return _mean(name, values, _NUMBERS, what)

    yield _mean(
        "rmse", scores.squared_errors, _NUMBERS, "root of the mean squared error", then=math.sqrt
    )
    yield mean("mse", scores.squared_errors, "mean squared error")
    yield mean("mae", scores.absolute_errors, "mean absolute error")
    yield _of_all_rows(
        "r2", scores.r2, _NUMBERS, "explained share of the variance", higher=True,
        sums=Explained(),
    )  # fmt: skip
    yield mean("mape", regression.percentage_errors, "mean of abs(y - m) / abs(y)")
    yield mean(
        "smape", regression.symmetric_percentage_errors, "mean of 2 abs(y - m) / (abs(y) + abs(m))"
    )
    yield mean("msle", regression.squared_log_errors, "mean squared error of log(1 + y)")
    yield _mean("rmsle", regression.squared_log_errors, _NUMBERS, "root of `msle`", then=math.sqrt)
    yield _of_all_rows("median_error", regression.median_error, _NUMBERS, "median absolute error")
    yield _of_all_rows("max_error", regression.largest_error, _NUMBERS, "largest absolute error")
    yield _of_all_rows(
        "explained_variance", regression.explained_variance, _NUMBERS,
        "1 minus the variance of the errors over that of y", higher=True,
    )  # fmt: skip
    yield mean("log_cosh", LossOf(robust.LogCosh()), "mean of log cosh(y - m)")
    yield mean("poisson_deviance", regression.poisson_deviances, "mean deviance, y from 0 on")
    yield mean("poisson", regression.poisson_losses, "mean of m - y log m")
    yield mean("poisson_nloglik", regression.poisson_likelihoods, "the same plus log(y!)")
    yield mean("gamma_deviance", regression.gamma_deviances, "mean deviance, positive y")
    yield mean("gamma_nloglik", regression.gamma_likelihoods, "mean of y / m + log m")
    yield mean("cross_entropy", probability.cross_entropies, "for shares y and m from 0 to 1")
    yield mean("kldiv", probability.divergences, "the same minus that of m = y")
    for name, values, center, what in (
        ("d2_absolute_error", scores.absolute_errors, regression.QuantileOf(0.5), "`mae`"),
        ("d2_poisson", regression.poisson_deviances, weighted_mean, "`poisson_deviance`"),
        ("d2_gamma", regression.gamma_deviances, weighted_mean, "`gamma_deviance`"),
    ):
        skill, text = Skill(values, center), f"1 minus {what} over that of the best constant"
        yield _of_all_rows(name, skill, _NUMBERS, text, higher=True)


def _of_classes() -> Iterator[Metric]:
    yield _mean("logloss", scores.log_losses, _CLASSES, "mean of -log(p of the true class)")
    yield _mean(
        "accuracy", scores.hits, _CLASSES, "share of rows classified correctly", higher=True
    )
    yield _mean("error", scores.misses, _CLASSES, "share of rows classified wrongly")
    yield _mean("brier", probability.brier_scores, _CLASSES, "mean squared error of p")
    yield _mean(
        "hinge", probability.hinge_losses, _CLASSES, "mean of max(0, 1 - margin)", from_raw=True
    )

    def curve(name: str, summary: curves.Summary, what: str, by_weight: bool = False) -> Metric:
        function = OneAgainstRest(name, summary, by_weight)
        return _of_all_rows(name, function, _CLASSES, what, higher=True)

    yield curve("auc", Curve.area, "area under the ROC curve; classes by weight", True)
    yield curve("average_precision", Curve.average_precision, "area under the PR curve, in steps")
    yield curve("aucpr", Curve.precision_recall_area, "area under the PR curve, interpolated")
    yield curve("ks", Curve.largest_gap, "largest distance of the classes' distributions")
    yield curve("gini", curves.gini_of, "2 auc - 1; classes alike")
    for name, one, by_weight, what in (
        ("auc_ovr", OneAgainstRest, False, "`auc` of each class against the rest, all alike"),
        ("auc_ovr_weighted", OneAgainstRest, True, "the same, classes by weight"),
    ):
        yield _of_all_rows(name, one(name, Curve.area, by_weight), _MANY, what, higher=True)
    for name, by_weight, what in (
        ("auc_ovo", False, "`auc` of pairs of classes, all alike (Hand and Till 2001)"),
        ("auc_ovo_weighted", True, "the same, pairs by weight"),
    ):
        yield _of_all_rows(name, OneAgainstOne(name, by_weight), _MANY, what, higher=True)
    yield _of_all_rows(
        "auc_mu", AucMu(), _MANY, "`auc` of pairs by raw scores (Kleiman and Page 2019)",
        higher=True, from_raw=True,
    )  # fmt: skip

    def table(
        name: str, summary: Callable[..., float], what: str, tasks: tuple[Task, ...]
    ) -> Metric:
        return _of_all_rows(name, OfTable(summary), tasks, what, higher=True)

    yield table("balanced_accuracy", confusion.balanced_accuracy, "mean recall", _CLASSES)
    yield table("mcc", confusion.matthews, "Matthews' correlation coefficient", _CLASSES)
    yield table("kappa", confusion.kappa, "Cohen's kappa", _CLASSES)
    for kind, what in (
        ("precision", "share of class 1 among rows predicted so"),
        ("recall", "share of class 1 that is predicted so"),
        ("f1", "harmonic mean of precision and recall"),
    ):
        yield table(kind, ClassScores(kind, "second"), what, _TWO)  # type: ignore[arg-type]
        for averaging, mean in (
            ("macro", "mean over classes"),
            ("micro", "of all rows together"),
            ("weighted", "mean by weight of classes"),
        ):
            scorer = ClassScores(kind, averaging)  # type: ignore[arg-type]
            yield table(f"{kind}_{averaging}", scorer, f"`{kind}`, {mean}", _CLASSES)


@dataclass(frozen=True, slots=True)
class WithParameter:
    """A metric with a parameter.

    Attributes
    ----------
    make : callable
        ``make(value)`` returns the values of rows or, if not ``by_row``, the function itself.
    attribute : str
        Attribute of objectives that has the same parameter.
    """

    make: Maker
    attribute: str
    default: float
    allowed: Interval
    tasks: tuple[Task, ...]
    what: str
    higher: bool = False
    by_row: bool = True

    def metric(self, name: str, value: float) -> Metric:
        """Return the metric for a value of its parameter."""
        if self.by_row:
            return _mean(name, self.make(value), self.tasks, self.what, higher=self.higher)  # type: ignore[arg-type]
        return _of_all_rows(name, self.make(value), self.tasks, self.what, higher=self.higher)  # type: ignore[arg-type]


WITH_PARAMETER: dict[str, WithParameter] = {
    "pinball": WithParameter(
        lambda level: LossOf(Quantile(level=level)), "level", 0.5, _SHARE, _NUMBERS,
        "mean pinball loss at a quantile",
    ),
    "expectile": WithParameter(
        lambda level: LossOf(robust.Expectile(expectile=level)), "expectile", 0.5, _SHARE, _NUMBERS,
        "mean asymmetric square",
    ),
    "huber": WithParameter(
        lambda delta: LossOf(robust.Huber(delta=delta)), "delta", 1.0, _DISTANCE, _NUMBERS,
        "mean of Huber's loss at delta",
    ),
    "pseudo_huber": WithParameter(
        lambda delta: LossOf(robust.PseudoHuber(delta=delta)), "delta", 1.0, _DISTANCE, _NUMBERS,
        "mean of the smooth loss at delta",
    ),
    "fair": WithParameter(
        lambda delta: LossOf(robust.Fair(delta=delta)), "delta", 1.0, _DISTANCE, _NUMBERS,
        "mean of Fair's loss at delta",
    ),
    "tweedie_deviance": WithParameter(
        regression.TweedieDeviances, "tweedie_power", 1.5, _POWER, _NUMBERS,
        "mean deviance of a power",
    ),
    "tweedie_nloglik": WithParameter(
        regression.TweedieLikelihoods, "tweedie_power", 1.5, _POWER, _NUMBERS,
        "part of the likelihood that depends on m",
    ),
    "d2_pinball": WithParameter(
        regression.skill_of_pinball, "level", 0.5, _SHARE, _NUMBERS,
        "1 minus `pinball` over that of the best constant", higher=True, by_row=False,
    ),
    "d2_tweedie": WithParameter(
        regression.skill_of_tweedie, "tweedie_power", 1.5, _POWER, _NUMBERS,
        "1 minus `tweedie_deviance` over that of the mean", higher=True, by_row=False,
    ),
    "error_at": WithParameter(
        probability.MissesAt, "", 0.5, _SHARE, _TWO, "share of rows wrong at a threshold on p"
    ),
    "top_k_error": WithParameter(
        probability.TopMisses, "", 2, _COUNT, _MANY, "share of rows not among the k first classes"
    ),
    "top_k_accuracy": WithParameter(
        probability.TopHits, "", 2, _COUNT, _MANY, "share of rows among the k first classes",
        higher=True,
    ),
    "calibration_error": WithParameter(
        probability.CalibrationError, "", 10, _COUNT, _CLASSES,
        "mean distance of p and share over so many bins", by_row=False,
    ),
}  # fmt: skip
"""Metrics with a parameter, by name."""

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *_of_numbers(),
        *_of_classes(),
        *(entry.metric(name, entry.default) for name, entry in WITH_PARAMETER.items()),
        _of_all_rows(
            "concordance", Concordance(), ("survival",), "share of the pairs in right order",
            higher=True,
        ),
    )
}  # fmt: skip

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
    "roc_auc_ovr_weighted": "auc_ovr_weighted",
    "roc_auc_ovo": "auc_ovo",
    "roc_auc_ovo_weighted": "auc_ovo_weighted",
    "brier_score": "brier",
    "matthews_corrcoef": "mcc",
    "cohen_kappa": "kappa",
    "ece": "calibration_error",
}
"""Aliases; names of scikit-learn, LightGBM and XGBoost for their own metrics have priority."""


def find_metric(name: str, parameter_of: Callable[[str], float | None]) -> Metric | None:
    """Return the metric for a name, with this name; None if there is none.

    Raise ``ParameterError`` if the value is not a number, is out of range, or the metric
    has no parameter.
    """
    base, at, text = name.partition("@")
    base = ALIASES.get(base, base)
    if at and base == "error":
        base = "error_at"
    if base in WITH_PARAMETER:
        entry = WITH_PARAMETER[base]
        known = parameter_of(entry.attribute)
        value = _value(name, text, entry) if at else entry.default if known is None else known
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


def _value(name: str, text: str, entry: WithParameter) -> float:
    try:
        value: float = int(text) if entry.allowed.integer else float(text)
    except ValueError:
        value = math.nan
    if value not in entry.allowed:
        raise ParameterError(
            f"eval_metric {brief(name)}: the value after @ must be {entry.allowed}; got "
            f"{brief(text)}."
        )
    return value
