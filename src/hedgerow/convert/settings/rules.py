"""How a parameter of another library is said here, and what differs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hedgerow.errors import ParameterError, did_you_mean
from hedgerow.objectives import PARAMETERS

Values = dict[str, Any]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Rule:
    """One parameter of another library.

    Attributes
    ----------
    ours : str
        Name here; empty if there is none.
    default : object
        What the library takes if it is not given; None if nothing is to be said.
    note : str
        What differs, or why there is no such parameter here.
    convert : callable, optional
        ``convert(value)`` is the value here, or a mapping of several names.
    harmless : object
        With no name here, a tuple of values that change nothing; with other values it is
        an error.  None: no value matters for the model.
    """

    ours: str = ""
    default: Any = None
    note: str = ""
    convert: Callable[[Any], Any] | None = None
    harmless: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class Translation:
    """Parameters here, and what differs.

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
    name : str
    rules : mapping from canonical name to Rule
    aliases : mapping from other name to canonical name
    """

    name: str
    rules: Mapping[str, Rule]
    aliases: Mapping[str, str] = field(default_factory=dict)

    def canonical(self, name: str) -> str | None:
        """The name that rules have; None for an unknown one."""
        if name in self.rules:
            return name
        return self.aliases.get(name)


def united(*tables: Mapping[str, Value]) -> dict[str, Value]:
    """One table of several.

    Raises
    ------
    ValueError
        If a name stands in two of them: the second would hide the first.
    """
    found: dict[str, Value] = {}
    for table in tables:
        twice = sorted(found.keys() & table.keys())
        if twice:
            raise ValueError(f"names that stand twice: {', '.join(twice)}.")
        found.update(table)
    return found


def translate(library: Library, params: Mapping[str, Any], defaults: bool) -> Translation:
    """Say parameters of another library in the names of ours.

    Raises
    ------
    ParameterError
        For a name that the library does not have, two names of one parameter with different
        values, or what cannot be done here.
    """
    given = _by_canonical_name(library, params)
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
    return Translation(found, tuple(notes))


def _by_canonical_name(library: Library, params: Mapping[str, Any]) -> Values:
    given: Values = {}
    for name, value in params.items():
        known = library.canonical(name)
        if known is None:
            hint = did_you_mean(str(name), [*library.rules, *library.aliases])
            raise ParameterError(f"{library.name} has no parameter {name!r}.{hint}")
        if known in given and given[known] != value:
            raise ParameterError(
                f"{name!r} and another name of {known!r} are given with different values: leave "
                "one out."
            )
        given[known] = value
    return given


def _say(library: Library, name: str, value: Any, found: Values, notes: list[str]) -> None:
    """Add one parameter."""
    rule = library.rules[name]
    if not rule.ours and rule.convert is None:
        if rule.harmless is not None and value not in rule.harmless:
            raise ParameterError(f"{library.name}'s {name}={value!r} is not here: {rule.note}")
        if rule.note:
            notes.append(f"{name}: {rule.note}")
        return
    said = value
    if rule.convert is not None and value is not None:
        said = rule.convert(value)
    if rule.ours:
        found[rule.ours] = said
    elif isinstance(said, Mapping):
        found.update(said)
    if rule.note:
        notes.append(f"{name}: {rule.note}")


def choice(name: str, known: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A converter of words; a word that is not known is an error."""

    def convert(value: Any) -> Any:
        key = str(value).lower()
        if key not in known:
            hint = did_you_mean(key, known)
            raise ParameterError(f"{name}={value!r} is not here.{hint}")
        return known[key]

    return convert


def limit(value: Any) -> Any:
    """A limit that the library switches off by 0 or -1."""
    return None if value in (0, -1) else value


def as_list(value: Any) -> Any:
    """Numbers separated by commas, perhaps in brackets, as a list."""
    if not isinstance(value, str):
        return value
    inside = value.strip().strip("()[]")
    try:
        return [int(part) for part in inside.split(",") if part.strip()]
    except ValueError:
        raise ParameterError(f"{value!r} is no list of whole numbers.") from None


def as_lists(value: Any) -> Any:
    """Lists of columns, also as text: ``"[[0, 1], [2]]"``, or without the brackets around."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text:
        return None
    try:
        return json.loads(text if text.startswith("[[") or text == "[]" else f"[{text}]")
    except json.JSONDecodeError:
        raise ParameterError(
            f"{value!r} is no list of lists of columns, such as '[[0, 1], [2, 3]]'."
        ) from None


def of_the_loss(library: Library, said: Values, differences: tuple[str, ...]) -> Translation:
    """The translation without parameters of losses other than the one that is asked for.

    The library does not look at them; here they would be an error.
    """
    objective = said.get("objective", "squared_error")
    unused = [name for name in said if objective not in PARAMETERS.get(name, (objective,))]
    theirs = {rule.ours: name for name, rule in library.rules.items() if rule.ours}
    notes = tuple(
        f"{theirs.get(name, name)}: it has no effect with objective {objective!r} and is left out."
        for name in unused
    )
    kept = {name: value for name, value in said.items() if name not in unused}
    return Translation(kept, (*differences, *notes))
