"""Plots and rules of category splits show exactly what the splits do."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hedgerow import Booster, CARTClassifier, CARTRegressor, Dataset, train
from hedgerow.data import Column, Schema
from hedgerow.errors import DataError
from hedgerow.model.forest import CategoryTables
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.plot import forest_frame, tree_rules, tree_text
from hedgerow.plot.labels import LETTERS_OF_TEXT, condition, level_text, pick_tree, set_text
from hedgerow.plot.layout import lay_out
from tests.helpers.examples import examples
from tests.helpers.random_forests import forest_of, random_tree
from tests.plot.test_plot import TWO_SPLITS, assert_legible, close_figures, in_letters, keys
from tests.reference import naive_category

# -- models made by hand ---------------------------------------------------------------


def words(bins):
    """Return a set of bins as four 64-bit words."""
    return [sum(1 << b % 64 for b in bins if b // 64 == w) for w in range(4)]


def tables_of(columns, sets, bins=None):
    """Return tables of category columns whose levels have a bin each, or the bins given by name."""
    level_bin = [b for c in columns for b in (bins or {}).get(c.name, range(len(c.levels)))]
    counts = [len(column.levels) for column in columns]
    return CategoryTables(
        np.array([words(s) for s in sets], dtype=np.uint64).reshape(-1, 4),
        np.array(level_bin, dtype=np.uint8),
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
    )


CITIES = ("Bonn", "Kiev", "Lima", "Oslo", "Rome")


def city_model(city_set=(3, 4), missing_left=1, levels=CITIES, bins=None):
    """``city in ...``, and on its right side ``age <= 40``."""
    columns = (Column("city", "category", tuple(levels)), Column("age"))
    nodes = TWO_SPLITS | {"missing_left": [missing_left, 0, 0, 0, 0]}
    forest = forest_of(
        2, threshold=[0, 0, *keys(40.0), 0, 0], value=[0.0, -0.5, 0.1, 0.25, 0.75], **nodes,
        categories=tables_of(columns, [city_set], {"city": bins} if bins else None),
    )  # fmt: skip
    return Model(forest, Schema(columns, named=True), "squared_error")


def test_text_spells_out_the_side_with_fewer_levels() -> None:
    assert tree_text(city_model()) == "\n".join(
        [
            "tree 0 of 1: 3 leaves, 5 nodes, depth 2",
            "city in {Oslo, Rome} (missing left)  gain=52.35 cover=37.5 n=150",
            "├─ yes: value=-0.5  cover=12.5 n=50",
            "└─ no:  age <= 40.0 (missing right)  gain=3 cover=25 n=100",
            "   ├─ yes: value=0.25  cover=12.5 n=48",
            "   └─ no:  value=0.75  cover=12.5 n=52",
        ]
    )
    right = tree_text(city_model(city_set=(0, 1, 2, 4), missing_left=0)).splitlines()[1]
    assert right.startswith("city not in {Oslo} (missing right)  ")
    tie = tree_text(city_model(city_set=(0, 1), levels=CITIES[:4])).splitlines()[1]
    assert tie.startswith("city in {Bonn, Kiev} (missing left)  ")


@pytest.mark.parametrize(
    ("city_set", "missing_left", "text", "rules"),
    [
        ((), 1, "city is missing (missing left)", ["city is missing", "city is not missing"]),
        ((0, 1, 2, 3, 4), 0, "city is not missing (missing right)",
         ["city is not missing", "city is missing"]),
        ((), 0, "city in {} (missing right)", ["no value of city", "any value of city"]),
        ((0, 1, 2, 3, 4), 1, "city not in {} (missing left)",
         ["any value of city", "no value of city"]),
        ((3,), 1, "city in {Oslo} (missing left)",
         ["(city in {Oslo} or missing)", "city not in {Oslo}"]),
        ((0, 1, 2), 0, "city not in {Oslo, Rome} (missing right)",
         ["city not in {Oslo, Rome}", "(city in {Oslo, Rome} or missing)"]),
    ],
)  # fmt: skip
def test_missing_values_and_empty_sides(city_set, missing_left, text, rules) -> None:
    model = city_model(city_set, missing_left)
    assert tree_text(model).splitlines()[1].startswith(f"{text}  ")
    shown = tree_rules(model)
    assert [shown[0].split(" -> ")[0], shown[1].split(" and ")[0]] == rules


def test_levels_that_share_a_bin_go_together() -> None:
    model = city_model(city_set=(2,), bins=[0, 1, 2, 2, 2])
    assert "city not in {Bonn, Kiev} (missing left)" in tree_text(model)
    assert forest_frame(model)["left_levels"][0] == ["Lima", "Oslo", "Rome"]


def test_views_shorten_long_sets_and_tables_do_not() -> None:
    levels = [f"town {i:03d}" for i in range(200)]
    model = city_model(range(0, 200, 2), levels=levels)
    assert "city in {town 000, town 002, town 004, town 006, … 96 more} (" in tree_text(model)
    box = lay_out(pick_tree(model, None, 0), in_letters).boxes[0]
    assert box.heading == ("city", "in {town 000, town 002, … 98 more}")
    assert all(level in tree_rules(model)[0] for level in levels[::2])
    assert forest_frame(model)["left_levels"] == [levels[::2], None, None, None, None]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", None])
@pytest.mark.parametrize("levels", [(1, 2, 3, 4, 5), (0.5, 1.0, 1.5, 2.0, 2.5), CITIES])
def test_frames_of_every_library(backend, levels) -> None:
    if backend is not None:
        pytest.importorskip(backend)
    model = city_model(levels=levels)
    column = Booster(model).to_frame(backend)["left_levels"]
    assert [x for x in map(as_list, column) if x is not None] == [list(levels[3:])]


def as_list(value):
    """Return a list of any library as a Python list, or None for a missing one."""
    value = value.as_py() if hasattr(value, "as_py") else value
    return None if value is None else list(value)


@pytest.mark.parametrize("backend", ["polars", "pyarrow"])
def test_typed_frames_take_levels_of_several_types(backend) -> None:
    pytest.importorskip(backend)
    for other, expected in (((1, 2), ["2"]), (("a", "b"), ["b"])):
        model = two_columns(other)
        column = Booster(model).to_frame(backend)["left_levels"]
        found = [x for x in map(as_list, column) if x is not None]
        assert found == [["Oslo", "Rome"], expected]
    model = two_columns((1, 2), first=(0.5, 1.0, 1.5, 2.0, 2.5))
    column = Booster(model).to_frame(backend)["left_levels"]
    assert [x for x in map(as_list, column) if x is not None] == [[2.0, 2.5], [2.0]]
    assert Booster(model).to_frame(None)["left_levels"][2] == [2]


def two_columns(second, first=CITIES):
    model = city_model(levels=first)
    columns = (model.schema.columns[0], Column("sort", "category", second))
    tables = tables_of(columns, [(3, 4), (1,)])
    threshold = np.array([0, 0, 1, 0, 0])
    forest = replace(model.forest, categories=tables, threshold=threshold)
    return replace(model, forest=forest, schema=Schema(columns, named=True))


def test_schema_must_be_that_of_the_trees() -> None:
    model = city_model()
    schema = Schema((Column("city"), Column("age")))
    with pytest.raises(DataError, match="column 'city' has 0 levels in the schema, but the forest"):
        tree_text(model.forest, schema=schema)


# -- words --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "text"),
    [
        *(("Oslo", "Oslo"), ("New York", "New York"), ("São Paulo", "São Paulo"), ("价格", "价格")),
        *(("12", "'12'"), ("-1e3", "'-1e3'"), ("nan", "'nan'"), ("inf", "'inf'"), ("", "''")),
        *(("a, b", "'a, b'"), (" a", "' a'"), ("a}", "'a}'"), ("it's", '"it\'s"')),
        *(("Missing", "'Missing'"), ("other", "'other'"), ("True", "'True'"), ("None", "'None'")),
        *(("a and b", "'a and b'"), ("a or b", "'a or b'"), ("x -> y", "'x -> y'")),
        *(("sandor", "sandor"), ("a\nb", "'a\\nb'"), ("\x1b[31m", "'\\x1b[31m'")),
        *((3, "3"), (-2.0, "-2"), (0.1, "0.1"), (2**60 + 1, str(2**60 + 1)), (1e300, "1e+300")),
        *((float("inf"), "inf"), ("\ud800", "'\\ud800'")),
    ],
)
def test_text_is_quoted_where_it_is_ambiguous(level, text) -> None:
    assert level_text(level) == text


@given(
    st.lists(st.text(max_size=60) | st.integers(), min_size=1, max_size=60, unique=True),
    st.sampled_from([32, 60]),
)
@example(["x" * 99], 32)
@example([f"level {i}" for i in range(5000)], 32)
def test_shortened_sets_tell_how_many_they_leave_out(levels, letters) -> None:
    full, short = set_text(levels), set_text(levels, letters)
    assert full == "{" + ", ".join(map(level_text, levels)) + "}"
    assert len(short) <= letters
    if len(full) <= letters:
        assert short == full
    if (more := re.search(r", … ([\d,]+) more\}$", short)) is not None:
        assert 0 < int(more[1].replace(",", "")) < len(levels)


@pytest.mark.parametrize("level", ["a\nb", 'quo"te\\', "\x1b[31m", "&lt;", "{x|y}", "# y", r"\N"])
def test_odd_levels_break_nothing(level) -> None:
    model = city_model(levels=(level, *CITIES[1:]), city_set=(0,))
    assert len(tree_text(model).splitlines()) == 6
    assert all(line.isprintable() for line in tree_rules(model))
    assert f"\ncity in {{{level_text(level)}}} (" in tree_text(model)


# -- what rules say is what prediction does --------------------------------------------------


def category_model(seed):
    """Return a random tree on two category columns and one of numbers."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 7, 2)
    columns = (
        Column("c0", "category", tuple("abcdefg"[: counts[0]])),
        Column("c1", "category", tuple(range(int(counts[1])))),
        Column("x2"),
    )
    tree = random_tree(rng, ["category", "category", "float"], int(rng.integers(1, 12)))
    bins = {c.name: np.minimum(np.arange(len(c.levels)), 3) for c in columns[:2]}
    sets = []
    for node, feature in enumerate(tree["feature"]):
        if 0 <= feature < 2:
            tree["threshold"][node] = len(sets)
            sets.append([b for b in range(4) if rng.random() < 0.5])
        tree["value"][node] = float(node)
    forest = forest_of(3, categories=tables_of(columns, sets, bins), **tree)
    return Model(forest, Schema(columns, named=True), "squared_error")


