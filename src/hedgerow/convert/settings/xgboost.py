"""Parameters of XGBoost (doc/parameter.rst of version 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.convert.settings import rules as r
from hedgerow.convert.settings import values as v
from hedgerow.convert.settings.rules import Rule, Translation, Values
from hedgerow.errors import ParameterError, brief
from hedgerow.peers import XGBOOST_METRICS, XGBOOST_OBJECTIVES

_NO_LIMIT = 10_000_000
_MOST_LEAVES = 65_535
_WITH_NUMBER = (
    *("ndcg", "map", "precision", "recall", "mrr", "err"),
    *("pinball", "expectile", "tweedie_nloglik"),
)
_RANKING_BY_PAIRS = ("lambdarank", "rank_map", "rank_pairwise")


def _booster(value: Any) -> Any:
    if value == "gblinear":
        raise ParameterError(
            "booster='gblinear' is not supported: Hedgerow has no linear boosters."
        )
    return v.choice("booster", {"gbtree": "gbdt", "dart": "dart"})(value)


def _missing(value: Any) -> dict[str, Any]:
    """Translate the value that stands for missing; NaN always does."""
    if v.is_nan(value):
        return {}
    if v.number(value) == 0:
        return {"zero_as_missing": True}
    raise ValueError("replace this value by NaN in the data; only NaN and 0 can be missing")


def _words(name: str, *same: str, **renamed: str) -> Callable[[Any], Any]:
    """Return a converter for words, of which some have another name here."""
    return v.choice(name, {**{word: word for word in same}, **renamed})


def _metrics(value: Any) -> Any:
    """Translate XGBoost's ``eval_metric``, whose last metric decides early stopping."""
    found = [_metric(str(name)) for name in v.listed_names("eval_metric", value)]
    return v.one_or_all([*found[-1:], *found[:-1]])


def _metric(name: str) -> str:
    base, at, rest = name.partition("@")
    minus = "-" if base.endswith("-") and base[:-1] in ("ndcg", "map") else ""
    known = v.choice("eval_metric", XGBOOST_METRICS)(base.removesuffix("-") if minus else base)
    if not at:
        return f"{known}{minus}"
    if known == "error" and base == "error":
        return f"error_at@{v.number(rest)}"
    if known in _WITH_NUMBER:
        return f"{known}@{rest}"
    raise ParameterError(f"eval_metric={brief(name)} is not supported: leave '@{rest}' out.")


