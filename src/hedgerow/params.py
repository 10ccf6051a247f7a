"""Training parameters as frozen, validated values.

This module validates parameters once.  A value out of range, an unknown name, or a
value without effect in combination with another raises :class:`ParameterError`.  The
message names the parameter, its value and the allowed values.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from hedgerow.argument_types import check_bool, is_one_of
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.peer_words import choice_hint
from hedgerow.schedules import is_number, is_schedule, rate_at, read_rate

PredictionKind = Literal["value", "raw", "probability", "leaf"]
GrowPolicy = Literal["leafwise", "depthwise", "symmetric"]
TreeMethod = Literal["hist", "approx", "exact"]
Sketch = Literal["global", "local"]
Device = Literal["cpu", "cuda", "auto"]
Boosting = Literal["gbdt", "dart", "rf"]
Sampling = Literal["uniform", "goss", "mvs"]
BundleOrder = Literal["degree", "count"]
BundleConflicts = Literal["max", "sum"]
MultiStrategy = Literal["auto", "one_output_per_tree", "multi_output_tree"]
LeafEstimation = Literal["auto", "newton", "gradient", "line_search"]
TargetStatistics: TypeAlias = "bool | Literal['auto']"
FeatureCrosses: TypeAlias = "Sequence[tuple[str | int, str | int, str]] | Literal['auto'] | None"
MonotoneConstraints: TypeAlias = "Mapping[str | int, int | str] | Sequence[int | str] | None"
InteractionConstraints: TypeAlias = (
    "Sequence[Sequence[str | int]] | Literal['pairwise', 'no_interactions'] | None"
)
ByFeature: TypeAlias = "Mapping[str | int, float] | Sequence[float] | None"
ForcedBins: TypeAlias = "Mapping[str | int, Sequence[float]] | None"
ForcedSplits: TypeAlias = "Mapping[str, Any] | str | os.PathLike[str] | None"
_DIRECTIONS = {"increasing": 1, "decreasing": -1}
CHECKPOINT_SECONDS = 10.0
"""Default time between two writes of a checkpoint.  A fit that is killed loses at most about
this much work.  A write costs two flushes of the disk, which take far less time."""

FIRST_ORDER = ("gradient", "line_search")
"""Values of ``leaf_estimation`` whose trees fit the negative gradient by least squares."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Range of allowed numbers, from ``low`` to ``high``; ends are included unless open."""

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False
    integer: bool = False

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool):
            return False
        if isinstance(value, (int, float)):  # the check against ``numbers`` below is slow
            if self.integer and not isinstance(value, int):
                return False
        elif not isinstance(value, numbers.Real) or (
            self.integer and not isinstance(value, numbers.Integral)
        ):
            return False
        try:
            number = float(value)
        except OverflowError:  # an integer of hundreds of digits
            return False
        above = number > self.low if self.low_open else number >= self.low
        below = number < self.high if self.high_open else number <= self.high
        return above and below

    def __str__(self) -> str:
        kind = "an integer" if self.integer else "a number"
        left = "greater than" if self.low_open else "at least"
        right = "less than" if self.high_open else "at most"
        text = f"{kind} {left} {self.low:g}"
        return text if math.isinf(self.high) else f"{text} and {right} {self.high:g}"


