"""``--set name=value``: parameters of an estimator, as text."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from typing import Any

from hedgerow.advanced import ADVANCED_NAMES, grouped
from hedgerow.cli.usage import UsageError

_WORDS = {"true": True, "false": False, "none": None, "null": None}
_OWN_OPTIONS = {"callbacks", "progress", "advanced"}


def parse_settings(pairs: Iterable[str], estimator: type) -> dict[str, Any]:
    """Return values by name; an unknown name is an error with a suggestion.

    Advanced parameters are set like the others.

    A value is a Python number, list or quoted text, or ``true``, ``false`` or ``none`` in upper
    or lower case.  Any other value is plain text.
    """
    known = {*inspect.signature(estimator).parameters, *ADVANCED_NAMES} - _OWN_OPTIONS
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageError(f"--set {pair}: write it as name=value, such as --set max_leaves=15")
        if name not in known:
            from hedgerow.convert.settings.names import name_hint

            one = " Set its parameters one by one, such as --set sketch=local."
            hint = one if name == "advanced" else name_hint(name, known)
            raise UsageError(f"--set {pair}: unknown parameter {name!r}.{hint}")
        if name in settings:
            raise UsageError(f"--set {pair}: {name} was already set to {settings[name]!r}")
        settings[name] = parse_value(text)
    return grouped(settings)


def parse_value(text: str) -> Any:
    """Return the number, list, boolean or None that ``text`` spells, else the text."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