_COUNTERPARTS: dict[str, tuple[str, Any]] = {
    "n_estimators": ("n_estimators", 100),
    "learning_rate": ("learning_rate", 0.3),
    "max_depth": ("max_depth", 6),
    "min_child_weight": ("min_child_weight", 1.0),
    "reg_lambda": ("reg_lambda", 1.0),
    "reg_alpha": ("reg_alpha", 0.0),
    "max_delta_step": ("max_delta_step", 0.0),
    "subsample": ("subsample", 1.0),
    "colsample_bytree": ("colsample_bytree", 1.0),
    "colsample_bylevel": ("colsample_bylevel", 1.0),
    "colsample_bynode": ("colsample_bynode", 1.0),
    "max_bin": ("max_bins", 255),
    "max_cat_to_onehot": ("max_cat_to_onehot", 4),
    "max_cat_threshold": ("max_cat_threshold", 64),
    "monotone_constraints": ("monotone_constraints", None),
    "feature_weights": ("feature_weights", None),
    "rate_drop": ("drop_rate", None),
    "skip_drop": ("skip_drop", None),
    "num_parallel_tree": ("num_parallel_tree", 1),
    "random_state": ("random_state", None),
    "n_jobs": ("n_jobs", None),
    "device": ("device", None),
    "tweedie_variance_power": ("tweedie_power", None),
    "huber_slope": ("delta", None),
    "expectile_alpha": ("expectile", None),
    "aft_loss_distribution_scale": ("aft_scale", None),
    "lambdarank_num_pair_per_sample": ("pairs_per_row", None),
    "lambdarank_normalization": ("normalize_pairs", None),
}
_RULES: dict[str, Rule] = {
    "objective": Rule("objective", convert=v.choice("objective", XGBOOST_OBJECTIVES)),
    "booster": Rule("boosting", "gbtree", convert=_booster),
    "grow_policy": Rule(
        "grow_policy", "depthwise", convert=_words("grow_policy", "depthwise", lossguide="leafwise")
    ),
    "sampling_method": Rule(
        "sampling", convert=_words("sampling_method", "uniform", gradient_based="mvs")
    ),
    "tree_method": Rule(
        "tree_method", "hist", convert=_words("tree_method", "hist", "approx", "exact", auto="hist")
    ),
    "multi_strategy": Rule(
        "multi_strategy",
        convert=_words("multi_strategy", "one_output_per_tree", "multi_output_tree"),
    ),
    "aft_loss_distribution": Rule(
        "aft_distribution", convert=_words("aft_loss_distribution", "normal", "logistic", "extreme")
    ),
    "lambdarank_pair_method": Rule(
        "pair_method", convert=_words("lambdarank_pair_method", "topk", "mean")
    ),
    "quantile_alpha": Rule("quantile", convert=v.levels),
    "early_stopping_rounds": Rule(convert=v.patience),
    "max_leaves": Rule(
        "max_leaves",
        note="with grow_policy 'depthwise' the last level may split other nodes.",
        convert=v.limit,
        when=v.above(0),
    ),
    "gamma": Rule(
        "gamma",
        0.0,
        "half the value: XGBoost's gain is twice the reduction of the loss. XGBoost prunes splits "
        "with less gain; Hedgerow does not make them.",
        v.half,
        when=v.above(0),
    ),
    "interaction_constraints": Rule(
        "interaction_constraints",
        note="in XGBoost columns in no list interact with no other column; Hedgerow lets them "
        "interact: add a list for each, such as [2].",
        convert=v.as_lists,
    ),
    "eval_metric": Rule(
        "eval_metric",
        note="XGBoost stops by the last metric and Hedgerow by the first, so the last comes first.",
        convert=_metrics,
        when=lambda value: not isinstance(value, str) and len(value) > 1,
    ),
    "missing": Rule(
        note="NaN and 0 can be missing (0: zero_as_missing=True); replace other values by NaN.",
        convert=_missing,
        when=lambda value: not v.is_nan(value),
    ),
}
_REFUSED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "one_drop": ("a round may drop no trees.", (0,)),
    "sample_type": ("trees are dropped uniformly.", ("uniform",)),
    "normalize_type": ("dropped trees are scaled as with 'tree'.", ("tree",)),
    "base_score": ("the model starts from the best constant; use offset to change it.", ()),
    "scale_pos_weight": (r.CLASS_WEIGHT, (1,)),
    "feature_types": ("use categorical_features.", ()),
    "process_type": ("to update leaves, use refit.", ("default",)),
    "updater": ("use tree_method and grow_policy.", ()),
    "callbacks": ("callbacks receive a Round (training-control.md).", ()),
    "lambdarank_unbiased": (r.POSITIONS, (False,)),
    "ndcg_exp_gain": ("use label_gain.", (True,)),
}
_WITHOUT: dict[str, str] = {
    r.SPEED: "verbosity disable_default_eval_metric validate_parameters "
    "max_cached_hist_node use_rmm use_cuda_async_pool predictor",
    r.UNLIKE: "seed_per_iteration",
    r.IMPORTANCE: "importance_type",
    r.CLASSES_OF_Y: "num_class",
    "it concerns linear models, which Hedgerow does not have.": "feature_selector top_k",
    "columns of categories are found by type, or use categorical_features.": "enable_categorical",
    "use normalize_pairs.": "lambdarank_score_normalization",
    r.POSITIONS: "lambdarank_bias_norm",
    "it concerns updater='refresh': use refit of the booster.": "refresh_leaf",
}
_ALIASES: dict[str, str] = {
    "learning_rate": "eta",
    "n_estimators": "num_boost_round num_round",
    "gamma": "min_split_loss",
    "reg_lambda": "lambda",
    "reg_alpha": "alpha",
    "random_state": "seed",
    "n_jobs": "nthread",
    "max_bin": "max_bins",
}
_LOSS_NOTES = {
    "poisson": "XGBoost multiplies second derivatives of 'count:poisson' by exp(max_delta_step), "
    "2.01 by default, so its steps are shorter; divide learning_rate by it for about such steps.",
    "softmax": "XGBoost multiplies second derivatives of several classes by 2, Hedgerow by "
    "K / (K - 1) for K classes, so XGBoost's steps are shorter.",
    "pseudo_huber": "second derivatives of 'pseudo_huber' are larger than XGBoost's far from the "
    "target, so steps are shorter.",
    "squared_log_error": "Hedgerow fits log(1 + y) by least squares; XGBoost minimises the same "
    "loss with y as raw score.",
    **dict.fromkeys(
        _RANKING_BY_PAIRS,
        "XGBoost multiplies second derivatives of rankings by 2, so its steps are shorter; divide "
        "learning_rate by 2 for about such steps.",
    ),
    "cox": "events at the same time count by Efron's method; XGBoost uses Breslow's.",
    "hinge": "leaves of 'hinge' have the values with the least loss; XGBoost's are Newton steps "
    "with second derivatives of 1.",
}
_DEFAULTS: Values = {
    **r.OFF,
    "target_statistics": False,
    "max_leaves": None,  # only the depth limits a tree
    "min_samples_leaf": 1,
    # Splits may use categories with few rows, and do not regularise them.
    "min_data_per_group": 1,
    "cat_smooth": 0.0,
    "cat_l2": 0.0,
}


