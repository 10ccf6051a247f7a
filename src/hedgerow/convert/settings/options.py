"""Losses and metrics of other libraries, with the options inside their names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hedgerow import peers
from hedgerow.convert.settings.values import as_list, choice, flag, levels, number, whole
from hedgerow.errors import ParameterError, brief

_Option = tuple[str, Callable[[Any], Any]]

_LEVEL: dict[str, _Option] = {"alpha": ("quantile", levels)}
_OF_LAMBDAMART = {"ndcg": "lambdarank", "dcg": "lambdarank", "map": "rank_map"}
_OF_YETIRANK = {"classic": "lambdarank", **_OF_LAMBDAMART}
_OPTIONS_OF_LOSSES: dict[str, dict[str, _Option]] = {
    "quantile": _LEVEL,
    "multiquantile": _LEVEL,
    "expectile": {"alpha": ("expectile", number)},
    "huber": {"delta": ("delta", number)},
    "tweedie": {"variance_power": ("tweedie_power", number)},
    "focal": {
        "focal_alpha": ("focal_alpha", number),
        "focal_gamma": ("focal_gamma", number),
    },
    "lambdamart": {
        "metric": ("objective", choice("loss_function's metric", _OF_LAMBDAMART)),
        "top": ("truncation_level", whole),
        "sigma": ("sigmoid", number),
        "norm": ("normalize_pairs", flag),
    },
    "yetirank": {
        "mode": ("objective", choice("loss_function's mode", _OF_YETIRANK)),
        "top": ("truncation_level", whole),
    },
}
"""Options by loss: Hedgerow's parameter, and how to read the value."""

_HARMLESS: dict[str, tuple[float, ...]] = {"border": (0.5,), "delta": (1e-6,), "use_weights": (1,)}
"""Values of options that Hedgerow always has."""
_OF_MESSAGES = ("hints",)
_OF_SAMPLES = ("permutations", "decay")

_FROM_ZERO = "CatBoost starts at 0 unless boost_from_average is set, Hedgerow at the best constant."
_FEW_PAIRS = "pairs of all rows of a query with different labels count; CatBoost also takes yours."
LOSS_NOTES: dict[str, str] = {
    **dict.fromkeys(
        (
            *("logloss", "crossentropy", "focal", "multiclass", "multiclassonevsall"),
            *("poisson", "tweedie", "huber", "expectile", "logcosh"),
        ),
        _FROM_ZERO,
    ),
    "mape": "CatBoost divides errors by max(1, |y|), Hedgerow by |y|.",
    "yetirank": "Hedgerow has LambdaRank, which compares rows in the order of their scores; "
    "YetiRank compares them in random orders.",
    "lambdamart": "gains are 2**label - 1 unless label_gain is set.",
    "pairlogit": _FEW_PAIRS,
    "queryrmse": "Hedgerow has no squared error within a query; rank_pairwise compares pairs.",
    "querycrossentropy": "Hedgerow has no cross-entropy within a query; rank_xendcg is a "
    "cross-entropy of the ranking.",
}
"""Differences of losses, of which some stand in for a loss that Hedgerow does not have."""


def read_options(parameter: str, text: str) -> tuple[str, dict[str, str]]:
    """Return the name and the options of ``"Name:option=value;option=value"``."""
    name, _, rest = text.partition(":")
    found: dict[str, str] = {}
    for part in filter(None, rest.split(";")):
        option, equals, value = part.partition("=")
        if not equals:
            raise ParameterError(f"{parameter}={brief(text)}: write options as 'option=value'.")
        found[option.strip().lower()] = value.strip()
    return name.strip(), found


def catboost_loss(value: Any) -> Mapping[str, Any]:
    """Translate CatBoost's ``loss_function``."""
    if not isinstance(value, str):
        raise ParameterError(
            f"loss_function must be text; got {brief(value)}: for a function of your own see "
            "docs/objectives.md."
        )
    name, options = read_options("loss_function", value)
    found: dict[str, Any] = {"objective": choice("loss_function", peers.CATBOOST_OBJECTIVES)(name)}
    name = name.lower()
    known = _OPTIONS_OF_LOSSES.get(name, {})
    for option, text in options.items():
        if option in _OF_MESSAGES or (name == "yetirank" and option in _OF_SAMPLES):
            continue
        if option in known:
            ours, read = known[option]
            found[ours] = _read(value, option, read, text)
        elif _read(value, option, _plain, text) not in _HARMLESS.get(option, ()):
            raise ParameterError(
                f"loss_function={brief(value)}: option {brief(option)} is not supported: leave it "
                "out."
            )
    if found.get("truncation_level") == -1:  # all ranks
        found["truncation_level"] = 2**31 - 1
    return found


def _plain(text: str) -> Any:
    """Return the number or truth value of a text, or the text."""
    for read in (number, flag):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _read(value: str, option: str, read: Callable[[Any], Any], text: str) -> Any:
    try:
        return read(text)
    except ParameterError:
        raise
    except ValueError as fault:
        raise ParameterError(f"loss_function={brief(value)}: {option}: {fault}.") from None


