"""Trees as text, tables and plots show exactly what the trees do."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import ParameterError
from hedgerow.data.schema import Column, Schema
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.model import Model
from hedgerow.plot import forest_frame, plot_tree, tree_rules, tree_text
from hedgerow.plot.labels import pick_tree
from hedgerow.plot.layout import GAP, Layout, lay_out
from tests.helpers.random_forests import forest_of, random_model, random_tree

BIG = 2**53 + 1


def keys(*values: float) -> list[int]:
    return [int(key) for key in keys_of_floats(np.array(values))]


TWO_SPLITS: dict[str, Any] = {
    "feature": [0, -1, 1, -1, -1],
    "missing_left": [1, 0, 0, 0, 0],
    "left": [1, 0, 3, 0, 0],
    "right": [2, 0, 4, 0, 0],
    "gain": [52.34567, 0.0, 3.0, 0.0, 0.0],
    "cover": [37.5, 12.5, 25.0, 12.5, 12.5],
    "count": [150, 50, 100, 48, 52],
}


def small_model(second: Column, second_threshold: int) -> Model:
    """``petal_width <= 0.8``, and on its right side a split of the second column."""
    forest = forest_of(
        2, threshold=[*keys(0.8), 0, second_threshold, 0, 0],
        value=[0.0, -0.43125, 0.1, 0.25, 1 / 3], **TWO_SPLITS,
    )  # fmt: skip
    return Model(forest, Schema((Column("petal_width"), second), named=True), "squared_error")


IRIS = small_model(Column("petal_length"), keys(4.75)[0])
WIDE = small_model(Column("id", "int"), BIG)


def chain(n_splits: int) -> Model:
    """Return a tree whose right children are all leaves."""
    n = 2 * n_splits + 1
    inner = np.arange(n) % 2 == 0
    inner[-1] = False
    node = np.arange(n)
    forest = forest_of(
        1, feature=np.where(inner, 0, -1), threshold=np.where(inner, 1 << 60, 0),
        left=np.where(inner, node + 2, 0), right=np.where(inner, node + 1, 0),
        cover=np.ones(n), count=np.ones(n),
    )  # fmt: skip
    return Model(forest, Schema((Column("a"),)), "squared_error")


def model_of(n_leaves: int, seed: int = 0) -> Model:
    """Return a random tree with exactly this many leaves."""
    forest = forest_of(4, **random_tree(np.random.default_rng(seed), ["float"] * 4, n_leaves))
    columns = tuple(Column(name) for name in ("age", "income", "x" * 20, "a_name_" * 8))
    return Model(forest, Schema(columns, named=True), "squared_error")


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
    for depth, boxes in ((0, 1), (1, 3), (2, 5)):
        assert len(lay_out(pick_tree(IRIS, None, 0), in_letters, depth).boxes) == boxes


@pytest.mark.parametrize("depth", [-1, 1.5, True, "3"])
@pytest.mark.parametrize("show", [tree_text, plot_tree])
def test_depth_is_a_whole_number(show: Any, depth: Any) -> None:
    with pytest.raises(ParameterError, match="max_depth must be an integer at least 0"):
        show(IRIS, max_depth=depth)


def test_rules_of_a_known_tree() -> None:
    assert tree_rules(IRIS) == [
        "(petal_width <= 0.8 or missing) -> -0.43125  (cover=12.5, n=50)",
        "petal_width > 0.8 and petal_length <= 4.75 -> 0.25  (cover=12.5, n=48)",
        f"petal_width > 0.8 and (petal_length > 4.75 or missing) -> {1 / 3}  (cover=12.5, n=52)",
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
    assert tree_rules(model) == ["always -> 0.0  (cover=1, n=1)"]
    assert [text.get_text() for text in plot_tree(model).texts[:-1]] == ["0", "cover 1   n=1"]
    close_figures()


def test_integers_are_exact() -> None:
    assert f"id <= {BIG} " in tree_text(WIDE)
    assert f"id > {BIG}" in tree_rules(WIDE)[2]
    threshold = forest_frame(WIDE)["threshold"]
    assert threshold.dtype == object
    assert threshold[2] == BIG
    assert threshold[0] == 0.8
    assert np.isnan(threshold[1])
    small = small_model(Column("id", "int"), -7)
    assert forest_frame(small)["threshold"].dtype == np.float64
    assert forest_frame(small)["threshold"][2] == -7.0


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
    for position in np.flatnonzero(~leaf):
        root = position - frame["node"][position]
        for side in ("left", "right"):
            child = root + frame[side][position]
            assert frame["depth"][child] == frame["depth"][position] + 1
            assert frame["tree"][child] == frame["tree"][position]


def test_the_text_of_a_chain_grows_with_its_nodes_alone() -> None:
    lengths = [len(tree_text(chain(n))) for n in (2000, 4000)]
    assert lengths[1] < 2.1 * lengths[0]
    lines = tree_text(chain(300)).splitlines()
    ends = ["├─ yes: a", "└─ no:  v", "├─ [101] yes: a", "└─ [101] no:  v", "└─ [300] no:  v"]
    for depth, end in zip((100, 100, 101, 101, 300), ends, strict=True):
        indent = "│  " * (min(depth, 101) - 1)
        assert sum(line.startswith(indent + end) for line in lines) == 1, end


def test_any_depth_can_be_shown() -> None:
    model = chain(3 * sys.getrecursionlimit() // 2)
    assert "depth 1500" in tree_text(model, max_depth=3) or sys.getrecursionlimit() != 1000
    assert len(tree_text(model).splitlines()) == len(model.forest.feature) + 1
    assert len(tree_rules(chain(300))) == 301
    assert int(forest_frame(model)["depth"].max()) == 3 * sys.getrecursionlimit() // 2


@pytest.mark.parametrize(("n_outputs", "value"), [(1, "1.25"), (2, "[1.25, 1.25]")])
def test_no_trees(n_outputs: int, value: str) -> None:
    """A model without trees is shown as its base score."""
    model = random_model(0, n_rounds=0, n_outputs=n_outputs)
    model = replace(model, forest=replace(model.forest, base_score=np.full(n_outputs, 1.25)))
    assert all(len(column) == 0 for column in forest_frame(model).values())
    assert tree_text(model) == tree_text(model, -1) == f"no trees\nvalue={value}  base score"
    assert tree_rules(model) == [f"always -> {value}  (base score)"]
    with pytest.raises(IndexError, match="0 trees"):
        tree_text(model, 1)
    pytest.importorskip("matplotlib")
    assert [text.get_text() for text in plot_tree(model).texts[:-1]] == [value, "base score"]
    close_figures()


def cuts_shown(cuts: Sequence[float]) -> list[str]:
    """Return the cuts of a chain of splits of one column, as its picture shows them."""
    like = chain(len(cuts))
    threshold = like.forest.threshold.copy()
    threshold[like.forest.feature >= 0] = keys(*cuts)
    model = replace(like, forest=replace(like.forest, threshold=threshold))
    boxes = lay_out(pick_tree(model, None, 0), in_letters).boxes
    return [box.heading[-1].rpartition("≤ ")[2] for box in boxes if box.kind == "split"]


def test_pictures_tell_cuts_apart() -> None:
    cuts = [20180131.5, 20180130.5, 1 / 3, 1 / 3 + 1e-9, 1e-9 / 7, -1234567.0000012, 1e300]
    shown = ["20180131.5", "20180130.5", "0.333333333…", "0.333333334…", "1.42857…e-10"]
    assert cuts_shown(cuts) == [*shown, "-1234567.0…", "1e+300"]


@given(
    cuts=st.lists(
        # Cuts at -0.0 and 0.0 are the same.
        st.floats(allow_nan=False, allow_infinity=False).map(lambda cut: cut + 0.0),
        min_size=1,
        max_size=20,
    )
)
def test_no_picture_rounds_a_cut_away(cuts: list[float]) -> None:
    """What is shown begins as the exact cut, whole part included, and as no other one."""
    exact = {repr(cut) for cut in cuts}
    for text, cut in zip(cuts_shown(cuts), cuts, strict=True):
        start, left_out, end = text.partition("…")
        like = [other for other in exact if other.startswith(start) and other.endswith(end)]
        assert like == [repr(cut)] if left_out else text == repr(cut)
        assert "." in start or not left_out


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
    for show in (tree_text, tree_rules, forest_frame, plot_tree):
        with pytest.raises(TypeError, match="schema="):
            show(IRIS.forest)


ODD_NAMES = ["a\nb", "", "\x1b[31mred", 'quo"te\\', "größe", "价格", "\ud800", 'a"b<c>']
ODD_NAMES += ["&lt;", "a & b", r"\N\n", "{x|y}", "]; }", "// x", "# y"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_break_nothing(name: str) -> None:
    model = replace(IRIS, schema=Schema((Column(name), Column("b")), named=True))
    assert len(tree_text(model).splitlines()) == 6
    assert "\x1b" not in tree_text(model)
    assert len(tree_rules(model)) == 3
    forest_frame(model)
    shown = name if name and name.isprintable() else ascii(name)
    assert tree_text(model).splitlines()[1].startswith(f"{shown} <= 0.8 (missing left)  gain=")


# ------------------------------------------------------------------ pictures


def close_figures() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")


def in_letters(text: str, size: float) -> float:
    """Return the width of a text in a monospaced font."""
    return 0.6 * size / 72 * len(text)


def assert_well_placed(model: Model, layout: Layout) -> None:
    """Check that boxes are on the page without overlap, and that each node occurs once."""
    assert_apart([(b.x, b.y - b.height / 2, b.width, b.height) for b in layout.boxes])
    assert sorted(box.node for box in layout.boxes) == list(range(len(model.forest.feature)))
    assert all(box.x >= 0 and box.x + box.width <= layout.width for box in layout.boxes)
    assert all(0 <= box.y <= layout.height for box in layout.boxes)
    for child in layout.boxes[1:]:
        parent = layout.boxes[child.parent]
        assert child.x == pytest.approx(parent.x + parent.width + GAP)
        is_left = child.node == model.forest.left[parent.node]
        assert is_left or child.node == model.forest.right[parent.node]
        assert (child.y < parent.y) == is_left
        assert child.takes_missing == (is_left == bool(model.forest.missing_left[parent.node]))


def assert_apart(boxes: list[tuple[float, float, float, float]]) -> None:
    """Check that no two rectangles (left, top, width, height) overlap."""
    left, top, width, height = np.array(boxes).T
    apart = (left + width)[:, None] <= left + 1e-9
    apart |= (top + height)[:, None] <= top + 1e-9
    apart |= apart.T
    np.fill_diagonal(apart, True)
    assert apart.all()


@given(seed=st.integers(0, 10**6), n_leaves=st.integers(1, 120))
def test_nodes_are_well_placed(seed: int, n_leaves: int) -> None:
    model = model_of(n_leaves, seed)
    assert_well_placed(model, lay_out(pick_tree(model, None, 0), in_letters))


@pytest.mark.fast(1)
@pytest.mark.parametrize("model", [chain(40), model_of(255)], ids=["chain", "255 leaves"])
def test_deep_and_large_trees_are_legible(model: Model) -> None:
    pytest.importorskip("matplotlib")
    ax = plot_tree(model)
    assert min(text.get_fontsize() for text in ax.texts) >= 7.0
    assert_legible(ax)
    close_figures()


def test_picture_shows_every_fact() -> None:
    pytest.importorskip("matplotlib")
    ax = plot_tree(IRIS)
    shown = [text.get_text() for text in ax.texts[:-1]]
    assert shown == [
        *("petal_width ≤ 0.8", "gain 52.35", "cover 37.5   n=150"),
        *("-0.4313", "cover 12.5   n=50"),
        *("petal_length ≤ 4.75", "gain 3", "cover 25   n=100"),
        *("0.25", "cover 12.5   n=48"),
        *("0.3333", "cover 12.5   n=52"),
    ]
    # The upper way of the root and the lower one of its child are those of missing values.
    (_, first), (_, second) = [line.get_xydata()[0] for line in ax.lines]
    box = {box.node: box for box in lay_out(pick_tree(IRIS, None, 0), in_letters).boxes}
    assert first < box[0].y
    assert second > box[2].y
    close_figures()


def assert_legible(ax: Any) -> None:
    """Check that texts do not overlap, are inside the figure, and contrast with their boxes."""
    figure = ax.figure
    figure.canvas.draw()
    texts = [*ax.texts, ax._left_title]
    boxes = [text.get_window_extent() for text in texts]
    assert_apart([(box.x0, box.y0, box.width, box.height) for box in boxes])
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= figure.bbox.width
    patches = [patch for patch in ax.patches if patch.get_fill()]
    frames = [patch.get_window_extent() for patch in patches]
    for text, box in zip(texts, boxes, strict=True):
        around = [i for i, frame in enumerate(frames) if frame.overlaps(box)]
        if not around:
            assert re.search(r"^tree |^condition true", text.get_text())
            continue
        (i,) = around
        assert frames[i].x0 < box.x0
        assert box.x1 < frames[i].x1
        assert contrast(text.get_color(), patches[i].get_facecolor()) >= 4.5


def contrast(ink: Any, paper: Any) -> float:
    """Return the contrast ratio of WCAG 2; the limit for small letters is 4.5."""
    from matplotlib.colors import to_rgb

    channels = np.array([to_rgb(ink), to_rgb(paper)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return (light + 0.05) / (dark + 0.05)


def test_too_tall_a_picture_is_refused() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    with pytest.raises(ParameterError, match="2,001 leaves, too many for one picture: limit it"):
        plot_tree(chain(2000))
    assert not plt.get_fignums()
    assert plot_tree(chain(2000), max_depth=5).texts
    close_figures()


def test_picture_on_given_axes_shrinks() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, axes = plt.subplots(figsize=(4, 3))
    assert plot_tree(IRIS, ax=axes) is axes
    sizes = {text.get_fontsize() for text in axes.texts[:-1]}
    assert max(sizes) < 9.0
    figure.canvas.draw()
    tiny, axes = plt.subplots(figsize=(2, 1))
    plot_tree(chain(60), ax=axes)
    tiny.canvas.draw()
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
