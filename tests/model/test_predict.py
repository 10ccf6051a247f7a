"""All prediction engines equal the naive walk, bit for bit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Dataset, train
from hedgerow.arrays import MISSING_KEY
from hedgerow.errors import DataError, DataTypeError
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model import engine_tables
from hedgerow.model.forest import Forest
from hedgerow.model.predict import FEW_ROWS, Predictor
from tests.helpers.examples import examples
from tests.helpers.random_forests import forest_of
from tests.reference import naive_predict as naive

LARGEST = np.iinfo(np.int64).max
SPECIAL = [0.0, -0.0, np.inf, -np.inf, 1.0, np.nextafter(1.0, 2), 5e-324, -5e-324, 1e300, -1e300]
SPECIAL_32 = [*SPECIAL, 1e-45, -1e-45, 3.4028235e38, np.float32(0.1)]
WIDE = [0, 1, -1, 2**53, 2**53 + 1, LARGEST, LARGEST - 1, MISSING_KEY + 1, MISSING_KEY + 2]


def random_tree(rng: np.random.Generator, n_leaves: int, chain: float) -> list[list[int]]:
    """Return rows (feature or -1, left, right) of a random tree; ``chain`` favours depth."""
    nodes = [[-1, 0, 0]]
    leaves = [0]
    for _ in range(n_leaves - 1):
        at = -1 if rng.random() < chain else int(rng.integers(len(leaves)))
        node = leaves.pop(at)
        nodes[node] = [0, len(nodes), len(nodes) + 1]
        leaves += rng.permutation([len(nodes), len(nodes) + 1]).tolist()
        nodes += [[-1, 0, 0], [-1, 0, 0]]
    return nodes


def random_forest(
    rng: np.random.Generator,
    sizes: list[int],
    thresholds: np.ndarray,
    n_features: int,
    n_outputs: int = 1,
    chain: float = 0.0,
) -> Forest:
    """Return a valid forest with ``sizes`` leaves and random thresholds from the given ones."""
    trees = [np.array(random_tree(rng, size, chain)).reshape(-1, 3) for size in sizes]
    table = np.concatenate([*trees, np.empty((0, 3), int)])
    n = len(table)
    inner = table[:, 0] >= 0
    return forest_of(
        n_features,
        feature=np.where(inner, rng.integers(0, n_features, n), -1),
        threshold=np.where(inner, rng.choice(thresholds, n), 0),
        missing_left=inner & (rng.random(n) < 0.5),
        left=table[:, 1],
        right=table[:, 2],
        value=rng.standard_normal(n) * 10.0 ** rng.integers(-8, 8, n),
        tree_start=np.cumsum([0, *(len(tree) for tree in trees)]),
        base_score=rng.standard_normal(n_outputs),
    )


def random_values(rng: np.random.Generator, kind: str, n_rows: int, n_features: int) -> np.ndarray:
    """Return a table with many ties, special values and missing ones."""
    shape = (n_rows, n_features)
    if kind == "int64":
        values = np.where(rng.random(shape) < 0.5, rng.integers(-5, 5, shape), 0)
        values = np.where(rng.random(shape) < 0.5, rng.choice(WIDE, shape), values)
        return np.where(rng.random(shape) < 0.2, MISSING_KEY, values)
    values = rng.choice(rng.standard_normal(20), shape)
    special = SPECIAL if kind == "float64" else SPECIAL_32
    values = np.where(rng.random(shape) < 0.5, rng.choice(special, shape), values)
    values = np.where(rng.random(shape) < 0.2, np.nan, values)
    with np.errstate(over="ignore"):
        return values.astype(kind)


def random_thresholds(rng: np.random.Generator, kind: str, values: np.ndarray) -> np.ndarray:
    """Return thresholds at, just below and just above values, and the extreme ones."""
    keys = naive.keys_of(values).reshape(-1)
    keys = keys[keys != MISSING_KEY]
    extreme = [LARGEST, LARGEST - 1, MISSING_KEY, MISSING_KEY + 1, 0, -1]
    chosen = rng.choice(keys, 20) if len(keys) else np.zeros(1, np.int64)
    near = np.clip(chosen, MISSING_KEY + 1, LARGEST - 1)
    if kind != "int64":  # between two float32 values too
        extreme += keys_of_floats(np.array([0.1, 1 + 1e-12, 1e-60, -1e-60, 1e39])).tolist()
    return np.concatenate((chosen, near - 1, near + 1, np.array(extreme, dtype=np.int64)))


def forced(forest: Forest, kind: str, engine: str) -> Predictor:
    """Return a predictor that uses the named engine for batches."""
    predictor = Predictor(forest, [kind_of(kind)] * forest.n_features)
    predictor.tables.__dict__["mask_cost"] = 1.0
    predictor.tables.__dict__["walk_cost"] = 0.5 if engine == "walk" else 1e9
    predictor.tables.__dict__["rank_costs"] = (0.0 if engine == "ranks" else 1.0, 0.5)
    return predictor


def kind_of(kind: str) -> str:
    return "int" if kind == "int64" else "float"


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and bool((left.view(np.int64) == right.view(np.int64)).all())
    )


def case(seed: int, kind: str, sizes: list[int], n_rows: int = 40, n_outputs: int = 1) -> tuple:
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 8))
    values = random_values(rng, kind, n_rows, n_features)
    thresholds = random_thresholds(rng, kind, values)
    chain = float(rng.choice([0.0, 0.5, 0.97]))
    return random_forest(rng, sizes, thresholds, n_features, n_outputs, chain), values


kinds = st.sampled_from(["float32", "float64", "int64"])
leaf_counts = st.one_of(st.integers(1, 5), st.sampled_from([31, 32, 33, 63, 64, 65, 255, 300]))


@settings(max_examples=examples(120), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=kinds,
    rounds=st.lists(leaf_counts, min_size=0, max_size=3),
    n_outputs=st.sampled_from([1, 3]),
    vectors=st.sampled_from([0, 0, 2, 8, 19]),
    n_rows=st.sampled_from([0, 1, 7, FEW_ROWS, 45, 300]),
)
def test_engines_equal_naive_walk(seed, kind, rounds, n_outputs, vectors, n_rows):
    n_outputs = vectors or n_outputs
    sizes = rounds * (1 if vectors else n_outputs)
    forest, values = case(seed, kind, sizes, n_rows, n_outputs)
    if vectors:
        numbers = np.random.default_rng(seed).normal(size=(len(forest.value), vectors))
        forest = replace(forest, vectors=numbers)
    expected = naive.raw_scores(forest, values)
    for engine in ("mask", "ranks", "walk"):
        predictor = forced(forest, kind, engine)
        assert same_bits(predictor.raw_scores(values), expected)
        assert same_bits(predictor.raw_scores(values, n_threads=3), expected)
        assert (predictor.leaves(values) == naive.leaves(forest, values)).all()
        first, stop = len(rounds) // 2, forest.n_trees
        part = predictor.raw_scores(values, 1, first, stop)
        assert same_bits(part, naive.raw_scores(forest, values, first, stop))


def tree_of_levels(rng: np.random.Generator, n_levels: int, skips: float) -> list[list[int]]:
    """Return rows (level or -1, left, right) of a tree whose paths have ordered levels."""
    nodes: list[list[int]] = []

    def grow(level: int) -> int:
        while level < n_levels and rng.random() < skips:
            level += 1
        number = len(nodes)
        nodes.append([-1, 0, 0])
        if level < n_levels:
            left = grow(level + 1)
            nodes[number] = [level, left, grow(level + 1)]
        return number

    grow(0)
    return nodes


def forest_of_levels(rng, values, kind, sizes, skips, mirrored=()):
    """Return symmetric trees; ``mirrored`` reverses the levels on the right of the root."""
    forest = random_forest(rng, [1] * len(sizes), np.zeros(1, np.int64), values.shape[1])
    trees = [np.array(tree_of_levels(rng, size, skips)) for size in sizes]
    thresholds = random_thresholds(rng, kind, values)
    parts = []
    for number, (tree, size) in enumerate(zip(trees, sizes, strict=True)):
        feature = rng.integers(0, values.shape[1], size + 1)
        # Another threshold for each level: the same split is of one level only.
        threshold = rng.permutation(np.unique(thresholds))[: size + 1]
        missing = rng.integers(0, 2, size + 1)
        level, inner = tree[:, 0].copy(), tree[:, 0] >= 0
        if number in mirrored:
            right = np.arange(len(tree)) >= tree[0, 2]
            level = np.where(right & inner, size - level, level)
        parts.append((
            np.where(inner, feature[level], -1), np.where(inner, threshold[level], 0),
            np.where(inner, missing[level], 0),
        ))  # fmt: skip
    feature, threshold, missing = (np.concatenate(part) for part in zip(*parts, strict=True))
    table = np.concatenate(trees)
    zeros = np.zeros(len(table))
    return replace(
        forest,
        feature=feature.astype(np.int32),
        threshold=threshold.astype(np.int64),
        missing_left=missing.astype(np.uint8),
        left=table[:, 1].astype(np.int32),
        right=table[:, 2].astype(np.int32),
        value=rng.standard_normal(len(table)),
        gain=zeros,
        cover=zeros,
        count=zeros.astype(np.int64),
        tree_start=np.cumsum([0, *map(len, trees)]).astype(np.int64),
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=kinds,
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    skips=st.sampled_from([0.0, 0.1, 0.3]),
    vectors=st.sampled_from([0, 3, 8]),
)
def test_paths_of_symmetric_trees_may_skip_levels(seed, kind, sizes, skips, vectors):
    rng = np.random.default_rng(seed)
    values = random_values(rng, kind, 100, 4)
    forest = forest_of_levels(rng, values, kind, sizes, skips)
    if vectors:
        numbers = rng.standard_normal((len(forest.value), vectors))
        forest = replace(forest, vectors=numbers, base_score=rng.standard_normal(vectors))
    predictor = forced(forest, kind, "ranks" if seed % 2 else "mask")
    if skips == 0.0:
        is_coded = predictor.tables._mask_tables[0].is_coded
        assert is_coded.tolist() == [size > 0 for size in sizes]
    assert same_bits(predictor.raw_scores(values), naive.raw_scores(forest, values))


@pytest.mark.parametrize("mirrored", [(), (1,)])
def test_codes_need_no_order_of_the_levels(mirrored):
    rng = np.random.default_rng(5)
    values = random_values(rng, "float64", 100, 4)
    forest = forest_of_levels(rng, values, "float64", [7, 6], 0.0, mirrored)
    predictor = Predictor(forest, ["float"] * 4)
    assert predictor.tables._mask_tables[0].is_coded.tolist() == [1, 1]
    assert same_bits(predictor.raw_scores(values), naive.raw_scores(forest, values))


def test_ranks_stand_beside_sets_of_categories():
    rng = np.random.default_rng(5)
    numbers = rng.choice([0.5, np.nan, *rng.normal(size=40)], (600, 4))
    frame = pd.DataFrame(numbers, columns=list("abcd"))
    frame["town"] = rng.choice(list("stuvwxyz"), 600)
    frame["street"] = rng.integers(0, 90, 600).astype(str)
    y = frame.a.fillna(3) * (frame.town > "v") + rng.normal(size=600)
    params = {"n_estimators": 30, "max_cat_to_onehot": 1}
    found = {}
    for engine in ("mask", "ranks", "walk"):
        booster = train(params, Dataset(frame, y.to_numpy()))
        predictor = booster._predictor
        assert 0 < predictor.forest.has_sets.sum() < (predictor.forest.feature >= 0).sum()
        predictor.tables.__dict__.update(
            forced(predictor.forest, "float64", engine).tables.__dict__
        )
        found[engine] = booster.predict(frame)
    assert same_bits(found["mask"], found["walk"])
    assert same_bits(found["ranks"], found["walk"])


def depth(forest, node=0):
    """Return splits of the longest path of the first tree."""
    if forest.feature[node] < 0:
        return 0
    return 1 + max(depth(forest, child) for child in (forest.left[node], forest.right[node]))


def test_few_rows_are_walked_until_the_tables_of_an_engine_pay(monkeypatch):
    """The first predictions of a model of a small table do not wait for tables."""
    monkeypatch.setattr(engine_tables, "TABLE_COST", 400.0)
    forest, values = case(3, "float64", [31] * 60, n_rows=300)
    predictor = Predictor(forest, ["float"] * forest.n_features)
    found = []
    while "_mask_tables" not in predictor.tables.__dict__:
        found.append(predictor.raw_scores(values))
    found.append(predictor.raw_scores(values))
    assert 3 < len(found) < 30
    assert all(same_bits(scores, found[0]) for scores in found)
    at_once = Predictor(forest, ["float"] * forest.n_features)
    at_once.raw_scores(np.tile(values, (30, 1)))
    assert "_mask_tables" in at_once.tables.__dict__


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=kinds, data=st.data())
def test_batch_split_and_strides_do_not_matter(seed, kind, data):
    forest, values = case(seed, kind, [31, 40, 3, 1], n_rows=600)
    predictor = Predictor(forest, [kind_of(kind)] * forest.n_features)
    whole = predictor.raw_scores(values)
    cut = data.draw(st.integers(0, 600))
    parts = [predictor.raw_scores(part) for part in (values[:cut], values[cut:])]
    assert same_bits(np.concatenate(parts, axis=1), whole)
    wide = np.zeros((1200, 2 * values.shape[1]), values.dtype)
    wide[::2, ::2] = values
    packed = np.zeros(values.shape, dtype=[("a", "u1"), ("b", values.dtype)])
    packed["b"] = values
    readonly = values.copy()
    readonly.flags.writeable = False
    for same in (np.asfortranarray(values), wide[::2, ::2], packed["b"], readonly):
        assert same_bits(predictor.raw_scores(same), whole)
    assert same_bits(predictor.raw_scores(values[::-1])[:, ::-1].copy(), whole)
    flipped = values[:, ::-1].copy()[:, ::-1]
    assert same_bits(predictor.raw_scores(flipped), whole)
    repeated = np.broadcast_to(values[5], values.shape)
    assert same_bits(predictor.raw_scores(repeated), np.repeat(whole[:, 5:6], 600, axis=1))


def test_many_features_use_smaller_blocks():
    rng = np.random.default_rng(3)
    values = rng.standard_normal((700, 3000)).astype(np.float32)
    thresholds = keys_of_floats(rng.standard_normal(50))
    forest = random_forest(rng, [32] * 100, thresholds, 3000)
    expected = naive.raw_scores(forest, values[:50])
    for engine in ("mask", "ranks", "walk"):
        predictor = forced(forest, "float32", engine)
        assert same_bits(predictor.raw_scores(values, 2)[:, :50].copy(), expected)


def test_many_threads_at_once():
    forest, values = case(11, "float32", [31, 70, 200] * 10, n_rows=5000)
    values = np.tile(values, (4, 1))
    expected = forced(forest, "float32", "walk").raw_scores(values)
    predictor = Predictor(forest, ["float"] * forest.n_features)  # tables not yet made
    with ThreadPoolExecutor(12) as pool:
        jobs = [pool.submit(predictor.raw_scores, values, 1 + i % 4) for i in range(36)]
        assert all(same_bits(job.result(), expected) for job in jobs)


def test_wrong_input_is_refused():
    forest, values = case(14, "float32", [3])
    predictor = Predictor(forest, ["float"] * forest.n_features)
    with pytest.raises(DataError, match="n_rows"):
        predictor.raw_scores(np.zeros((2, forest.n_features + 1)))
    with pytest.raises(DataError, match="n_rows"):
        predictor.raw_scores(np.zeros(forest.n_features))
    with pytest.raises(DataTypeError, match="float16"):
        predictor.raw_scores(np.zeros(values.shape, np.float16))
    with pytest.raises(ValueError, match="1 trees"):
        predictor.raw_scores(values, stop_tree=2)
    whole = Predictor(forest, ["int"] * forest.n_features)
    with pytest.raises(DataTypeError, match="int64"):
        whole.raw_scores(values)