OF_RANKS = ("ndcg", "map", "precision", "recall", "mrr", "err")
"""Metrics whose number after ``@`` is a number of ranks."""

_WITH_NUMBER = ("pinball", "expectile", "tweedie_nloglik")
_AT_OF_LIGHTGBM = (1, 2, 3, 4, 5)
_OPTIONS_OF_METRICS = {
    "pinball": "alpha",
    "expectile": "alpha",
    "huber": "delta",
    "tweedie_nloglik": "variance_power",
    **dict.fromkeys(OF_RANKS, "top"),
}
"""Option of CatBoost that Hedgerow writes after ``@``."""
_ONLY_AT = ("precisionat", "recallat")
_KINDS_OF_AUC = {"classic": "auc", "mu": "auc_mu"}


def _names(parameter: str, value: Any) -> Sequence[Any]:
    """Return one name or several as a list."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple | set):
        raise ParameterError(f"{parameter} must be a name, or names; got {brief(value)}.")
    return list(names)


def _one_or_all(found: Collection[Any]) -> Any:
    """Return the only metric, several different ones, or None."""
    different = list(dict.fromkeys(found))
    return None if not different else different[0] if len(different) == 1 else different


def lightgbm_metrics(value: Any, given: Mapping[str, Any]) -> Any:
    """Translate LightGBM's ``metric``."""
    listed = value.split(",") if isinstance(value, str) else value
    found: list[str] = []
    for each in _names("metric", listed):
        base, at, rank = str(each).strip().partition("@")
        known = choice("metric", peers.LIGHTGBM_METRICS)(base)
        if known in ("ndcg", "map"):
            ranks = whole(rank) if at else as_list(given.get("eval_at", _AT_OF_LIGHTGBM))
            found += [f"{known}@{k}" for k in ([ranks] if isinstance(ranks, int) else ranks)]
        elif at:
            raise ParameterError(f"metric={brief(each)} is not supported: {base!r} has no ranks.")
        elif known is not None:
            of_loss = {"pinball": "quantile", "huber": "huber"}.get(known)
            own = of_loss is None or given.get("objective") == of_loss  # has the same ``alpha``
            found.append(known if own else f"{known}@{number(given.get('alpha', 0.9))}")
    return _one_or_all(found)


def xgboost_metrics(value: Any) -> Any:
    """Translate XGBoost's ``eval_metric``, whose last metric decides early stopping."""
    found = [_xgboost_metric(str(name)) for name in _names("eval_metric", value)]
    return _one_or_all([*found[-1:], *found[:-1]])


def _xgboost_metric(name: str) -> str:
    base, at, rest = name.partition("@")
    minus = "-" if base.endswith("-") and base[:-1] in ("ndcg", "map") else ""
    known = choice("eval_metric", peers.XGBOOST_METRICS)(base.removesuffix("-") if minus else base)
    if not at:
        return f"{known}{minus}"
    if known == "error" and base == "error":
        return f"error_at@{number(rest)}"
    if known in OF_RANKS or known in _WITH_NUMBER:
        return f"{known}@{rest}"
    raise ParameterError(f"eval_metric={brief(name)} is not supported: leave '@{rest}' out.")


def catboost_metrics(value: Any) -> Any:
    """Translate CatBoost's ``eval_metric``."""
    return _one_or_all([_catboost_metric(str(each)) for each in _names("eval_metric", value)])


def _catboost_metric(text: str) -> str:
    name, options = read_options("eval_metric", text)
    known = choice("eval_metric", peers.CATBOOST_METRICS)(name)
    needs_ranks = name.lower() in _ONLY_AT
    options.pop("hints", None)
    if not flag(options.pop("use_weights", "true")):
        raise ParameterError(
            f"eval_metric={brief(text)}: weights of rows always count here: leave use_weights out."
        )
    # A note tells of the gains of NDCG, and delta of quantiles is small.
    options.pop({"ndcg": "type", "pinball": "delta"}.get(known, ""), None)
    if known == "auc":
        return str(choice("eval_metric", _KINDS_OF_AUC)(options.pop("type", "classic")))
    option = _OPTIONS_OF_METRICS.get(known)
    if known in ("precision", "recall") and not needs_ranks:
        option = None
    at = options.pop(option, None) if option else None
    if options:
        raise ParameterError(
            f"eval_metric={brief(text)}: option {next(iter(options))!r} is not supported: leave it "
            "out, or give a function (docs/metrics.md)."
        )
    if needs_ranks and at is None:
        raise ParameterError(
            f"eval_metric={brief(text)}: give the number of ranks, '{name}:top=10'."
        )
    if at is None and known in ("pinball", "expectile"):
        at = "0.5"
    minus = "-" if known == "map" else ""  # a query without relevant rows counts as 0
    return f"{known}@{number(at)}{minus}" if at not in (None, "-1") else f"{known}{minus}"