def from_xgboost_params(params: Mapping[str, Any], *, defaults: bool = True) -> Translation:
    """Translate XGBoost's parameters to Hedgerow's.

    Parameters
    ----------
    params : mapping
        As for ``xgboost.train`` or an estimator of XGBoost.
    defaults : bool, default=True
        Also set XGBoost's defaults (depth 6, rate 0.3, ...), so that the trees are of the same
        kind.  Without them, parameters keep Hedgerow's defaults, which depend on the data.

    Returns
    -------
    Translation
        ``params`` for an estimator or :func:`hedgerow.train`, and ``differences``.

    Raises
    ------
    ParameterError
        For a name that XGBoost does not have, and for unsupported values.

    Examples
    --------
    >>> from hedgerow import from_xgboost_params
    >>> from_xgboost_params({"eta": 0.1, "lambda": 2.0}, defaults=False).params
    {'learning_rate': 0.1, 'reg_lambda': 2.0}
    """
    return r.translate(XGBOOST, params, defaults)


def _adjust(said: Values, given: Values, defaults: bool) -> list[str]:
    """Add defaults, and translate what depends on several parameters."""
    if defaults:
        said |= {**_DEFAULTS, **said}
        if said["boosting"] == "dart":
            said |= {"drop_rate": 0.0, "skip_drop": 0.0, "max_drop": _NO_LIMIT, **said}
        if said.get("objective") in _RANKING_BY_PAIRS and said.get("pair_method") != "mean":
            said.setdefault("pairs_per_row", 32)
        if said.get("objective") == "poisson" and "max_delta_step" not in given:
            said["max_delta_step"] = 0.7
        if said["max_depth"] is None and said["max_leaves"] is None:
            said["max_leaves"] = _MOST_LEAVES
    if said.get("pair_method") != "mean" and "pairs_per_row" in said:
        said["truncation_level"] = said.pop("pairs_per_row")  # its name with "topk"
    if said.get("tree_method") in ("approx", "exact") and "max_bins" in said:
        del said["max_bins"]
        if "max_bin" in given:
            return [
                "max_bin: only tree_method 'hist' has bins; with 'approx' use sketch_eps=1/max_bin."
            ]
    return []


XGBOOST = r.library(
    "XGBoost", _COUNTERPARTS, _RULES, _REFUSED, _WITHOUT, _ALIASES,
    adjust=_adjust, loss_notes=_LOSS_NOTES,
)  # fmt: skip
