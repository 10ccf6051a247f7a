"""Any change of the arrays of a file with a valid checksum is refused, or gives a usable model."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Booster, Dataset, train
from hedgerow.errors import ModelFormatError
from hedgerow.io import model_from_bytes, model_to_bytes
from tests.helpers.examples import examples
from tests.io.test_model_file import arrays_of, reseal, take_apart, walk_everywhere

RNG = np.random.default_rng(0)
N = 150
X: dict[str, Any] = {
    "size": RNG.normal(size=N),
    "town": RNG.choice(["Bonn", "Jena", "Ulm"], N),
    "code": RNG.choice([3, 5, 2**40], N),
    "count": RNG.integers(2**60, 2**60 + 9, N),
}
Y = X["size"] + (X["town"] == "Ulm") + RNG.normal(size=N) / 3
CLASSES = {"objective": "softmax", "multi_strategy": "multi_output_tree"}
MODELS: dict[str, dict[str, Any]] = {
    "categories": {"target_statistics": False},
    "statistics": {"target_statistics": True},
    "crosses": {"feature_crosses": [("size", "count", "product")], "target_statistics": False},
    "lines": {"linear_leaves": True, "target_statistics": True},
    "vectors": {**CLASSES, "target_statistics": False},
    "forests": {"num_parallel_tree": 2, "subsample": 0.6},
}


@cache
def file_of(name: str) -> bytes:
    y = np.digitize(Y, [0.0, 1.0]) if "objective" in MODELS[name] else Y
    plain = {"n_estimators": 2, "max_leaves": 5, "min_data_per_group": 5, "min_samples_leaf": 5}
    data = Dataset(X, y, categorical_features=["town", "code"])
    return train(plain | MODELS[name], data).to_bytes()


def changed(data: bytes, draw: Any) -> bytes:
    """Return the file with one to three items of one array, or its length, changed."""
    head, payload = take_apart(data)
    name = draw(st.sampled_from(sorted(arrays_of(data))))
    begin, end = head[name]["data_offsets"]
    part, width = bytearray(payload[begin:end]), int(head[name]["dtype"][1:]) // 8
    for _ in range(draw(st.integers(1, 3)) if part else 0):
        at = draw(st.integers(0, len(part) // width - 1)) * width
        word = draw(st.binary(min_size=width, max_size=width) | st.integers(-9, 9))
        if isinstance(word, int):
            old = int.from_bytes(part[at : at + width], "little")
            word = ((old + word) % 256**width).to_bytes(width, "little")
        part[at : at + width] = word
    if draw(st.integers(0, 5)) == 0:
        part = part[width:] if draw(st.booleans()) else part + bytes(width)
    longer = len(part) - (end - begin)
    for entry in (entry for key, entry in head.items() if key != "__metadata__"):
        if entry["data_offsets"][0] >= end and entry is not head[name]:
            entry["data_offsets"] = [place + longer for place in entry["data_offsets"]]
    head[name] |= {"data_offsets": [begin, begin + len(part)], "shape": [len(part) // width]}
    return reseal(head, payload[:begin] + bytes(part) + payload[end:])


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_any_change_is_refused_or_harmless(name: str, data: st.DataObject) -> None:
    try:
        model, _ = model_from_bytes(changed(file_of(name), data.draw))
    except ModelFormatError:
        return
    walk_everywhere(model)
    again = model_to_bytes(model)
    assert model_to_bytes(model_from_bytes(again)[0]) == again
    rows = {key: column[:20].copy() for key, column in X.items()}
    levels = {column.name: column.levels for column in model.schema.columns}
    rows["town"], rows["code"] = (np.resize(levels[key] or [0], 20) for key in ("town", "code"))
    booster = Booster(model)
    assert np.isfinite(booster.raw_scores(rows)).all()
    assert booster.leaves(rows).shape == (20, booster.num_trees)
