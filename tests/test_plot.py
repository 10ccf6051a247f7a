"""Laws of trees as text, tables and pictures: what is shown is what the tree does."""

from __future__ import annotations

import builtins
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.data.schema import Column, Schema
from hedgerow.kernels.keys import keys_of_floats
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.plot import forest_frame, plot_tree, tree_dot, tree_rules, tree_text
from random_forests import random_model

BIG = 2**53 + 1


def keys(*values: float) -> list[int]:
    return [int(key) for key in keys_of_floats(np.array(values))]


def small_model(second: Column, second_threshold: int) -> Model:
    """``petal_width <= 0.8``, and on its right side a split of the second column."""
    forest = Forest(
        feature=np.array([0, -1, 1, -1, -1], dtype=np.int32),
        threshold=np.array([*keys(0.8), 0, second_threshold, 0, 0]),
        missing_left=np.array([1, 0, 0, 0, 0], dtype=np.uint8),
        left=np.array([1, 0, 3, 0, 0], dtype=np.int32),
        right=np.array([2, 0, 4, 0, 0], dtype=np.int32),
        value=np.array([0.0, -0.43125, 0.1, 0.25, 1 / 3]),
        gain=np.array([52.34567, 0.0, 3.0, 0.0, 0.0]),
        cover=np.array([37.5, 12.5, 25.0, 12.5, 12.5]),
        count=np.array([150, 50, 100, 48, 52]),
        tree_start=np.array([0, 5]),
        base_score=np.zeros(1),
        n_features=2,
    )
    return Model(forest, Schema((Column("petal_width"), second), named=True), "squared_error")


IRIS = small_model(Column("petal_length"), keys(4.75)[0])
WIDE = small_model(Column("id", "int"), BIG)


def chain(n_splits: int) -> Model:
    """A tree all of whose right children are leaves."""
    n = 2 * n_splits + 1
    inner = np.arange(n) % 2 == 0
    inner[-1] = False
    node = np.arange(n)
    forest = Forest(
        feature=np.where(inner, 0, -1).astype(np.int32),
        threshold=np.where(inner, 1 << 60, 0),
        missing_left=np.zeros(n, dtype=np.uint8),
        left=np.where(inner, node + 2, 0).astype(np.int32),
        right=np.where(inner, node + 1, 0).astype(np.int32),
        value=np.zeros(n),
        gain=np.zeros(n),
        cover=np.ones(n),
        count=np.ones(n, dtype=np.int64),
        tree_start=np.array([0, n]),
        base_score=np.zeros(1),
        n_features=1,
    )
    return Model(forest, Schema((Column("a"),)), "squared_error")


def test_text_of_a_known_tree() -> None:
    assert tree_text(IRIS) == "\n".join(
        [
            "tree 0 of 1: 3 leaves, 5 nodes, depth 2",
            "petal_width <= 0.8 (missing left)  gain=52.35 cover=37.5 n=150",
            "├─ yes: value=-0.4313  cover=12.5 n=50",
            "└─ no:  petal_length <= 4.75 (missing right)  gain=3 cover=25 n=100",
            "   ├─ yes: value=0.25  cover=12.5 n=48",
            "   └─ no:  value=0.3333  cover=12.5 n=52",
        ]
    )


def test_depth_can_be_limited() -> None:
    lines = tree_text(IRIS, max_depth=1).splitlines()
    assert lines[-1] == "└─ no:  … 2 leaves: value=0.1  cover=25 n=100"
    assert len(tree_text(IRIS, max_depth=0).splitlines()) == 2
    assert tree_text(IRIS, max_depth=2) == tree_text(IRIS)


def test_rules_of_a_known_tree() -> None:
    assert tree_rules(IRIS) == [
        "(petal_width <= 0.8 or missing) -> -0.43125  (n=50)",
        "petal_width > 0.8 and petal_length <= 4.75 -> 0.25  (n=48)",
        "petal_width > 0.8 and (petal_length > 4.75 or missing) -> 0.3333333333333333  (n=52)",
    ]


def test_rules_draw_conditions_on_one_column_together() -> None:
    forest = replace(
        IRIS.forest,
        feature=np.array([0, -1, 0, -1, -1], dtype=np.int32),
        threshold=np.array([*keys(0.8), 0, *keys(1.75), 0, 0]),
    )
    rules = tree_rules(replace(IRIS, forest=forest))
    assert rules[1].startswith("0.8 < petal_width <= 1.75 -> ")
    assert rules[2].startswith("petal_width > 1.75 -> ")
    only_missing = replace(
        forest,
        threshold=np.array([*keys(np.inf), 0, *keys(1.75), 0, 0]),
        missing_left=np.array([0, 0, 1, 0, 0], dtype=np.uint8),
    )
    rules = tree_rules(replace(IRIS, forest=only_missing))
    assert rules[0].startswith("petal_width <= inf -> ")
    assert rules[1].startswith("petal_width is missing -> ")
    assert rules[2].startswith("no value of petal_width -> ")


