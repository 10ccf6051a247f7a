"""Translation of parameters of another library, with notes on differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hedgerow.advanced import grouped
from hedgerow.argument_types import check_bool, check_mapping
from hedgerow.convert.settings.values import flag, number
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.objectives import PARAMETERS, RANKING

Values = dict[str, Any]
Value = TypeVar("Value")

SPEED = "it affects only speed, memory or messages, so it has no counterpart."
IMPORTANCE = "it does not change the model: give kind to importance or feature_importance."
OFF: Values = {"early_stopping": False, "linear_leaves": False, "feature_crosses": None}
"""Parameters that Hedgerow may enable by ``"auto"``, and other libraries only on request."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One parameter of another library.

    Attributes
    ----------
    ours : str
        Hedgerow's name; empty if there is no such parameter.
    default : object
        Default of the library; None if the default needs no translation.
    note : str
        Difference to the library, or reason why Hedgerow has no such parameter.
    convert : callable, optional
        ``convert(value)`` returns the value for Hedgerow, or a mapping of several parameters.
        It raises a ``ValueError`` that says what it takes.  Without it, a parameter with a
        counterpart is a number.
    harmless : object
        Values without effect, for a parameter that Hedgerow does not have; other values are an
        error.  None: no value changes the model.
    when : callable, optional
        ``when(value)`` tells whether the note applies to a value.  Without it, it applies to all.
    """

    ours: str = ""
    default: Any = None
    note: str = ""
    convert: Callable[[Any], Any] | None = None
    harmless: tuple[Any, ...] | None = None
    when: Callable[[Any], bool] | None = None

    def ignores(self, value: Any) -> bool:
        """Return whether a value has no effect; text counts as the value that it spells."""
        if self.harmless is None:
            return True
        value = value.tolist() if hasattr(value, "tolist") else value
        spelled = [value]
        for read in (number, flag):
            with suppress(ValueError):
                spelled.append(read(value))
        texts = [each.lower() for each in self.harmless if isinstance(each, str)]
        return str(value).lower() in texts or any(each in self.harmless for each in spelled)


@dataclass(frozen=True, slots=True)
class Translation:
    """Parameters of Hedgerow, and the differences to the other library.

    Attributes
    ----------
    params : dict
        For an estimator, ``HedgerowClassifier(**params)``, or :func:`hedgerow.train`.
    differences : tuple of str
        One sentence each.
    """

    params: Values
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Library:
    """The parameters of a library.

    Attributes
    ----------
    rules : mapping from canonical name to Rule
    aliases : mapping from other name to canonical name
    """

    name: str
    rules: Mapping[str, Rule]
    aliases: Mapping[str, str] = field(default_factory=dict)

    def canonical(self, name: str) -> str | None:
        """Return the name that the rules use; None for an unknown name."""
        if name in self.rules:
            return name
        return self.aliases.get(name)


def united(*tables: Mapping[str, Value]) -> dict[str, Value]:
    """Join several tables.

    Raise ``ValueError`` if two tables have the same name: the second entry would hide the
    first.
    """
    found: dict[str, Value] = {}
    for table in tables:
        twice = sorted(found.keys() & table.keys())
        if twice:
            raise ValueError(f"names in two tables: {', '.join(twice)}.")
        found.update(table)
    return found


def translate(library: Library, params: Mapping[str, Any], defaults: bool) -> Translation:
    """Translate the parameters of another library; None means that a parameter is not given.

    Raise ``ParameterError`` for an unknown name, two names of one parameter with different
    values, or a value that Hedgerow does not support.
    """
    check_bool(defaults, "defaults")
    given = by_canonical_name(library, params)
    found: Values = {}
    notes: list[str] = []
    for name, value in given.items():
        _say(library, name, value, found, notes)
    if defaults:
        for name, rule in library.rules.items():
            if name in given or rule.default is None or not rule.ours:
                continue
            said: Values = {}
            _say(library, name, rule.default, said, [])
            found = {**said, **found}
    return Translation(grouped(found), tuple(notes))


def by_canonical_name(library: Library, params: Mapping[str, Any]) -> Values:
    """Return the given parameters by the names of the rules, without those that are None.

    Raise ``ParameterError`` for an unknown name, or two names of one parameter with
    different values.
    """
    given: Values = {}
    check_mapping(params)
    for name, value in params.items():
        known = library.canonical(name)
        if known is None:
            hint = did_you_mean(name, [*library.rules, *library.aliases])
            raise ParameterError(f"{library.name} has no parameter {name!r}.{hint}")
        if value is None:
            continue
        if known in given and given[known] != value:
            raise ParameterError(
                f"{name!r} and another name of {known!r} have different values: leave one out."
            )
        given[known] = value
    return given


def _say(library: Library, name: str, value: Any, found: Values, notes: list[str]) -> None:
    """Add one parameter."""
    rule = library.rules[name]
    if not rule.ignores(value):
        raise ParameterError(
            f"{library.name}'s {name}={brief(value)} is not supported: {rule.note}"
        )
    convert = rule.convert or (number if rule.ours else None)
    try:
        said = value if convert is None else convert(value)
        applies = bool(rule.note) and (rule.when is None or rule.when(value))
    except ParameterError:
        raise
    except (TypeError, ValueError) as fault:
        raise ParameterError(f"{library.name}'s {name}={brief(value)}: {fault}.") from None
    if rule.ours:
        found[rule.ours] = said
    elif convert is not None and isinstance(said, Mapping):
        found.update(said)
    if applies:
        notes.append(f"{name}: {rule.note}")


_USED_WITH: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("drop_rate", "skip_drop", "max_drop"), ("boosting", "dart")),
    **dict.fromkeys(("goss_top_rate", "goss_other_rate"), ("sampling", "goss")),
    "linear_lambda": ("linear_leaves", True),
}
"""Parameters that have an effect only with a value of another one, here and in the libraries."""


def of_the_kind(library: Library, said: Values) -> tuple[Values, list[str]]:
    """Return the parameters without those of other kinds of models, and notes on these.

    The library ignores them; Hedgerow would raise an error.
    """
    name_of = {rule.ours: name for name, rule in library.rules.items() if rule.ours}
    unused = {
        name: f"{other}={brief(value)}"
        for name, (other, value) in _USED_WITH.items()
        if name in said and said.get(other) != value
    }
    notes = [
        f"{name_of.get(name, name)}: it has no effect without {other} and is left out."
        for name, other in unused.items()
    ]
    return {name: value for name, value in said.items() if name not in unused}, notes


def of_the_loss(library: Library, said: Values, differences: Iterable[str]) -> Translation:
    """Return the translation without parameters of other objectives.

    The library ignores them; Hedgerow would raise an error.  Without an objective, parameters of
    rankings are kept: the libraries' rankers have an objective of their own.
    """
    objective = said.get("objective", "squared_error")
    others = [name for name in said if objective not in PARAMETERS.get(name, (objective,))]
    of_rankers = [
        name for name in others if "objective" not in said and set(PARAMETERS[name]) <= {*RANKING}
    ]
    unused = [name for name in others if name not in of_rankers]
    name_of = {rule.ours: name for name, rule in library.rules.items() if rule.ours}
    notes = (
        *(
            f"{name_of.get(name, name)}: it has no effect with objective {objective!r} and is left "
            "out."
            for name in unused
        ),
        *(
            f"{name_of.get(name, name)}: it is for a HedgerowRanker; {library.name} ignores it for "
            "other objectives, and Hedgerow refuses it."
            for name in of_rankers
        ),
    )
    kept = {name: value for name, value in said.items() if name not in unused}
    return Translation(kept | _in_its_units(kept), (*differences, *notes))


def _in_its_units(said: Values) -> Values:
    """Return penalties on gains and gradients in the units of the objective.

    Hedgerow's gradients of the absolute error are -1/2 and 1/2, those of the libraries -1 and 1.
    """
    if said.get("objective") != "absolute_error":
        return {}
    factors = {"gamma": 0.25, "reg_alpha": 0.5}
    return {name: said[name] * factor for name, factor in factors.items() if name in said}