@dataclass(frozen=True, slots=True)
class BoostParams:
    """Validated parameters of tree growing and boosting.

    Names and meanings are those of :class:`hedgerow.HedgerowClassifier`.  Parameters that
    depend on the data are already chosen.  Parameters that name columns
    keep the user's form until the table is known
    (:func:`hedgerow.growing.limits.constraints.resolve_constraints`).  A sequence of
    learning rates becomes a tuple.
    """

    n_estimators: int = 100
    learning_rate: Any = 0.1
    max_leaves: int | None = 31
    max_depth: int | None = None
    min_samples_leaf: int = 20
    min_child_weight: float = 1e-3
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    gamma: float = 0.0
    max_delta_step: float = 0.0
    subsample: float = 1.0
    sampling: Sampling = "uniform"
    goss_top_rate: float = 0.2
    goss_other_rate: float = 0.1
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    colsample_bynode: float = 1.0
    max_bins: int = 255
    grow_policy: GrowPolicy = "leafwise"
    tree_method: TreeMethod = "hist"
    sketch: Sketch = "global"
    sketch_eps: float = 0.03
    boosting: Boosting = "gbdt"
    leaf_estimation: LeafEstimation = "auto"
    multi_strategy: MultiStrategy = "auto"
    drop_rate: float = 0.1
    skip_drop: float = 0.5
    max_drop: int = 50
    num_parallel_tree: int = 1
    oob_score: bool = False
    zero_as_missing: bool = False
    bundle_features: bool | Literal["auto"] = "auto"
    bundle_order: BundleOrder = "count"
    bundle_conflicts: BundleConflicts = "sum"
    max_conflict_rate: float = 0.0
    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 32
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    min_data_per_group: int = 100
    target_statistics: TargetStatistics = "auto"
    statistics_order: int = 2
    linear_leaves: bool = False
    linear_lambda: float = 1.0
    feature_crosses: Any = None
    monotone_constraints: Any = None
    interaction_constraints: Any = None
    monotone_penalty: float = 0.0
    feature_penalties: Any = None
    feature_weights: Any = None
    extra_trees: bool = False
    path_smooth: float = 0.0
    forced_splits: Any = None
    max_bins_by_feature: Any = None
    forced_bins: Any = None
    device: Device = "cpu"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _RANGES:
            value = getattr(self, name)
            if name == "learning_rate" and is_schedule(value):
                object.__setattr__(self, name, read_rate(value, self.n_estimators))
                continue
            _check_range(name, value)
            if value is not None and type(value) is not int and type(value) is not float:
                # Kernels are compiled for Python numbers, not for NumPy scalars.
                value = int(value) if isinstance(value, numbers.Integral) else float(value)
                object.__setattr__(self, name, value)
            if type(value) is int and not _RANGES[name].integer and abs(value) > _MOST_INT:
                object.__setattr__(self, name, float(value))  # kernels take int64 at most
        for name in _CHOICES:
            _check_choice(name, getattr(self, name))
        has_default_depth = self.grow_policy == "symmetric"
        if self.max_leaves is None and self.max_depth is None and not has_default_depth:
            raise ParameterError(
                "max_leaves and max_depth are both None: set at least one of them, "
                "otherwise a tree grows until its leaves cannot be split."
            )
        for name in _SWITCHES:
            _check_switch(name, getattr(self, name))
        self._check_that_all_is_used()
        self._check_sampling()

    def at_round(self, number: int, n_first: int = 0) -> BoostParams:
        """Return the parameters with the learning rate of round ``number``, from 0.

        ``n_first`` is the number of rounds in the model being continued.
        """
        if is_number(self.learning_rate):
            return self
        return replace(self, learning_rate=rate_at(self.learning_rate, number, n_first))

    def rate_of_trees(self, number: int, n_first: int = 0) -> float:
        """Return the factor on leaf values; parallel trees share the learning rate equally."""
        return float(rate_at(self.learning_rate, number, n_first)) / self.num_parallel_tree

    @property
    def highest_rate(self) -> float:
        """The highest learning rate of a round, at most 1 if unknown; 0 if trees are averaged."""
        if self.boosting == "rf":
            return 0.0
        if is_number(self.learning_rate):
            return float(self.learning_rate)
        return max(self.learning_rate) if isinstance(self.learning_rate, tuple) else 1.0

    def of_trees_at(self, number: int, n_first: int = 0) -> BoostParams:
        """Return the parameters with ``rate_of_trees`` of round ``number`` as learning rate."""
        if is_number(self.learning_rate) and self.num_parallel_tree == 1:
            return self
        return replace(self, learning_rate=self.rate_of_trees(number, n_first))

    def first_unlike(self, known: Mapping[str, Any]) -> str | None:
        """Return the first parameter that differs from ``known``, as text for an error."""
        for name, wanted in known.items():
            value = getattr(self, name)
            if value is not wanted and value != wanted:
                return name if wanted is None else f"{name}={brief(value)}"
        return None

    def with_rounds(self, n_rounds: int) -> BoostParams:
        """Return the parameters of a fit of only the first ``n_rounds`` rounds."""
        rate = self.learning_rate
        kept = rate[:n_rounds] if isinstance(rate, tuple) else rate
        return replace(self, n_estimators=n_rounds, learning_rate=kept)

    def _check_that_all_is_used(self) -> None:
        """Raise if a parameter is not at its default but has no effect."""
        default = {field.name: field.default for field in fields(self)}
        for name, (used, where) in _USED_ONLY.items():
            if not _is_default(getattr(self, name), default[name]) and not used(self):
                raise ParameterError(
                    f"{name}={brief(getattr(self, name))} has no effect here: it is used {where}. "
                    f"Leave it at its default, {default[name]!r}."
                )
        if self.boosting == "rf" and not self._trees_differ():
            raise ParameterError(
                "boosting='rf' averages trees that differ by sampling: set subsample, "
                "colsample_bytree, colsample_bylevel or colsample_bynode below 1."
            )

    def _check_sampling(self) -> None:
        """Raise for inconsistent rates of row sampling."""
        if self.sampling == "goss" and self.goss_top_rate + self.goss_other_rate > 1.0:
            raise ParameterError(
                f"goss_top_rate={self.goss_top_rate!r} and goss_other_rate="
                f"{self.goss_other_rate!r} are fractions of the same rows: their sum must be at "
                "most 1; lower one of them."
            )
        if self.sampling == "mvs" and self.subsample >= 1.0:
            raise ParameterError(
                "sampling='mvs' samples a fraction of the rows, but subsample=1.0 takes all of "
                "them: set subsample below 1."
            )

    def _trees_differ(self) -> bool:
        """Return whether trees of one round are grown on different rows or columns."""
        rows = self.subsample
        if self.sampling == "goss":
            rows = self.goss_top_rate + self.goss_other_rate
        columns = (self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode)
        return min(rows, *columns) < 1.0


