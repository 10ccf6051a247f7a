"""What is said of a parameter that is not known here: its name, if another library has it."""

from __future__ import annotations

from collections.abc import Iterable

from hedgerow.convert.settings.catboost import CATBOOST
from hedgerow.convert.settings.lightgbm import LIGHTGBM
from hedgerow.convert.settings.xgboost import XGBOOST
from hedgerow.errors import did_you_mean

_LIBRARIES = (LIGHTGBM, XGBOOST, CATBOOST)


def name_hint(name: str, known: Iterable[str]) -> str:
    """A sentence with a leading space, or nothing.

    The name here of a parameter of LightGBM, XGBoost or CatBoost, or why there is none; else
    the nearest name.

    Examples
    --------
    >>> name_hint("num_leaves", ["max_leaves", "max_depth"])
    " LightGBM's 'num_leaves' is 'max_leaves' here."
    """
    every = list(known)
    for library in _LIBRARIES:
        theirs = library.canonical(name)
        if theirs is None:
            continue
        rule = library.rules[theirs]
        if rule.ours in every:
            return f" {library.name}'s {name!r} is {rule.ours!r} here."
        if rule.note and not rule.ours:
            return f" {library.name}'s {name!r} is not here: {rule.note}"
    return did_you_mean(name, every)
