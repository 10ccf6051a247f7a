"""Parameters of research interest, which estimators take in the mapping ``advanced``.

Functions such as :func:`hedgerow.train` also take them directly::

    HedgerowClassifier(max_leaves=15, advanced={"statistics_order": 1})
    train({"max_leaves": 15, "statistics_order": 1}, dataset)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.params import PARAMETERS

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
