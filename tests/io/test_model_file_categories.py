"""Laws of category columns in the model file: exact round trips, invalid files are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.data.schema import Column, Schema
from hedgerow.errors import ModelFormatError
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.io.levels import LEVEL_DTYPES, level_start_of
from hedgerow.model.forest import CategoryTables
from hedgerow.model.model import Model
from tests.helpers.random_forests import random_model
from tests.io.test_model_file import arrays_of, refused, replace_arrays, take_apart, with_metadata

texts = st.text(st.characters(codec="utf-8"), max_size=4)
ints = st.integers(-(2**63) + 1, 2**63 - 1)
floats = st.floats(allow_nan=False)
levels = st.one_of(
    *(st.sets(kind, max_size=8).map(lambda found: tuple(sorted(found))) for kind in (texts, ints)),
    st.sets(floats.map(lambda x: x + 0.0), max_size=8).map(lambda found: tuple(sorted(found))),
)
policies = st.sampled_from(["missing", "error"])


def add_categories(
    listed: list[tuple[Any, ...]], unknown: Any = "missing", model: Model | None = None
) -> Model:
    """Return a small model with additional category columns that no tree uses."""
    model = random_model(3, n_rounds=1, n_features=2) if model is None else model
    more = tuple(Column(f"category {j}", "category", found) for j, found in enumerate(listed))
    columns = (*model.schema.columns, *more)
    schema = Schema(columns, True, unknown)
    start = level_start_of(schema)
    tables = CategoryTables(np.zeros((0, 4), np.uint64), np.zeros(start[-1], np.uint8), start)
    forest = replace(model.forest, n_features=len(columns), categories=tables)
    return replace(model, forest=forest, schema=schema)


SOME = add_categories([("ä", "ö"), (), (-3, 7), (0.5, 1.0), ("", "x")], "error")
SOME_BYTES = model_to_bytes(SOME)


@given(st.lists(levels, min_size=1, max_size=5), policies)
def test_round_trip_is_exact(listed: list[tuple[Any, ...]], unknown: str) -> None:
    model = add_categories(listed, unknown)
    data = model_to_bytes(model)
    again, _ = model_from_bytes(data)
    assert again.schema == model.schema
    found = [column.levels for column in again.schema.columns]
    expected = [column.levels for column in model.schema.columns]
    assert repr(found) == repr(expected)  # ints stay ints
    assert model_to_bytes(again) == data


def test_only_models_with_categories_need_version_2() -> None:
    head, _ = take_apart(SOME_BYTES)
    assert head["__metadata__"]["schema_version"] == "2"
    assert set(LEVEL_DTYPES) < head.keys()
    head, _ = take_apart(model_to_bytes(random_model(3)))
    assert head["__metadata__"]["schema_version"] == "1"
    assert not set(LEVEL_DTYPES) & head.keys()


def test_header_is_short_whatever_the_number_of_levels() -> None:
    listed = [tuple(f"{number:07}" for number in range(100_000)), tuple(range(100_000))]
    data = model_to_bytes(add_categories(listed))
    assert int.from_bytes(data[:8], "little") < 5000
    assert model_from_bytes(data)[0].schema.columns[-1].levels == listed[1]


@pytest.mark.parametrize(
    ("listed", "match"),
    [
        ([("b", "a")], "ascend"),
        ([("a", "a")], "ascend"),
        ([(2, 1)], "ascend"),
        ([(0.0, -0.0)], "ascend"),
        ([("a", 1)], "several types"),
        ([(1, 1.5)], "several types"),
        ([(True, False)], "several types"),
        ([(float("nan"),)], "NaN"),
        ([(-(2**63),)], "64 bits"),
        ([(2**63,)], "64 bits"),
        ([("\ud800",)], "bad level"),
        ([["a", "b"]], "tuple"),
    ],
)
def test_save_refuses_bad_levels(listed: list[Any], match: str) -> None:
    with pytest.raises(ModelFormatError, match=match):
        model_to_bytes(add_categories(listed))


def test_save_refuses_levels_without_categories_and_policies_without_meaning() -> None:
    model = random_model(3)
    named = replace(model.schema.columns[0], levels=("a",))
    for schema, match in (
        (Schema((named, *model.schema.columns[1:]), True), "no categories"),
        (Schema(model.schema.columns, True, "error"), "no column of them"),
    ):
        with pytest.raises(ModelFormatError, match=match):
            model_to_bytes(replace(model, schema=schema))
    with pytest.raises(ModelFormatError, match="policy"):
        model_to_bytes(add_categories([("a",)], "other"))


def test_arrays_are_as_documented() -> None:
    found = arrays_of(SOME_BYTES)
    assert found["level_text"].tobytes() == "äöx".encode()
    assert found["level_offset"].tolist() == [0, 2, 4, 4, 5]
    assert found["level_int"].tolist() == [-3, 7]
    assert found["level_float"].tolist() == [0.5, 1.0]
    assert model_from_bytes(replace_arrays(SOME_BYTES))[0].schema == SOME.schema


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"level_offset": []}, "run from 0"),
        ({"level_offset": [0, 2, 4, 4, 6]}, "run from 0"),
        ({"level_offset": [1, 2, 4, 4, 5]}, "run from 0"),
        ({"level_offset": [0, 4, 2, 4, 5]}, "decrease"),
        ({"level_offset": [0, 2**63 - 1, 4, 4, 5]}, "decrease"),
        ({"level_offset": [0, -(2**63), 4, 4, 5]}, "decrease"),
        ({"level_offset": [0, 1, 4, 4, 5]}, "UTF-8"),
        ({"level_offset": [0, 2, 4, 5]}, "beyond the end"),
        ({"level_offset": [0, 2, 4, 4, 5, 5]}, "belong to no column"),
        ({"level_offset": [0, 0, 4, 4, 5], "level_text": list(b"\xff\xfe\xc3\xb6x")}, "UTF-8"),
        ({"level_text": list("öäx".encode())}, "ascend"),
        ({"level_int": [7, 7]}, "ascend"),
        ({"level_int": [-(2**63), 7]}, "64 bits"),
        ({"level_int": [7]}, "beyond the end"),
        ({"level_int": [7, 8, 9]}, "belong to no column"),
        ({"level_float": [np.nan, 1.0]}, "NaN"),
        ({"level_float": [1.0, 0.5]}, "ascend"),
    ],
)
def test_hostile_arrays(changed: dict[str, Any], match: str) -> None:
    refused(replace_arrays(SOME_BYTES, **changed), match)


RECORD = json.loads(take_apart(SOME_BYTES)[0]["__metadata__"]["schema"])


def edited(edit: Callable[[dict[str, Any]], Any]) -> bytes:
    record = json.loads(json.dumps(RECORD))
    edit(record)
    return with_metadata(SOME_BYTES, schema=json.dumps(record))


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Return an edit that puts the last item of ``path`` at the place of the others."""
    *way, last, value = path

    def edit(record: Any) -> None:
        for step in way:
            record = record[step]
        record[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda record: record.pop("unknown"), "needs categories, unknown, kinds"),
        (lambda record: record.pop("categories"), "needs categories"),
        (put("unknown", "other"), "policy"),
        (put("unknown", "backoff"), "no longer exists: train it again"),
        (put("unknown", ["missing"]), "policy"),
        (put("unknown", None), "policy"),
        (put("categories", {}), "malformed record"),
        (put("categories", 0, 3), "malformed record"),
        (put("categories", 0, []), "malformed record"),
        (put("categories", 0, 0, "2"), "malformed record"),
        (put("categories", 0, 0, 3), "malformed record"),
        (put("categories", 0, 0, 0), "no categories"),
        (put("categories", 0, 0, 99), "no categories"),
        (put("categories", 0, 0, -1), "no categories"),
        (put("categories", 0, 1, "bytes"), "unknown type"),
        (put("categories", 0, 1, ["text"]), "unknown type"),
        (put("categories", 0, 2, -1), "beyond"),
        (put("categories", 0, 2, 2**62), "beyond"),
        (put("categories", 0, 2, 1.0), "beyond"),
        (put("categories", 0, 2, 1), "several|ascend|belong"),
        (put("kinds", "category", [2, 3, 4, 5]), "no categories"),
        (put("kinds", "category", [2, 3, 4, 5, 6, 6]), "twice"),
        (put("kinds", "strange", [0]), "kind"),
    ],
)
def test_hostile_schema(edit: Callable[[dict[str, Any]], Any], match: str) -> None:
    refused(edited(edit), match)
