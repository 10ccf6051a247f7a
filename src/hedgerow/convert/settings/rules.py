"""Translation of parameters of another library, with notes on differences.

A library is a few tables of its parameters, by its own names::

    counterparts    Hedgerow's name, and the default that is translated (None: no default is)
    rules           parameters with values of their own
    refused         what to use instead, and the only values without effect
    without         names by the reason why Hedgerow has no such parameter; no value has an effect
    aliases         other names of a parameter

and two functions for what depends on several parameters: ``arrange(given)`` changes the given
parameters before they are translated, ``adjust(said, given, defaults)`` the translated ones.  Both
return notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hedgerow.argument_types import check_bool, check_mapping
from hedgerow.convert.settings import values as v
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.objectives import PARAMETERS, RANKING
from hedgerow.shown import Viewed

Values = dict[str, Any]
Value = TypeVar("Value")

SPEED = "it affects only speed, memory or messages, so it has no counterpart."
IMPORTANCE = "it does not change the model: give kind to importance or feature_importance."
POSITIONS = "weight the rows by how rarely their positions are looked at (ranking.md)."
UNLIKE = "the random numbers differ, so models differ in detail."
CLASS_WEIGHT = "use class_weight, which keeps probabilities calibrated."
FROM_BEST = "the model starts from the best constant."
CLASSES_OF_Y = "the number of classes comes from y."
OFF: Values = {"early_stopping": False, "linear_leaves": False, "feature_crosses": None}
"""Parameters that Hedgerow may enable by ``"auto"``, and other libraries only on request."""

_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("max_depth", "n_jobs"), v.limit),
    **dict.fromkeys(("max_cat_threshold", "max_cat_to_onehot"), v.between(1, v.MOST_LEVELS)),
    **dict.fromkeys(("zero_as_missing", "linear_leaves", "extra_trees"), v.flag),
    **dict.fromkeys(("normalize_pairs", "train_scores"), v.flag),
    **dict.fromkeys(("feature_weights", "label_gain"), v.as_numbers),
    "max_bins": v.between(2, v.MOST_BINS),
    "gamma": v.half,
    "device": v.device,
    "categorical_features": v.columns,
    "monotone_constraints": v.directions,
    "interaction_constraints": v.as_lists,
    "class_weight": v.class_weights,
    "max_bins_by_feature": v.as_list,
}
"""How values of other libraries are read, by Hedgerow's name; the others are numbers."""

_REMARKS: dict[str, tuple[str, Callable[[Any], bool] | None]] = {
    "max_bins": ("a column has at most 255 bins.", v.above(v.MOST_BINS)),
    **dict.fromkeys(
        ("max_cat_threshold", "max_cat_to_onehot"), ("it is at most 254.", v.above(v.MOST_LEVELS))
    ),
    "random_state": (UNLIKE, None),
    "categorical_features": ("for hedgerow.train it is a parameter of Dataset.", None),
}
"""Notes that hold for every library, and for which values (None: all), by Hedgerow's name."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One parameter of another library; ``ours`` is empty if Hedgerow has no such parameter.

    ``convert`` returns our value or a mapping of several, or raises a ``ValueError`` that says what
    it takes; without it the value is a number.
    """

    ours: str = ""
    default: Any = None  # of the library; None: it needs no translation
    note: str = ""
    convert: Callable[[Any], Any] | None = None
    harmless: tuple[Any, ...] | None = None  # values without effect; None: none changes the model
    when: Callable[[Any], bool] | None = None  # whether the note applies to a value; None: to all

    def ignores(self, value: Any) -> bool:
        """Return whether a value has no effect; text counts as the value that it spells."""
        if self.harmless is None:
            return True
        value = value.tolist() if hasattr(value, "tolist") else value
        spelled = [value]
        for read in (v.number, v.flag):
            with suppress(ValueError):
                spelled.append(read(value))
        texts = [each.lower() for each in self.harmless if isinstance(each, str)]
        return str(value).lower() in texts or any(each in self.harmless for each in spelled)


@dataclass(frozen=True, slots=True, repr=False)
class Translation(Viewed):
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

    def _facts(self) -> dict[str, object]:
        return {"parameters": len(self.params), "differences": len(self.differences)}


