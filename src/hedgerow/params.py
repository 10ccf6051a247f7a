"""Training parameters as frozen, validated values.

This module validates parameters once.  A value out of range, an unknown name, or a
value without effect in combination with another raises :class:`ParameterError`.  The
message names the parameter, its value and the allowed values.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from hedgerow.argument_types import Interval as Interval
from hedgerow.argument_types import check_bool, is_one_of
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.peers import choice_hint
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
_DIRECTIONS = {"increasing": 1, "decreasing": -1}
CHECKPOINT_SECONDS = 10.0
"""Default time between two writes of a checkpoint.  A fit that is killed loses at most about
this much work.  A write costs two flushes of the disk, which take far less time."""

FIRST_ORDER = ("gradient", "line_search")
"""Values of ``leaf_estimation`` whose trees fit the negative gradient by least squares."""


Used: TypeAlias = "tuple[Callable[[BoostParams], bool], str]"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A row of the table of parameters, which the fields of :class:`BoostParams` are.

    allowed     an interval, or the choices; None: checked when the columns are known
    set_per     ``"round"`` if it may change between rounds of :class:`hedgerow.Training`
    constrains  ``"columns"`` if it restricts the columns of splits; ``"scores"`` if it affects
                leaf values, or the choice among cuts, beside the loss and its penalties
    optional    whether it may be None
    advanced    whether estimators take it in the mapping ``advanced``
    used        condition under which it has an effect, and the condition in words
    """

    default: Any
    allowed: Interval | tuple[Any, ...] | None
    set_per: Literal["fit", "round"]
    constrains: Literal["scores", "columns"] | None = None
    optional: bool = False
    advanced: bool = False
    used: Used | None = None

    def check(self, name: str, value: object) -> None:
        """Raise unless the value is allowed."""
        known = self.allowed
        if isinstance(known, Interval):
            if value not in known and not (value is None and self.optional):
                none = ", or None" if self.optional else ""
                raise ParameterError(f"{name} must be {known}{none}; got {brief(value)}.")
        elif known is _SWITCH:
            check_bool(value, name)
        elif known is _SWITCH_OR_AUTO:
            if not isinstance(value, bool | np.bool_) and not is_one_of(value, ("auto",)):
                raise ParameterError(f"{name} must be True, False or 'auto'; got {brief(value)}.")
        elif known is not None and not is_one_of(value, known):
            raise ParameterError(
                f"{name} must be one of {', '.join(map(repr, known))}; got {brief(value)}."
                f"{choice_hint(name, value, known)}"
            )

    def is_default(self, value: Any) -> bool:
        """Return whether a value is the default; arrays are not compared with None."""
        default = self.default
        return value is default or (default is not None and bool(value == default))


def _row(
    default: Any,
    allowed: Interval | tuple[Any, ...] | None,
    set_per: Literal["fit", "round"],
    **more: Any,
) -> Any:
    """Return a field of :class:`BoostParams` that holds its row of the table."""
    row = Parameter(default, allowed, set_per, **more)
    return field(default=default, metadata={"row": row})


def _with(name: str, value: str) -> Used:
    """Return the condition that another parameter has a value."""
    return lambda params: getattr(params, name) == value, f"with {name}={value!r}"


