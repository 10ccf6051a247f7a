"""Hints for options that a command does not have."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

from hedgerow.errors import did_you_mean

_OTHER_NAMES = {
    other: ours
    for ours, others in {
        "--valid": "eval eval-set validation",
        "--target": "label labels y",
        "--groups": "group",
        "--drop": "ignore ignore-column ignore-columns exclude exclude-columns skip drop-column "
        "drop-columns",
        "-o": "save output-model output-path",
        "--set": "param params",
    }.items()
    for other in others.split()
}
"""Options of other programs, and those of Hedgerow with the same meaning."""
_PARAMETERS = {"threads": "n_jobs", "trees": "n_estimators", "rounds": "n_estimators"}
"""Options of other programs, and parameters of Hedgerow with the same meaning."""


def unknown_option_hint(rest: Sequence[str], known: Iterable[str], positional: set[str]) -> str:
    """Return a sentence about the first unknown option, or ``""``."""
    first = next((each for each in rest if each.startswith("-") and each != "-"), "")
    option, equals, value = first.partition("=")
    name, every = option.lstrip("-"), set(known)
    if not name:
        return ""
    if name in positional:
        return f": {name.upper()} is given without an option, by its place"
    ours = _OTHER_NAMES.get(name.replace("_", "-"))
    if ours in every:
        return f": use {ours!r}"
    if ours == "--drop":
        return ": columns that the model does not use are ignored"
    if "--set" in every:
        after = rest[rest.index(first) + 1 :]
        given = value if equals else next((v for v in after[:1] if not v.startswith("--")), "...")
        hint = _parameter_hint(name.replace("-", "_"), given)
        if hint:
            return hint
    found = did_you_mean(option, every)
    return f".{found}" if found else ""


def _parameter_hint(name: str, value: str) -> str:
    """Return how to set a parameter, by its name here or in another library; else ``""``."""
    from hedgerow.advanced import ADVANCED_NAMES
    from hedgerow.convert.settings.names import name_hint
    from hedgerow.estimators import HedgerowClassifier, HedgerowRanker, HedgerowRegressor

    kinds = (HedgerowClassifier, HedgerowRanker, HedgerowRegressor)
    name = _PARAMETERS.get(name, name)
    known = {each for kind in kinds for each in inspect.signature(kind).parameters}
    if name in {*known, *ADVANCED_NAMES} - {"callbacks", "progress", "advanced"}:
        return f": parameters are given by --set, such as --set {name}={value}"
    hint = name_hint(name, known)
    return f".{hint} Parameters are given by --set NAME=VALUE" if "'s " in hint else ""
