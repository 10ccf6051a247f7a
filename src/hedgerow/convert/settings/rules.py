"""Translation of parameters of another library, with notes on differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hedgerow.advanced import grouped
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
        Hedgerow's name; empty if there is no such parameter.
    default : object
        Default of the library; None if the default needs no translation.
    note : str
        Difference to the library, or reason why Hedgerow has no such parameter.
    convert : callable, optional
        ``convert(value)`` returns the value for Hedgerow, or a mapping of several parameters.
    harmless : object
        Values without effect, for a parameter that Hedgerow does not have; other values are an
        error.  None: no value changes the model.
    """

    ours: str = ""
    default: Any = None
    note: str = ""
    convert: Callable[[Any], Any] | None = None
    harmless: tuple[Any, ...] | None = None


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
    name : str
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

    Raises
    ------
    ValueError
        If two tables have the same name: the second entry would hide the first.
    """
    found: dict[str, Value] = {}
    for table in tables:
        twice = sorted(found.keys() & table.keys())
        if twice:
            raise ValueError(f"names in two tables: {', '.join(twice)}.")
        found.update(table)
    return found


def translate(library: Library, params: Mapping[str, Any], defaults: bool) -> Translation:
    """Translate the parameters of another library.

    Raises
    ------
    ParameterError
        For an unknown name, two names of one parameter with different values, or a value that
        Hedgerow does not support.
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
    return Translation(grouped(found), tuple(notes))


def _by_canonical_name(library: Library, params: Mapping[str, Any]) -> Values:
    given: Values = {}
    for name, value in params.items():
        known = library.canonical(name)
        if known is None:
            hint = did_you_mean(str(name), [*library.rules, *library.aliases])
            raise ParameterError(f"{library.name} has no parameter {name!r}.{hint}")
        if known in given and given[known] != value:
            raise ParameterError(
                f"{name!r} and another name of {known!r} have different values: leave one out."
            )
        given[known] = value
    return given


def _say(library: Library, name: str, value: Any, found: Values, notes: list[str]) -> None:
    """Add one parameter."""
    rule = library.rules[name]
    if not rule.ours and rule.convert is None:
        if rule.harmless is not None and value not in rule.harmless:
            raise ParameterError(f"{library.name}'s {name}={value!r} is not supported: {rule.note}")
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
    """Return a converter for named values; an unknown name is an error."""

    def convert(value: Any) -> Any:
        key = str(value).lower()
        if key not in known:
            hint = did_you_mean(key, known)
            raise ParameterError(f"{name}={value!r} is not supported.{hint}")
        return known[key]

    return convert


def device(value: Any) -> str:
    """Translate a device: everything but the processor is the first GPU."""
    name, _, number = str(value).lower().partition(":")
    if number not in ("", "0"):
        raise ParameterError(
            f"device {value!r} is not the first GPU: set CUDA_VISIBLE_DEVICES={number} in the "
            "environment, and use device='cuda'."
        )
    return "cpu" if name == "cpu" else "cuda"


def limit(value: Any) -> Any:
    """Return a limit; 0 and -1 mean no limit."""
    return None if value in (0, -1) else value


def as_list(value: Any) -> Any:
    """Return a list of numbers from text with commas, with or without brackets."""
    if not isinstance(value, str):
        return value
    inside = value.strip().strip("()[]")
    try:
        return [int(part) for part in inside.split(",") if part.strip()]
    except ValueError:
        raise ParameterError(f"{value!r} is not a list of whole numbers.") from None


def as_lists(value: Any) -> Any:
    """Return lists of columns, also from text: ``"[[0, 1], [2]]"`` or ``"[0, 1], [2]"``."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text:
        return None
    try:
        return json.loads(text if text.startswith("[[") or text == "[]" else f"[{text}]")
    except json.JSONDecodeError:
        raise ParameterError(
            f"{value!r} is not a list of lists of columns, such as '[[0, 1], [2, 3]]'."
        ) from None


def of_the_loss(library: Library, said: Values, differences: tuple[str, ...]) -> Translation:
    """Return the translation without parameters of other objectives.

    The library ignores them; Hedgerow would raise an error.
    """
    objective = said.get("objective", "squared_error")
    unused = [name for name in said if objective not in PARAMETERS.get(name, (objective,))]
    name_of = {rule.ours: name for name, rule in library.rules.items() if rule.ours}
    notes = tuple(
        f"{name_of.get(name, name)}: it has no effect with objective {objective!r} and is left out."
        for name in unused
    )
    kept = {name: value for name, value in said.items() if name not in unused}
    return Translation(kept, (*differences, *notes))
