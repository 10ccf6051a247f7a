"""Files of single trees: loaded unchanged, and damaged bytes do no harm."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow
from hedgerow import CARTClassifier, CARTRegressor, ModelFormatError
from hedgerow.cart.file import tree_from_bytes, tree_to_bytes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
X[:, 3] = RNG.integers(0, 6, 300)
X[RNG.random(X.shape) < 0.05] = np.nan
FILLED = np.nan_to_num(X)
Y = FILLED[:, 0] * FILLED[:, 3] + FILLED[:, 1]
WORDS = np.where(Y > 1.0, "high", np.where(Y > 0.0, "middle", "low"))

ESTIMATORS: dict[str, Any] = {
    "regressor": CARTRegressor(max_depth=4).fit(X, Y),
    "categories": CARTRegressor(max_depth=5, categorical_features=[3]).fit(X, Y),
    "one node": CARTRegressor(max_depth=1, min_samples_leaf=200).fit(X, Y),
    "integers": CARTRegressor(max_depth=3).fit((FILLED * 10).astype(np.int64), Y),
    "words": CARTClassifier(max_depth=4, class_weight="balanced").fit(X, WORDS),
    "numbers": CARTClassifier(max_depth=4, max_features=2, random_state=0).fit(X, Y > 0),
    "named": CARTRegressor(max_depth=3).fit({name: X[:, j] for j, name in enumerate("abcd")}, Y),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_file_gives_the_estimator_back(name: str, tmp_path: Path) -> None:
    model = ESTIMATORS[name]
    model.save(tmp_path / "tree")
    found = type(model).load(tmp_path / "tree")
    assert found.get_params() == model.get_params()
    for field in fields(model.tree_):
        ours, theirs = getattr(model.tree_, field.name), getattr(found.tree_, field.name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        else:
            assert ours == theirs
    table = {n: X[:, j] for j, n in enumerate("abcd")} if name == "named" else X
    table = (FILLED * 10).astype(np.int64) if name == "integers" else table
    np.testing.assert_array_equal(found.predict(table), model.predict(table))
    np.testing.assert_array_equal(found.apply(table), model.apply(table))
    if isinstance(model, CARTClassifier):
        ours, theirs = model.predict_proba(table), found.predict_proba(table)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    assert found.to_text() == model.to_text()
    assert found.feature_importances_.tolist() == model.feature_importances_.tolist()
    found.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "tree").read_bytes()


def test_files_of_other_classes_are_distinguished(tmp_path: Path) -> None:
    ESTIMATORS["regressor"].save(tmp_path / "tree")
    with pytest.raises(ModelFormatError, match="a tree of CARTRegressor, not of CARTClassifier"):
        CARTClassifier.load(tmp_path / "tree")
    with pytest.raises(ModelFormatError, match=r"a single tree: .*CARTRegressor"):
        hedgerow.load(tmp_path / "tree")
    hedgerow.HedgerowRegressor(n_estimators=2).fit(X, Y).save(tmp_path / "model")
    with pytest.raises(ModelFormatError, match="a boosted model"):
        CARTRegressor.load(tmp_path / "model")
    model = CARTRegressor(random_state=np.random.RandomState(0)).fit(X, Y)
    with pytest.raises(hedgerow.DataTypeError, match="random_state"):
        model.save(tmp_path / "other")


def content(name: str) -> bytes:
    model = ESTIMATORS[name]
    return tree_to_bytes(model.tree_, model._to_record())


@settings(deadline=None)
@given(
    name=st.sampled_from(["categories", "words", "one node"]),
    place=st.floats(0.0, 1.0, exclude_max=True),
    byte=st.integers(0, 255),
)
def test_damaged_files_are_refused(name: str, place: float, byte: int) -> None:
    data = bytearray(content(name))
    at = int(place * len(data))
    if data[at] == byte:
        return
    data[at] = byte
    with pytest.raises(ModelFormatError):
        tree_from_bytes(bytes(data))


CHANGES = {
    "children before their parent": ("children_left", 0, 0),
    "children beyond the end": ("children_right", 0, 10**6),
    "children of two parents": ("children_left", 0, "children_right"),
    "a column that is not there": ("feature", 0, 99),
    "a leaf with children": ("feature", 0, -1),
    "sides that are neither": ("missing_left", 0, 7),
    "values that are no numbers": ("value", 0, np.nan),
    "rows below 0": ("n_node_samples", 0, -1),
    "categories beyond the end": ("category_start", 1, 10**9),
    "categories that fall": ("category", 0, 2**62),
    "category sides that are neither": ("category_left", 0, 9),
}


@pytest.mark.parametrize("change", CHANGES)
def test_forged_trees_are_refused(change: str) -> None:
    """The checksum is right, so the tree itself must be checked."""
    from dataclasses import replace

    model = ESTIMATORS["categories"]
    name, place, value = CHANGES[change]
    array = getattr(model.tree_, name).copy()
    forged = array.reshape(-1)
    forged[place] = getattr(model.tree_, value)[place] if isinstance(value, str) else value
    tree = replace(model.tree_, **{name: array})
    with pytest.raises(ModelFormatError):
        tree_from_bytes(tree_to_bytes(tree, model._to_record()))


@pytest.mark.parametrize(
    "change",
    [
        {"classes": None},
        {"classes": [{"dtype": "<U3", "values": ["a"]}]},
        {"classes": [{"dtype": "<U999999999", "values": ["a", "b", "c"]}]},
        {"classes": [{"dtype": "<U1", "values": ["a", "b", "c"]}] * 2},
        {"max_features": "all"},
        {"params": {"max_dept": 3}},
        {"params": {"n_jobs": "many"}},
        {"params": 3},
        {"class": ["CARTClassifier"]},
    ],
    ids=str,
)
def test_forged_records_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    model = ESTIMATORS["words"]
    path = tmp_path / "tree"
    path.write_bytes(tree_to_bytes(model.tree_, {**model._to_record(), **change}))
    with pytest.raises(ModelFormatError):
        CARTClassifier.load(path)