def _check_range(name: str, value: object) -> None:
    """Raise unless a parameter is within its range."""
    if value not in _RANGES[name] and not (value is None and name in _OPTIONAL):
        none = ", or None" if name in _OPTIONAL else ""
        raise ParameterError(f"{name} must be {_RANGES[name]}{none}; got {brief(value)}.")


def _check_choice(name: str, choice: object) -> None:
    """Raise unless a parameter is one of its allowed values."""
    known = _CHOICES[name]
    if not is_one_of(choice, known):
        raise ParameterError(
            f"{name} must be one of {', '.join(map(repr, known))}; got {brief(choice)}."
            f"{choice_hint(name, choice, known)}"
        )


def _check_switch(name: str, value: object) -> None:
    """Raise unless a parameter is a boolean, or ``"auto"`` where that is allowed."""
    if not _SWITCHES[name]:
        check_bool(value, name)
    elif not isinstance(value, bool | np.bool_) and not is_one_of(value, ("auto",)):
        raise ParameterError(f"{name} must be True, False or 'auto'; got {brief(value)}.")


def check_each(values: Mapping[str, Any]) -> None:
    """Check the range of each parameter, e.g. of a record that another version wrote.

    The function ignores unknown names, combinations of parameters, and parameters that
    name columns.

    Raise ``ParameterError`` for a value out of range.
    """
    for name, value in values.items():
        if name == "learning_rate" and isinstance(value, list | tuple):
            read_rate(value, len(value))
        elif name in _RANGES:
            _check_range(name, value)
        elif name in _CHOICES:
            _check_choice(name, value)
        elif name in _SWITCHES:
            _check_switch(name, value)