def test_a_tree_of_one_leaf() -> None:
    model = chain(0)
    assert tree_text(model).splitlines()[1] == "value=0  cover=1 n=1"
    assert tree_rules(model) == ["always -> 0.0  (n=1)"]
    assert "0 [label=" in tree_dot(model)
    assert len(plot_tree(model).texts) == 2
    close_figures()


def test_integers_are_exact() -> None:
    assert f"id <= {BIG} " in tree_text(WIDE)
    assert f"id > {BIG}" in tree_rules(WIDE)[2]
    assert f"id <= {BIG}" in tree_dot(WIDE)
    threshold = forest_frame(WIDE)["threshold"]
    assert threshold.dtype == object
    assert threshold[2] == BIG
    assert threshold[0] == 0.8
    assert np.isnan(threshold[1])
    small = small_model(Column("id", "int"), -7)
    assert forest_frame(small)["threshold"].dtype == np.float64
    assert forest_frame(small)["threshold"][2] == -7.0


def test_frame_of_a_known_tree() -> None:
    frame = forest_frame(IRIS)
    assert frame["feature"] == ["petal_width", None, "petal_length", None, None]
    assert frame["missing"] == ["left", None, "right", None, None]
    expected = {"tree": [0] * 5, "node": [0, 1, 2, 3, 4], "depth": [0, 1, 1, 2, 2]}
    expected |= {"left": [1, -1, 3, -1, -1], "right": [2, -1, 4, -1, -1], "output": [0] * 5}
    for name, values in expected.items():
        np.testing.assert_array_equal(frame[name], values)
    np.testing.assert_array_equal(frame["threshold"], [0.8, np.nan, 4.75, np.nan, np.nan])


@given(seed=st.integers(0, 10**6), n_outputs=st.integers(1, 3), max_leaves=st.integers(1, 30))
def test_text_rules_and_frame_agree(seed: int, n_outputs: int, max_leaves: int) -> None:
    model = random_model(seed, n_outputs=n_outputs, max_leaves=max_leaves)
    frame = forest_frame(model)
    assert {len(column) for column in frame.values()} == {len(model.forest.feature)}
    leaf = np.array([name is None for name in frame["feature"]])
    for tree in range(model.forest.n_trees):
        here = np.asarray(frame["tree"]) == tree
        lines = tree_text(model, tree).splitlines()[1:]
        assert len(lines) == here.sum()
        depths = [re.search(r"[^│├└─ ]", line).start() for line in lines]
        assert max(depths, default=0) // 3 == np.asarray(frame["depth"])[here].max()
        rules = tree_rules(model, tree)
        assert len(rules) == (here & leaf).sum()
        values = sorted(float(rule.rsplit(" -> ")[1].split()[0]) for rule in rules)
        assert values == sorted(np.asarray(frame["value"])[here & leaf])
        dot = tree_dot(model, tree)
        assert dot.count(" -> ") == here.sum() - 1
        assert dot.count("{") == dot.count("}") == 1
    for position in np.flatnonzero(~leaf):
        root = position - frame["node"][position]
        for side in ("left", "right"):
            child = root + frame[side][position]
            assert frame["depth"][child] == frame["depth"][position] + 1
            assert frame["tree"][child] == frame["tree"][position]


@given(seed=st.integers(0, 10**6))
def test_rules_say_where_rows_go(seed: int) -> None:
    """Exactly one rule of a tree holds for a row, and it gives the value of the walk."""
    model = random_model(seed, n_rounds=1, n_features=2, max_leaves=8, named=False)
    rng = np.random.default_rng(seed)
    values: list[Any] = []
    for column in model.schema.columns:
        edge = [0, 1, -1, 7, BIG, BIG - 1] if column.kind == "int" else [0.0, 1.5, -2.25, np.inf]
        values.append([None, *edge][int(rng.integers(len(edge) + 1))])
    holding = [rule for rule in tree_rules(model) if rule_holds(rule, values)]
    assert len(holding) == 1
    assert float(holding[0].rsplit(" -> ")[1].split()[0]) == walk(model, values)


