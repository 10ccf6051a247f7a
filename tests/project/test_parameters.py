"""The table of parameters (:mod:`hedgerow.params`) and what must agree with it.

Docstrings have each parameter with its range and default; samples of the
fuzzer are allowed and change models; the naive rules know every penalty.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Dataset, ParameterError, Training, train
from hedgerow.boosting.automatic.recipe import AUTOMATIC
from hedgerow.estimators.common import joined_texts
from hedgerow.params import ADVANCED_NAMES, PARAMETERS, Interval
from hedgerow.stepwise import CHANGEABLE
from tests.fuzz.configurations import NEEDED, OPTIONS, make_fit_together
from tests.helpers.docstrings import BOOSTED, TREES, Entry, described, entries
from tests.reference.naive import Rules

PAGE = Path(__file__).resolve().parents[2] / "docs" / "parameters.md"


# -- docstrings ------------------------------------------------------------------------


def range_of(allowed: Interval) -> str:
    """Write a range as docstrings do."""
    kind = "int" if allowed.integer else "float"
    if allowed.high >= 1_000_000:
        return f"{kind} {'>' if allowed.low_open else '>='} {allowed.low:g}"
    if allowed.integer:
        return f"int from {allowed.low:g} to {allowed.high:g}"
    left, right = "(" if allowed.low_open else "[", ")" if allowed.high_open else "]"
    return f"float in {left}{allowed.low:g}, {allowed.high:g}{right}"


@pytest.mark.parametrize("kind", [*BOOSTED, *TREES], ids=lambda kind: kind.__name__)
def test_every_parameter_has_its_range_default_and_a_sentence(kind: Any) -> None:
    known = described(kind)
    for name, parameter in inspect.signature(kind).parameters.items():
        entry = known[name]
        assert ast.literal_eval(entry.kind.partition("default=")[2]) == parameter.default, name
        assert entry.text.endswith("."), name
        assert entry.group or kind in TREES, name
        allowed = PARAMETERS[name].allowed if kind in BOOSTED and name in PARAMETERS else None
        if isinstance(allowed, Interval):
            assert entry.kind.startswith(range_of(allowed)), name
        elif allowed is not None and True in allowed:
            assert entry.kind.startswith("bool"), name
        elif allowed is not None:
            assert ast.literal_eval(entry.kind.partition("}")[0] + "}") == set(allowed), name


def test_entries_are_read_with_their_group() -> None:
    text = """Title.

    Parameters
    ----------
    First:
    a, b : int, default=1
        One
        text.

    Second:
    c : bool
        Other.

    Returns
    -------
    d : int
    """
    assert list(entries(text)) == [
        Entry("a, b", "int, default=1", "One text.", "Parameters", "First"),
        Entry("c", "bool", "Other.", "Parameters", "Second"),
    ]


def test_texts_of_an_estimator_and_its_base_are_one_docstring() -> None:
    own = "Title.\n\nParameters\n----------\nOwn:\nb : int\n    B.\n\nExamples\n--------\n>>> 1\n"
    shared = (
        "Base.\n\nParameters\n----------\nFirst:\na : int\n    A.\n\nStopping:\nc : int\n    C.\n\n"
        "Attributes\n----------\nd_ : int\n    D."
    )
    text = joined_texts(own, shared)
    assert [(e.names, e.group) for e in entries(text)] == [
        ("a", "First"), ("b", "Own"), ("c", "Stopping"), ("d_", ""),
    ]  # fmt: skip
    assert text.startswith("Title.\n\nParameters\n")
    assert text.endswith("    D.\n\nExamples\n--------\n>>> 1")


@pytest.mark.skipif(not PAGE.exists(), reason="runs in a checkout only")
def test_the_page_has_what_docstrings_refer_to() -> None:
    page = PAGE.read_text("utf-8")
    short = {name for name, entry in described(BOOSTED[0]).items() if PAGE.name in entry.text}
    assert short
    assert [name for name in (*short, *ADVANCED_NAMES) if f"`{name}`" not in page] == []
    listed = page.partition("these between rounds: ")[2].partition("\n\n")[0]
    assert tuple(re.findall("`([a-z_0-9]+)`", listed)) == CHANGEABLE


# -- samples, naive rules ------------------------------------------------------------------


def test_groups_agree_with_the_table_and_the_naive_rules() -> None:
    """A new penalty needs a naive twin, and a new constraint says so in its row."""
    groups: dict[str, set[str]] = {}
    for name, entry in described(BOOSTED[0]).items():
        groups.setdefault(entry.group, set()).add(name)
    assert groups["Leaves"] == {field.name for field in fields(Rules)}
    assert groups["Constraints"] == {name for name, row in PARAMETERS.items() if row.constrains}
    assert set(PARAMETERS) - set().union(*groups.values()) == {"seed", *ADVANCED_NAMES}


def test_every_auto_is_automatic_or_has_a_meaning_of_its_own() -> None:
    rows = PARAMETERS.items()
    own = {name for name, row in rows if isinstance(row.allowed, tuple) and "auto" in row.allowed}
    own |= {"objective", "categorical_features", "blend"}
    auto = {
        name
        for name, parameter in inspect.signature(BOOSTED[0]).parameters.items()
        if parameter.default == "auto"
    }
    assert auto - own == set(AUTOMATIC) - own


SAMPLES: dict[str, Any] = {
    **OPTIONS,
    "n_estimators": (2,),
    "seed": OPTIONS["random_state"],
    "device": ("auto",),
    "monotone_constraints": ({0: -1},),
    "interaction_constraints": ([[0], [1]], "pairwise", "no_interactions"),
    "feature_penalties": ({0: 0.1},),
    "feature_weights": ({0: 0.0},),
    "max_bins_by_feature": ({0: 2},),
    "feature_crosses": ([(0, 1, "product")],),
}
WITHOUT_EFFECT_ON_TREES = ("device", "bundle_features", "oob_score")
N_ROUNDS = 8
USUAL: dict[str, Any] = {"learning_rate": 0.3, "max_leaves": 8, "min_samples_leaf": 2}
USED: dict[str, dict[str, Any]] = {
    **NEEDED,
    "max_drop": {"boosting": "dart", "drop_rate": 0.9, "skip_drop": 0.0},
    "skip_drop": {"boosting": "dart", "drop_rate": 0.9},
    "bundle_order": {"max_conflict_rate": 0.05},
    "bundle_conflicts": {"max_conflict_rate": 0.05},
    "statistics_order": {"target_statistics": True},
    "seed": {"subsample": 0.5},
    "num_parallel_tree": {"colsample_bynode": 0.5},
    "max_cat_threshold": {"min_data_per_group": 1},
    "cat_smooth": {"min_data_per_group": 1},
    "cat_l2": {"min_data_per_group": 1},
    "min_data_per_group": {"cat_smooth": 1.0},
}


def make_data(name: str) -> Dataset:
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [
            rng.normal(size=(240, 2)),
            rng.normal(size=(240, 6)) * (rng.random((240, 6)) < [0.05, 0.1, 0.1, 0.15, 0.2, 0.3]),
            rng.integers(0, [6, 12], (240, 2)),
        ]
    )
    y = (X[:, 0] - X[:, 1] + X[:, 2:8].sum(1)) / 10.0 + (3.0 * X[:, 8] + X[:, 9]) % 5.0 / 5.0
    y = np.column_stack([y, np.abs(X[:, 0])]) if name == "multi_strategy" else y
    of_categories = described(BOOSTED[0]).get(name)
    has_categories = name == "statistics_order" or (
        of_categories is not None and of_categories.group == "Categories"
    )
    return Dataset(X, y, categorical_features=[8, 9] if has_categories else None)


def predictions_by_steps(params: dict[str, Any], changed: dict[str, Any], data: Dataset) -> Any:
    """Train rounds of ``params``, changed before the first."""
    with Training(params, data) as training:
        training.set_params(**changed)
        for _ in range(N_ROUNDS):
            training.update()
        return training.booster().predict(data.X)


@pytest.mark.parametrize("name", PARAMETERS)
def test_samples_are_allowed_and_change_the_model(name: str) -> None:
    """The same trees grow if a parameter of rounds is set before the first round."""
    row, data = PARAMETERS[name], make_data(name)
    usual = {**USUAL, **USED.get(name, {})}
    make_fit_together(usual)
    plain = train({"n_estimators": N_ROUNDS, **usual, "early_stopping": False}, data).predict(
        data.X
    )
    has_effect = name in WITHOUT_EFFECT_ON_TREES
    for value in SAMPLES[name]:
        row.check(name, value)
        params = {**usual, name: value}
        make_fit_together(params)
        found = train({"n_estimators": N_ROUNDS, **params, "early_stopping": False}, data).predict(
            data.X
        )
        has_effect |= found.tobytes() != plain.tobytes()
        if row.set_per == "round":
            changed = {key: params[key] for key in params if params[key] != usual.get(key)}
            assert predictions_by_steps(usual, changed, data).tobytes() == found.tobytes()
    assert has_effect
    if row.set_per == "fit":
        with pytest.raises(ParameterError, match="cannot be changed"):
            predictions_by_steps(USUAL, {name: SAMPLES[name][0]}, data)