_MOST_INT = 2**63 - 1
_SWITCH = (True, False)
_SWITCH_OR_AUTO = (True, False, "auto")
_POSITIVE = Interval(0.0, math.inf, low_open=True, high_open=True)
_NOT_NEGATIVE = Interval(0.0, math.inf, high_open=True)
_FRACTION = Interval(0.0, 1.0, low_open=True)
_BELOW_ONE = Interval(0.0, 1.0, high_open=True)
_PROBABILITY = Interval(0.0, 1.0)
_ROWS = Interval(1, 2**31 - 1, integer=True)
_LEVELS = Interval(1, 254, integer=True)
_BINS = Interval(2, 255, integer=True)
_MANY = Interval(1, 10_000_000, integer=True)
_HIST, _APPROX = _with("tree_method", "hist"), _with("tree_method", "approx")
_DART, _GOSS = _with("boosting", "dart"), _with("sampling", "goss")
_SIZED_BY_LEAVES: Used = (
    lambda p: p.grow_policy != "symmetric" or p.max_leaves is None,
    "with grow_policy='leafwise' and 'depthwise' (the size of a symmetric tree is max_depth)",
)
_BOOSTED: Used = (
    lambda p: p.boosting != "rf" or p.learning_rate == 1.0,
    "with boosting='gbdt' and 'dart' (a random forest averages its trees)",
)
_NOT_FOREST: Used = (
    lambda p: p.boosting != "rf",
    "with boosting='gbdt' and 'dart' (a random forest has n_estimators trees)",
)
_NOT_GOSS: Used = (
    lambda p: p.sampling != "goss",
    "with sampling='uniform' and 'mvs' ('goss' uses goss_top_rate and goss_other_rate)",
)
_LEAVES_ROWS_OUT: Used = (
    lambda p: (
        p.subsample < 1.0
        and p.sampling == "uniform"
        and p.boosting != "dart"
        and p.num_parallel_tree == 1
    ),
    "with subsample below 1, sampling='uniform', num_parallel_tree=1, boosting='gbdt' or 'rf'",
)
_BUNDLES: Used = (
    lambda p: p.tree_method == "hist" and bool(p.bundle_features),
    "with tree_method='hist' and bundle_features=True or 'auto'",
)
_CONFLICTS: Used = (lambda p: p.max_conflict_rate > 0.0, "with max_conflict_rate above 0")
_STATISTICS: Used = (lambda p: bool(p.target_statistics), "with target_statistics other than False")
_LINEAR: Used = (lambda p: bool(p.linear_leaves), "with linear_leaves=True")
_MONOTONE: Used = (lambda p: p.monotone_constraints is not None, "with monotone_constraints")
_COLUMN_SAMPLES: Used = (
    lambda p: min(p.colsample_bytree, p.colsample_bylevel, p.colsample_bynode) < 1.0,
    "with colsample_bytree, colsample_bylevel or colsample_bynode below 1",
)
_NO_SEARCH: Used = (
    lambda p: p.leaf_estimation != "line_search",
    "with leaf_estimation='newton' and 'gradient' (a line search ignores it)",
)