def _is_default(value: Any, default: Any) -> bool:
    """Return whether a parameter has its default value; arrays are not compared with None."""
    return value is default or (default is not None and bool(value == default))


_CHOICES: dict[str, tuple[str, ...]] = {
    "grow_policy": get_args(GrowPolicy),
    "tree_method": get_args(TreeMethod),
    "sketch": get_args(Sketch),
    "boosting": get_args(Boosting),
    "sampling": get_args(Sampling),
    "leaf_estimation": get_args(LeafEstimation),
    "multi_strategy": get_args(MultiStrategy),
    "bundle_order": get_args(BundleOrder),
    "bundle_conflicts": get_args(BundleConflicts),
    "device": get_args(Device),
}
_SWITCHES = {
    "oob_score": False,
    "zero_as_missing": False,
    "linear_leaves": False,
    "extra_trees": False,
    "bundle_features": True,
    "target_statistics": True,
}
"""Boolean parameters, and whether ``"auto"`` is allowed for them."""
_USED_ONLY: dict[str, tuple[Callable[[BoostParams], bool], str]] = {
    "max_leaves": (
        lambda p: p.grow_policy != "symmetric" or p.max_leaves is None,
        "with grow_policy='leafwise' and 'depthwise' (the size of a symmetric tree is max_depth)",
    ),
    "max_bins": (lambda p: p.tree_method == "hist", "with tree_method='hist'"),
    "sketch": (lambda p: p.tree_method == "approx", "with tree_method='approx'"),
    "sketch_eps": (lambda p: p.tree_method == "approx", "with tree_method='approx'"),
    "max_bins_by_feature": (lambda p: p.tree_method == "hist", "with tree_method='hist'"),
    "forced_bins": (lambda p: p.tree_method == "hist", "with tree_method='hist'"),
    "extra_trees": (lambda p: p.tree_method == "hist", "with tree_method='hist'"),
    "forced_splits": (lambda p: p.tree_method == "hist", "with tree_method='hist'"),
    "drop_rate": (lambda p: p.boosting == "dart", "with boosting='dart'"),
    "skip_drop": (lambda p: p.boosting == "dart", "with boosting='dart'"),
    "max_drop": (lambda p: p.boosting == "dart", "with boosting='dart'"),
    "num_parallel_tree": (
        lambda p: p.boosting != "rf",
        "with boosting='gbdt' and 'dart' (a random forest has n_estimators trees)",
    ),
    "oob_score": (
        lambda p: (
            p.subsample < 1.0
            and p.sampling == "uniform"
            and p.boosting != "dart"
            and p.num_parallel_tree == 1
        ),
        "with subsample below 1, sampling='uniform', num_parallel_tree=1, boosting='gbdt' or 'rf'",
    ),
    "statistics_order": (
        lambda p: bool(p.target_statistics),
        "with target_statistics other than False",
    ),
    "monotone_penalty": (
        lambda p: p.monotone_constraints is not None,
        "with monotone_constraints",
    ),
    "feature_weights": (
        lambda p: min(p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode) < 1.0,
        "with colsample_bytree, colsample_bylevel or colsample_bynode below 1",
    ),
    "path_smooth": (
        lambda p: p.leaf_estimation != "line_search",
        "with leaf_estimation='newton' and 'gradient' (a line search ignores it)",
    ),
    "linear_lambda": (lambda p: bool(p.linear_leaves), "with linear_leaves=True"),
    "subsample": (
        lambda p: p.sampling != "goss",
        "with sampling='uniform' and 'mvs' ('goss' uses goss_top_rate and goss_other_rate)",
    ),
    "goss_top_rate": (lambda p: p.sampling == "goss", "with sampling='goss'"),
    "goss_other_rate": (lambda p: p.sampling == "goss", "with sampling='goss'"),
    "bundle_conflicts": (lambda p: p.max_conflict_rate > 0.0, "with max_conflict_rate above 0"),
    **dict.fromkeys(
        ("bundle_order", "max_conflict_rate"),
        (
            lambda p: p.tree_method == "hist" and bool(p.bundle_features),
            "with tree_method='hist' and bundle_features=True or 'auto'",
        ),
    ),
    "bundle_features": (lambda p: p.tree_method == "hist", "with tree_method='hist'"),
    "learning_rate": (
        lambda p: p.boosting != "rf" or p.learning_rate == 1.0,
        "with boosting='gbdt' and 'dart' (a random forest averages its trees)",
    ),
}
_MOST_INT = 2**63 - 1
_OPTIONAL = frozenset({"max_leaves", "max_depth"})
_FRACTION = Interval(0.0, 1.0, low_open=True)
_NOT_NEGATIVE = Interval(0.0, math.inf, high_open=True)
_RANGES: dict[str, Interval] = {
    "n_estimators": Interval(1, 10_000_000, integer=True),
    "learning_rate": Interval(0.0, math.inf, low_open=True, high_open=True),
    "max_leaves": Interval(2, 65_535, integer=True),
    "max_depth": Interval(1, 62, integer=True),
    "min_samples_leaf": Interval(1, 2**31 - 1, integer=True),
    "min_child_weight": _NOT_NEGATIVE,
    "reg_lambda": _NOT_NEGATIVE,
    "reg_alpha": _NOT_NEGATIVE,
    "linear_lambda": _NOT_NEGATIVE,
    "gamma": _NOT_NEGATIVE,
    "path_smooth": _NOT_NEGATIVE,
    "monotone_penalty": _NOT_NEGATIVE,
    "max_delta_step": _NOT_NEGATIVE,
    "subsample": _FRACTION,
    "goss_top_rate": Interval(0.0, 1.0, high_open=True),
    "goss_other_rate": _FRACTION,
    "colsample_bytree": _FRACTION,
    "colsample_bylevel": _FRACTION,
    "colsample_bynode": _FRACTION,
    "max_bins": Interval(2, 255, integer=True),
    "sketch_eps": Interval(0.0, 1.0, low_open=True, high_open=True),
    "drop_rate": Interval(0.0, 1.0),
    "skip_drop": Interval(0.0, 1.0),
    "max_drop": Interval(1, 10_000_000, integer=True),
    "num_parallel_tree": Interval(1, 1_000_000, integer=True),
    "max_conflict_rate": Interval(0.0, 1.0, high_open=True),
    "max_cat_to_onehot": Interval(1, 254, integer=True),
    "max_cat_threshold": Interval(1, 254, integer=True),
    "cat_smooth": _NOT_NEGATIVE,
    "cat_l2": _NOT_NEGATIVE,
    "min_data_per_group": Interval(1, 2**31 - 1, integer=True),
    "statistics_order": Interval(1, 2, integer=True),
    "seed": Interval(0, 2**63 - 1, integer=True),
}

BOOST_PARAMETER_NAMES: tuple[str, ...] = tuple(field.name for field in fields(BoostParams))


def boost_params(values: Mapping[str, Any]) -> BoostParams:
    """Build :class:`BoostParams` from a mapping; unknown names raise with a suggestion."""
    for name in values:
        if name not in BOOST_PARAMETER_NAMES:
            hint = did_you_mean(name, BOOST_PARAMETER_NAMES)
            raise ParameterError(f"unknown parameter {name!r}.{hint}")
    return BoostParams(**values)


def read_direction(value: Any, where: str) -> int:
    """Convert a monotone direction, a number or a name, to -1, 0 or 1."""
    if isinstance(value, str) and value in _DIRECTIONS:
        return _DIRECTIONS[value]
    number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    if not number or value not in (-1, 0, 1):
        raise ParameterError(
            f"{where} must be -1, 0, 1, 'increasing' or 'decreasing'; got {brief(value)}."
        )
    return int(value)