def holds(rule, row, levels, unseen_is_missing=True):
    """Return whether a row (a dict; None missing, "?" unseen) meets the conditions of a rule."""
    conditions = rule.rsplit(" -> ")[0]
    return conditions == "always" or all(
        condition_holds(part, row, levels, unseen_is_missing) for part in conditions.split(" and ")
    )


def condition_holds(part, row, levels, unseen_is_missing):
    part = part.strip("()")
    if part.startswith(("any value of ", "no value of ")):
        return part.startswith("any")
    name = next(name for name in row if re.search(rf"\b{name}\b", part))
    value = row[name]
    if name not in levels:
        if part.endswith(" is missing"):
            return value is None
        if value is None:
            return part.endswith(" or missing")
        part = part.removesuffix(" or missing")
        return bool(eval(part, {"inf": np.inf, name: value}))
    if value == "?" and unseen_is_missing:
        value = None
    word = {None: "missing", "?": "other"}.get(value)
    part = part.removeprefix(f"{name} ")
    if part == "is neither missing nor other":
        return word is None
    if part.startswith("is not "):
        return word != part.removeprefix("is not ")
    if part.startswith("is "):
        return word in part.removeprefix("is ").split(" or ")
    listed, *others = part.split(" or ")
    if word is not None:
        return word in others
    inside = set(re.search(r"\{(.*)\}", listed)[1].split(", "))
    assert inside <= {level_text(level) for level in levels[name]}
    return (level_text(value) in inside) != listed.startswith("not ")