@dataclass(frozen=True, slots=True)
class BoostParams:
    """Validated parameters of tree growing and boosting.

    Names and meanings are those of :class:`hedgerow.HedgerowClassifier`.  Parameters that
    depend on the data are already chosen.  Parameters that name columns
    keep the user's form until the table is known
    (:func:`hedgerow.growing.limits.constraints.resolve_constraints`).  A sequence of
    learning rates becomes a tuple.

    Attributes
    ----------
    seed : int
        ``random_state`` of the estimators.
    """

    n_estimators: int = _row(100, _MANY, "fit")
    learning_rate: Any = _row(0.1, _POSITIVE, "round", used=_BOOSTED)
    max_leaves: int | None = _row(
        31, Interval(2, 65_535, integer=True), "round", optional=True, used=_SIZED_BY_LEAVES
    )
    max_depth: int | None = _row(None, Interval(1, 62, integer=True), "round", optional=True)
    min_samples_leaf: int = _row(20, _ROWS, "round")
    min_child_weight: float = _row(1e-3, _NOT_NEGATIVE, "round")
    reg_lambda: float = _row(1.0, _NOT_NEGATIVE, "round")
    reg_alpha: float = _row(0.0, _NOT_NEGATIVE, "round")
    gamma: float = _row(0.0, _NOT_NEGATIVE, "round")
    max_delta_step: float = _row(0.0, _NOT_NEGATIVE, "round")
    subsample: float = _row(1.0, _FRACTION, "round", used=_NOT_GOSS)
    sampling: Sampling = _row("uniform", get_args(Sampling), "round")
    goss_top_rate: float = _row(0.2, _BELOW_ONE, "round", used=_GOSS)
    goss_other_rate: float = _row(0.1, _FRACTION, "round", used=_GOSS)
    colsample_bytree: float = _row(1.0, _FRACTION, "round")
    colsample_bylevel: float = _row(1.0, _FRACTION, "round")
    colsample_bynode: float = _row(1.0, _FRACTION, "round")
    max_bins: int = _row(255, _BINS, "fit", used=_HIST)
    grow_policy: GrowPolicy = _row("leafwise", get_args(GrowPolicy), "fit")
    tree_method: TreeMethod = _row("hist", get_args(TreeMethod), "fit")
    sketch: Sketch = _row("global", get_args(Sketch), "fit", advanced=True, used=_APPROX)
    sketch_eps: float = _row(
        0.03, Interval(0.0, 1.0, low_open=True, high_open=True), "fit", advanced=True, used=_APPROX
    )
    boosting: Boosting = _row("gbdt", get_args(Boosting), "fit")
    leaf_estimation: LeafEstimation = _row("auto", get_args(LeafEstimation), "fit")
    multi_strategy: MultiStrategy = _row("auto", get_args(MultiStrategy), "fit")
    drop_rate: float = _row(0.1, _PROBABILITY, "fit", used=_DART)
    skip_drop: float = _row(0.5, _PROBABILITY, "fit", used=_DART)
    max_drop: int = _row(50, _MANY, "fit", used=_DART)
    num_parallel_tree: int = _row(1, Interval(1, 1_000_000, integer=True), "fit", used=_NOT_FOREST)
    oob_score: bool = _row(False, _SWITCH, "fit", used=_LEAVES_ROWS_OUT)
    zero_as_missing: bool = _row(False, _SWITCH, "fit")
    bundle_features: bool | Literal["auto"] = _row("auto", _SWITCH_OR_AUTO, "fit", used=_HIST)
    bundle_order: BundleOrder = _row(
        "count", get_args(BundleOrder), "fit", advanced=True, used=_BUNDLES
    )
    bundle_conflicts: BundleConflicts = _row(
        "sum", get_args(BundleConflicts), "fit", advanced=True, used=_CONFLICTS
    )
    max_conflict_rate: float = _row(0.0, _BELOW_ONE, "fit", advanced=True, used=_BUNDLES)
    max_cat_to_onehot: int = _row(4, _LEVELS, "round")
    max_cat_threshold: int = _row(32, _LEVELS, "round")
    cat_smooth: float = _row(10.0, _NOT_NEGATIVE, "round")
    cat_l2: float = _row(10.0, _NOT_NEGATIVE, "round")
    min_data_per_group: int = _row(100, _ROWS, "round")
    target_statistics: TargetStatistics = _row("auto", _SWITCH_OR_AUTO, "fit")
    statistics_order: int = _row(
        2, Interval(1, 2, integer=True), "fit", advanced=True, used=_STATISTICS
    )
    linear_leaves: bool = _row(False, _SWITCH, "fit")
    linear_lambda: float = _row(1.0, _NOT_NEGATIVE, "round", used=_LINEAR)
    feature_crosses: Any = _row(None, None, "fit")
    monotone_constraints: Any = _row(None, None, "fit", constrains="scores")
    interaction_constraints: Any = _row(None, None, "fit", constrains="columns")
    monotone_penalty: float = _row(0.0, _NOT_NEGATIVE, "fit", constrains="scores", used=_MONOTONE)
    feature_penalties: Any = _row(None, None, "round", constrains="scores")
    feature_weights: Any = _row(None, None, "round", used=_COLUMN_SAMPLES)
    extra_trees: bool = _row(False, _SWITCH, "round", constrains="scores", used=_HIST)
    path_smooth: float = _row(0.0, _NOT_NEGATIVE, "round", constrains="scores", used=_NO_SEARCH)
    max_bins_by_feature: Any = _row(None, None, "fit", used=_HIST)
    device: Device = _row("cpu", get_args(Device), "fit")
    seed: int = _row(0, Interval(0, _MOST_INT, integer=True), "fit")

    def __post_init__(self) -> None:
        for name, parameter in PARAMETERS.items():
            value = getattr(self, name)
            if name == "learning_rate" and is_schedule(value):
                object.__setattr__(self, name, read_rate(value, self.n_estimators))
                continue
            parameter.check(name, value)
            if not isinstance(parameter.allowed, Interval):
                continue
            if value is not None and type(value) is not int and type(value) is not float:
                # Kernels are compiled for Python numbers, not for NumPy scalars.
                value = int(value) if isinstance(value, numbers.Integral) else float(value)
                object.__setattr__(self, name, value)
            if type(value) is int and not parameter.allowed.integer and abs(value) > _MOST_INT:
                object.__setattr__(self, name, float(value))  # kernels take int64 at most
        has_default_depth = self.grow_policy == "symmetric"
        if self.max_leaves is None and self.max_depth is None and not has_default_depth:
            raise ParameterError(
                "max_leaves and max_depth are both None: set at least one of them, "
                "otherwise a tree grows until its leaves cannot be split."
            )
        self._check_together()

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

    @property
    def constrained(self) -> set[str]:
        """What the constraints of trees affect: ``"scores"`` and ``"columns"``, or nothing."""
        return {
            row.constrains
            for name, row in PARAMETERS.items()
            if row.constrains and not row.is_default(getattr(self, name))
        }

    def first_unlike(self, known: Mapping[str, Any]) -> str | None:
        """Return the first parameter that differs from ``known``, as text for an error."""
        for name, wanted in known.items():
            value = getattr(self, name)
            if value is not wanted and value != wanted:
                return name if wanted is None else f"{name}={brief(value)}"
        return None

    def unlike(self, other: BoostParams, names: Collection[str]) -> dict[str, Any]:
        """Return the values among ``names`` that differ from those of ``other``, as in files."""
        mine = {name: getattr(self, name) for name in names}
        found = {name: value for name, value in mine.items() if value != getattr(other, name)}
        if crosses := found.get("feature_crosses"):
            found["feature_crosses"] = [list(cross) for cross in crosses]
        return found

    def with_rounds(self, n_rounds: int) -> BoostParams:
        """Return the parameters of a fit of only the first ``n_rounds`` rounds."""
        rate = self.learning_rate
        kept = rate[:n_rounds] if isinstance(rate, tuple) else rate
        return replace(self, n_estimators=n_rounds, learning_rate=kept)

    def _check_together(self) -> None:
        """Raise for a changed parameter without effect, and for rates of sampling that disagree."""
        for name, parameter in PARAMETERS.items():
            value, used = getattr(self, name), parameter.used
            if used is not None and not parameter.is_default(value) and not used[0](self):
                raise ParameterError(
                    f"{name}={brief(value)} has no effect here: it is used {used[1]}. "
                    f"Leave it at its default, {parameter.default!r}."
                )
        rows = self.subsample
        if self.sampling == "goss":
            rows = self.goss_top_rate + self.goss_other_rate
        columns = (self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode)
        if self.boosting == "rf" and min(rows, *columns) >= 1.0:  # trees of a round are the same
            raise ParameterError(
                "boosting='rf' averages trees that differ by sampling: set subsample, "
                "colsample_bytree, colsample_bylevel or colsample_bynode below 1."
            )
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