def rule_holds(rule: str, values: list[Any]) -> bool:
    conditions = rule.rsplit(" -> ")[0]
    if conditions == "always":
        return True
    for part in conditions.split(" and "):
        part = part.strip("()")
        missing_too = part.endswith(" or missing")
        part = part.removesuffix(" or missing")
        name = re.search(r"x\d+", part)[0]
        value = values[int(name[1:])]
        if part.endswith(" is missing"):
            holds = value is None
        elif part.startswith("no value"):
            holds = False
        elif value is None:
            holds = missing_too
        else:
            holds = eval(part, {"inf": np.inf, name: value})
        if not holds:
            return False
    return True


def walk(model: Model, values: list[Any]) -> float:
    forest, node = model.forest, 0
    while forest.feature[node] >= 0:
        j = forest.feature[node]
        if values[j] is None:
            goes_left = bool(forest.missing_left[node])
        elif model.schema.columns[j].kind == "int":
            goes_left = values[j] <= int(forest.threshold[node])
        else:
            goes_left = keys(values[j])[0] <= int(forest.threshold[node])
        node = int((forest.left if goes_left else forest.right)[node])
    return float(forest.value[node])


def test_any_depth_can_be_shown() -> None:
    model = chain(3 * sys.getrecursionlimit() // 2)
    assert "depth 1500" in tree_text(model, max_depth=3) or sys.getrecursionlimit() != 1000
    assert len(tree_text(model).splitlines()) == len(model.forest.feature) + 1
    assert len(tree_rules(chain(300))) == 301
    assert int(forest_frame(model)["depth"].max()) == 3 * sys.getrecursionlimit() // 2
    assert tree_dot(model).startswith("digraph")


def test_no_trees() -> None:
    model = random_model(0, n_rounds=0)
    assert all(len(column) == 0 for column in forest_frame(model).values())
    with pytest.raises(IndexError, match="0 trees"):
        tree_text(model)


def test_which_tree() -> None:
    model = random_model(0, n_rounds=2, n_outputs=3)
    assert tree_text(model, -1) == tree_text(model, 5)
    assert tree_text(model, np.int64(5)).startswith("tree 5 of 6, output 2: ")
    for wrong in (6, -7):
        with pytest.raises(IndexError, match="the model has 6 trees"):
            tree_text(model, wrong)
    with pytest.raises(TypeError):
        tree_text(model, 1.0)


def test_a_forest_needs_a_schema() -> None:
    assert tree_text(IRIS.forest, schema=IRIS.schema) == tree_text(IRIS)
    for show in (tree_text, tree_rules, tree_dot, forest_frame, plot_tree):
        with pytest.raises(TypeError, match="schema="):
            show(IRIS.forest)


@pytest.mark.parametrize("name", ["a\nb", "", "\x1b[31mred", 'quo"te\\', "größe", "价格", "\ud800"])
def test_odd_names_break_nothing(name: str) -> None:
    model = replace(IRIS, schema=Schema((Column(name), Column("b")), named=True))
    assert len(tree_text(model).splitlines()) == 6
    assert "\x1b" not in tree_text(model)
    assert len(tree_rules(model)) == 3
    for line in tree_dot(model).splitlines()[5:]:
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0
    forest_frame(model)


# ------------------------------------------------------------------ pictures


def close_figures() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")


def test_picture_shows_every_node() -> None:
    pytest.importorskip("matplotlib")
    ax = plot_tree(IRIS)
    shown = [text.get_text() for text in ax.texts]
    assert "petal_width ≤ 0.8" in shown
    assert "gain 52.35   n=150" in shown
    assert "-0.4313   n=50" in shown
    close_figures()


def test_labels_do_not_overlap_at_31_leaves() -> None:
    pytest.importorskip("matplotlib")
    model = random_model(4, n_rounds=1, max_leaves=31)
    n_leaves = int((model.forest.feature < 0).sum())
    ax = plot_tree(model)
    figure = ax.figure
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts[:-1]]
    assert len(boxes) == n_leaves + 2 * (n_leaves - 1)
    for i, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
    close_figures()


def test_picture_on_given_axes_shrinks() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, axes = plt.subplots(figsize=(4, 3))
    assert plot_tree(IRIS, ax=axes) is axes
    sizes = {text.get_fontsize() for text in axes.texts[:-1]}
    assert max(sizes) < 9.0
    figure.canvas.draw()
    close_figures()


def test_mathematical_names_are_shown_as_they_are() -> None:
    pytest.importorskip("matplotlib")
    schema = Schema((Column("cost_$a_$"), Column(r"$\frac{")), named=True)
    ax = plot_tree(replace(IRIS, schema=schema))
    ax.figure.canvas.draw()
    close_figures()


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"hedgerow\[plot\]"):
        plot_tree(IRIS)