@settings(max_examples=examples(50))
@given(st.integers(0, 10**6))
def test_rules_divide_all_rows_as_prediction_does(seed) -> None:
    model = category_model(seed)
    schema, rules = model.schema, tree_rules(model)
    levels = {column.name: column.levels for column in schema.columns[:2]}
    assert len(rules) == int((model.forest.feature < 0).sum())
    choices = [[*levels["c0"], None, "?"], [*levels["c1"], None, "?"]]
    rows = list(itertools.product(*choices, [None, 0.0, 1.5, -2.25, np.inf, -np.inf]))
    table = np.array([coded_row(row, schema) for row in rows])
    values = Predictor(model.forest, schema.kinds).raw_scores(table)[0]
    for row, coded, value in zip(rows, table, values, strict=True):
        named = dict(zip(("c0", "c1", "x2"), row, strict=True))
        met = [rule for rule in rules if holds(rule, named, levels)]
        assert len(met) == 1, (row, met)
        assert float(met[0].rsplit(" -> ")[1].split()[0]) == value
        assert value == naive_category.leaf_of(model.forest, schema.kinds, 0, coded)


def coded_row(row, schema):
    return [code_of(v, column) for v, column in zip(row, schema.columns, strict=True)]


def code_of(value, column):
    if value is None or value == "?":
        return np.nan
    if column.kind != "category":
        return value
    return float(column.levels.index(value))