def check_each(values: Mapping[str, Any]) -> None:
    """Check the range of each parameter, as of a record that another version wrote."""
    # Unknown names, combinations, and parameters that name columns are ignored.
    for name, value in values.items():
        if name == "learning_rate" and isinstance(value, list | tuple):
            read_rate(value, len(value))
        elif name in PARAMETERS:
            PARAMETERS[name].check(name, value)


PARAMETERS: dict[str, Parameter] = {
    field.name: field.metadata["row"] for field in fields(BoostParams)
}
"""The table of parameters, by name."""
BOOST_PARAMETER_NAMES = tuple(PARAMETERS)


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


ADVANCED_NAMES = tuple(name for name, parameter in PARAMETERS.items() if parameter.advanced)


def read_advanced(advanced: Any, ordinary: Collection[str]) -> dict[str, Any]:
    """Return the parameters in ``advanced``; ``ordinary`` are the names of all others."""
    if advanced is None:
        return {}
    if not isinstance(advanced, Mapping):
        raise ParameterError(
            'advanced must be a mapping of parameters, such as {"sketch": "local"}, or None; '
            f"got {brief(advanced)}."
        )
    wrong = [name for name in advanced if name not in ADVANCED_NAMES]
    if wrong:
        hints = "".join(
            f" {name!r} is an ordinary parameter: pass it directly, {name}={brief(advanced[name])}."
            if name in ordinary and name != "advanced"
            else did_you_mean(name, ADVANCED_NAMES)
            for name in wrong
        )
        raise ParameterError(
            f"advanced has no parameter {', '.join(map(repr, wrong))}; it takes "
            f"{', '.join(ADVANCED_NAMES)}.{hints}"
        )
    return dict(advanced)


def flat(params: Mapping[str, Any], ordinary: Collection[str]) -> dict[str, Any]:
    """Return the parameters of a function, with the entries of ``advanced`` as ordinary ones.

    >>> flat({"max_leaves": 15, "advanced": {"sketch": "local"}}, ["max_leaves"])
    {'max_leaves': 15, 'sketch': 'local'}
    """
    direct = {name: value for name, value in params.items() if name != "advanced"}
    inside = read_advanced(params.get("advanced"), ordinary)
    twice = [name for name in inside if name in direct]
    if twice:
        raise ParameterError(f"{twice[0]} is given directly and in advanced: leave one out.")
    return direct | inside


def grouped(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator, with the advanced ones in ``advanced``.

    >>> grouped({"max_leaves": 15, "sketch": "local"})
    {'max_leaves': 15, 'advanced': {'sketch': 'local'}}
    """
    inside = {name: value for name, value in params.items() if name in ADVANCED_NAMES}
    others = {name: value for name, value in params.items() if name not in ADVANCED_NAMES}
    return others | {"advanced": inside} if inside else others


def advanced_hint(name: str) -> str:
    """Return text that shows how to pass an advanced parameter to an estimator.

    >>> advanced_hint("sketch")
    'advanced={"sketch": ...}'
    """
    return f'advanced={{"{name}": ...}}'
