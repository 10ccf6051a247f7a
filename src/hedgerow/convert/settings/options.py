"""Options inside the names of CatBoost's losses and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.convert.settings.values import choice, flag, levels, number, whole
from hedgerow.errors import ParameterError, brief
from hedgerow.peer_words import CATBOOST_OBJECTIVES

_Option = tuple[str, Callable[[Any], Any]]

_LEVEL: dict[str, _Option] = {"alpha": ("quantile", levels)}
_OF_LAMBDAMART = {"ndcg": "lambdarank", "dcg": "lambdarank", "map": "rank_map"}
_OF_YETIRANK = {"classic": "lambdarank", **_OF_LAMBDAMART}
_OPTIONS: dict[str, dict[str, _Option]] = {
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
    found: dict[str, Any] = {"objective": choice("loss_function", CATBOOST_OBJECTIVES)(name)}
    name = name.lower()
    known = _OPTIONS.get(name, {})
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