@settings(max_examples=examples(100))
@given(st.integers(0, 10**6))
def test_text_and_frame_tell_where_levels_go(seed) -> None:
    model = category_model(seed)
    forest, frame = model.forest, forest_frame(model)
    tree = pick_tree(model, None, 0)
    shown = set(re.findall(r"(?m)^[│├└─ ]*(?:yes: |no:  )?(.*\))  gain=", tree_text(model)))
    for node in np.flatnonzero(forest.feature >= 0).tolist():
        feature = int(forest.feature[node])
        column, left = model.schema.columns[feature], frame["left_levels"][node]
        if column.kind != "category":
            assert left is None
            continue
        row = np.zeros(3)
        for code, level in enumerate(column.levels):
            row[feature] = code
            alone = replace(  # the split alone, its children leaves
                forest,
                feature=np.array([feature, -1, -1], np.int32),
                left=np.array([1, 0, 0], np.int32),
                right=np.array([2, 0, 0], np.int32),
                **{
                    name: getattr(forest, name)[[node] * 3]
                    for name in ("threshold", "missing_left", "value", "gain", "cover", "count")
                },
                tree_start=np.array([0, 3]),
            )
            goes_left = naive_category.leaf_of(alone, model.schema.kinds, 0, row) == 1
            assert (level in left) == goes_left
        words = " ".join(condition(tree, node, letters=LETTERS_OF_TEXT))
        side = "left" if forest.missing_left[node] else "right"
        assert f"{words} (missing {side})" in shown
        if " in {" in words:
            listed = set(re.search(r"\{(.*)\}", words)[1].split(", ")) - {""}
            rest = [level for level in column.levels if level not in left]
            chosen = rest if " not in " in words else left
            assert listed == {level_text(level) for level in chosen}
            assert len(chosen) <= len(column.levels) / 2


# -- CART ----------------------------------------------------------------------------------


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 10**6))
def test_rules_of_cart_divide_all_rows_as_prediction_does(seed) -> None:
    """The rows include categories that a node, or the whole training, has not seen."""
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(5, 60))
    X = np.column_stack(
        [rng.integers(0, 6, n_rows), rng.integers(0, 4, n_rows), rng.random(n_rows)]
    )
    X[rng.random(X.shape) < 0.15] = np.nan
    y = rng.permutation(n_rows).astype(float)
    model = CARTRegressor(categorical_features=[0, 1], random_state=0).fit(X, y)
    rules, tree = model.to_rules(), model.tree_
    assert len(rules) == tree.n_leaves
    named = {0: set(), 1: set()}
    for node in np.flatnonzero(tree.is_categorical):
        named[int(tree.feature[node])] |= {v for side in tree.categories(node) for v in side}
    levels = {f"x{j}": sorted(values) for j, values in named.items()}
    grid = itertools.product([*range(7), None], [*range(5), None], [None, 0.1, 0.5, 0.9])
    rows = list(grid)
    table = np.array([[np.nan if v is None else v for v in row] for row in rows], dtype=float)
    for row, expected in zip(rows, model.predict(table), strict=True):
        values = {f"x{j}": v for j, v in enumerate(row)}
        for j in (0, 1):
            seen = row[j] is None or float(row[j]) in named[j]
            values[f"x{j}"] = row[j] if seen else "?"
        met = [rule for rule in rules if holds(rule, values, levels, False)]
        assert len(met) == 1, (row, met)
        assert float(met[0].split(" -> ")[1].split()[0]) == expected


def test_views_of_cart_spell_out_the_shorter_side() -> None:
    X = np.repeat(np.arange(5.0), 8)[:, None]
    model = CARTClassifier(categorical_features=[0]).fit(X, (X[:, 0] == 3).astype(int))
    text = model.to_text()
    assert re.search(r"x0 (not )?in \{3\} \(missing (left|right)(, other (left|right))?\)", text)
    rules = model.to_rules()
    assert any(re.match(r"x0 in \{3\} -> 1", rule) for rule in rules)
    assert any(re.match(r"\(x0 not in \{3\}( or missing)? or other\) -> 0", rule) for rule in rules)


# -- real frames -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def towns():
    """Return a booster of a pandas frame of strings, its data and its target."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    names = np.array([f"town {i:02d}" for i in range(40)])
    town, effect = rng.integers(0, 40, 3000), rng.normal(size=40)
    colour = rng.choice(["red", "green", "blue"], 3000)
    age = rng.normal(size=3000).round(2)
    y = effect[town] + (colour == "red") * age + 0.1 * rng.normal(size=3000)
    frame = pandas.DataFrame({"town": names[town], "colour": colour, "age": age})
    frame.loc[rng.random(3000) < 0.1, "town"] = None
    params = {"n_estimators": 3, "max_leaves": 15, "early_stopping": False}
    data = Dataset(frame, y)
    return train(params, data), data


def test_pictures_of_long_sets_are_legible(towns) -> None:
    pytest.importorskip("matplotlib")
    booster, _ = towns
    ax = booster.plot_tree(0)
    assert_legible(ax)
    shown = " ".join(text.get_text() for text in ax.texts)
    assert "town" in shown
    assert re.search(r"in \{town \d\d, town \d\d, … \d+ more\}", shown)
    close_figures()