@dataclass(frozen=True, slots=True)
class Library:
    """The parameters of a library: rules by canonical name, and canonical names by other name."""

    name: str
    rules: Mapping[str, Rule]
    aliases: Mapping[str, str]
    adjust: Callable[[Values, Values, bool], list[str]]
    arrange: Callable[[Values], list[str]] = lambda given: []
    loss_notes: Mapping[str, str] = field(default_factory=dict)

    def canonical(self, name: str) -> str | None:
        """Return the name that the rules use; None for an unknown name."""
        return name if name in self.rules else self.aliases.get(name)

    def of(self, ours: str) -> str:
        """Return the library's name of one of Hedgerow's parameters."""
        return {rule.ours: name for name, rule in self.rules.items()}.get(ours, ours)


def united(*tables: Mapping[str, Value]) -> dict[str, Value]:
    """Join tables; raise ``ValueError`` for a name in two, of which one would hide the other."""
    found: dict[str, Value] = {}
    for table in tables:
        twice = sorted(found.keys() & table.keys())
        if twice:
            raise ValueError(f"names in two tables: {', '.join(twice)}.")
        found.update(table)
    return found


def library(
    name: str,
    counterparts: Mapping[str, tuple[str, Any]],
    rules: Mapping[str, Rule],
    refused: Mapping[str, tuple[str, tuple[Any, ...]]],
    without: Mapping[str, str],
    aliases: Mapping[str, str],
    **more: Any,
) -> Library:
    """Return the library of the tables that are listed at the top of this module."""
    alike = {}
    for peer, (ours, default) in counterparts.items():
        note, when = _REMARKS.get(ours, ("", None))
        alike[peer] = Rule(ours, default, note, _READERS.get(ours), when=when)
    refusals = {peer: Rule(note=note, harmless=known) for peer, (note, known) in refused.items()}
    missing = (dict.fromkeys(names.split(), Rule(note=why)) for why, names in without.items())
    others = (dict.fromkeys(names.split(), peer) for peer, names in aliases.items())
    return Library(name, united(alike, rules, refusals, *missing), united(*others), **more)


def translate(library: Library, params: Mapping[str, Any], defaults: bool) -> Translation:
    """Translate the parameters of another library; None means that a parameter is not given."""
    check_bool(defaults, "defaults")
    given = _by_canonical_name(library, params)
    arranged = library.arrange(given)
    said: Values = {}
    notes: list[str] = []
    for name, value in given.items():
        _say(library, name, value, said, notes)
    if defaults:
        for name, rule in library.rules.items():
            if rule.ours not in said and name not in given and rule.default is not None:
                _say(library, name, rule.default, said, [])
    notes += [*arranged, *library.adjust(said, given, defaults)]
    if said.get("sampling") == "mvs" and said.get("subsample", 0.0) >= 1.0:
        del said["sampling"]  # all rows are in the sample
    loss = str(said.get("objective"))
    if loss in library.loss_notes:
        notes.append(f"objective: {library.loss_notes[loss]}")
    notes += _leave_out_others(library, said)
    # Hedgerow's gradients of the absolute error are -1/2 and 1/2, those of the libraries -1 and 1.
    if said.get("objective") == "absolute_error":
        for name, factor in (("gamma", 0.25), ("reg_alpha", 0.5)):
            if name in said:
                said[name] *= factor
    return Translation(said, tuple(notes))


def _by_canonical_name(library: Library, params: Mapping[str, Any]) -> Values:
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
    convert = rule.convert or (v.number if rule.ours else None)
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


def _leave_out_others(library: Library, said: Values) -> Iterable[str]:
    """Remove parameters of other kinds of models and of other objectives; yield notes on them."""
    # The library ignores them; Hedgerow would raise an error. Without an objective, parameters of
    # rankings are kept: the libraries' rankers have an objective of their own.
    for name, (other, value) in _USED_WITH.items():
        if name in said and said.get(other) != value:
            del said[name]
            without = f"{other}={brief(value)}"
            yield f"{library.of(name)}: it has no effect without {without} and is left out."
    loss = said.get("objective", "squared_error")
    for name in [name for name in said if loss not in PARAMETERS.get(name, (loss,))]:
        if "objective" not in said and set(PARAMETERS[name]) <= {*RANKING}:
            yield (
                f"{library.of(name)}: it is for a HedgerowRanker; {library.name} ignores it for "
                "other objectives, and Hedgerow refuses it."
            )
        else:
            del said[name]
            yield f"{library.of(name)}: it has no effect with objective {loss!r} and is left out."
