"""Suggestions for unknown parameters, which may belong to another library."""

from __future__ import annotations

from collections.abc import Iterable

from hedgerow.convert.settings.lightgbm import LIGHTGBM
from hedgerow.convert.settings.rules import Library
from hedgerow.convert.settings.xgboost import XGBOOST
from hedgerow.errors import did_you_mean
from hedgerow.params import ADVANCED_NAMES, advanced_hint

_LIBRARIES = (LIGHTGBM, XGBOOST)

_OF_FIT = {
    "eval_set": "give X_val and y_val, or X_val={'name': (X, y)} for several sets.",
    "eval_X": "give X_val.",
    "eval_y": "give y_val.",
    "eval_names": "give X_val={'name': (X, y)}.",
    "eval_sample_weight": "give sample_weight_val.",
    "sample_weight_eval_set": "give sample_weight_val.",
    "eval_qid": "give qid_val.",
    "base_margin": "give offset.",
    "base_margin_eval_set": "give offset_val.",
    "init_score": "give offset.",
    "eval_init_score": "give offset_val.",
    "group": "give qid, the query of each row.",
    "position": "give sample_weight, one over how often its position is looked at (ranking.md).",
    "eval_group": "give qid_val, the query of each row.",
    "xgb_model": "give init_model.",
    "early_stopping_rounds": "give patience to the constructor.",
    "categorical_feature": "give categorical_features to the constructor.",
    "cat_features": "give categorical_features to the constructor.",
    "feature_name": "names of columns are read from data frames.",
    "verbose": "give progress to the constructor.",
    "verbose_eval": "give progress to the constructor.",
    "baseline": "give offset.",
    "use_best_model": "early stopping keeps the best rounds.",
}
"""Arguments of other libraries' ``fit``, and their replacements."""

_OTHERS = {
    "scikit-learn": {
        "max_iter": "n_estimators",
        "max_leaf_nodes": "max_leaves",
        "l2_regularization": "reg_lambda",
        "max_features": "colsample_bynode",
        "monotonic_cst": "monotone_constraints",
        "interaction_cst": "interaction_constraints",
        "n_iter_no_change": "patience",
        "tol": "min_delta",
        "scoring": "eval_metric",
        "handle_unknown": "unknown_category",
        "loss": "objective",
    },
    "CatBoost": {
        "loss_function": "objective",
        "iterations": "n_estimators",
        "depth": "max_depth",
        "l2_leaf_reg": "reg_lambda",
        "rsm": "colsample_bylevel",
        "border_count": "max_bins",
        "one_hot_max_size": "max_cat_to_onehot",
        "bootstrap_type": "sampling",
        "leaf_estimation_method": "leaf_estimation",
        "class_weights": "class_weight",
        "cat_features": "categorical_features",
        "thread_count": "n_jobs",
        "od_wait": "patience",
    },
}
"""Parameters of estimators whose sets of parameters are not translated, and their names here."""

_OF_ROWS = {
    "groups": "'groups' belong to the rows: pass them to fit, or to Dataset. "
    "A ranking takes none: it holds out complete queries.",
    "group": "In place of 'group', give qid, the query of each row, to fit or to Dataset.",
    "handle_unknown": "In place of 'handle_unknown', use unknown_category of Dataset.",
}
"""Names that belong to rows and are not parameters, with the text of the hint."""

_TRANSLATED = {"early_stopping_round": "patience", "early_stopping_rounds": "patience"}
"""Parameters whose rule gives several of Hedgerow, and the one that is meant."""

_MESSAGES = ("verbose", "verbosity", "verbose_eval", "silent", "logging_level")
"""Parameters of other libraries for the output of a fit; a Hedgerow fit prints nothing."""


def name_hint(name: str, known: Iterable[str]) -> str:
    """Return a sentence with a leading space, or an empty text."""
    # It has Hedgerow's name for a parameter of another library, the reason why there is no such
    # parameter, or the nearest name.
    every = list(known)
    if name in _MESSAGES:
        return f" In place of {name!r}, progress=True shows a bar, and callbacks get each round."
    for other, names in _OTHERS.items():
        if names.get(name) in every:
            return f" {other}'s {name!r} is {names[name]!r} here."
    if name in _OF_ROWS:
        return f" {_OF_ROWS[name]}"
    of_others = [found for library in _LIBRARIES if (found := _found(library, name))]
    for library, ours, _ in of_others:
        if ours in every:
            return f" {library}'s {name!r} is {ours!r} here."
    for library, ours, note in of_others:
        if ours:
            reason = note or "it belongs to another task."
            return f" {library}'s {name!r} is {ours!r}, which is not a parameter here: {reason}"
        if note:
            return f" {library}'s {name!r} is not supported: {note}"
    if "advanced" not in every:
        return did_you_mean(name, every)
    if name in ADVANCED_NAMES:
        return f" {name!r} is an advanced parameter: pass {advanced_hint(name)}."
    hint = did_you_mean(name, [*every, *ADVANCED_NAMES])
    meant = next((each for each in ADVANCED_NAMES if repr(each) in hint), None)
    return f"{hint} Pass {advanced_hint(meant)}." if meant else hint


def _found(library: Library, name: str) -> tuple[str, str, str] | None:
    """Return the library, Hedgerow's name, which may be empty, and the note of a parameter."""
    peer_name = library.canonical(name)
    if peer_name is None:
        return None
    rule = library.rules[peer_name]
    return library.name, rule.ours or _TRANSLATED.get(peer_name, ""), rule.note


def argument_hint(name: str, known: Iterable[str], parameters: Iterable[str]) -> str:
    """Return the result of :func:`name_hint` for an argument of ``fit``."""
    if name in _OF_FIT:
        return f" In place of {name!r}, {_OF_FIT[name]}"
    if name in parameters:
        return f" {name!r} is a parameter of the constructor."
    near = did_you_mean(name, known)
    return near or name_hint(name, parameters)


def unknown_names(names: Iterable[object], known: Iterable[str], where: str) -> str:
    """Return one message for all unknown parameters."""
    every, wrong = list(known), [str(name) for name in names]
    hints = "".join(name_hint(name, every) for name in wrong)
    of_library = [
        sum(library.canonical(name) is not None for name in wrong) for library in _LIBRARIES
    ]
    if max(of_library) > 1:
        library = _LIBRARIES[of_library.index(max(of_library))].name.lower()
        hints += f" hedgerow.from_{library}_params translates a whole dict."
    return f"{where} has no parameter {', '.join(map(repr, wrong))}.{hints}"
