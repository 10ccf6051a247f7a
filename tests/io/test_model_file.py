"""Laws of the model file.

* A loaded model equals the saved one, and saving it again gives the same bytes.
* Any bytes give a valid model or ``ModelFormatError``, fast and in little memory.
* After any failure during saving, a path holds the old model or the new one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import pickle
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow import Dataset, load, train
from hedgerow.data.schema import Column, Schema
from hedgerow.errors import DataTypeError, ModelFormatError
from hedgerow.io import load_model, model_from_bytes, model_to_bytes, save_model
from hedgerow.io.strict_json import MAX_CONTAINERS, MAX_DEPTH, MAX_VALUES
from hedgerow.io.validate import FOREST_DTYPES
from hedgerow.model.forest import NODE_FIELDS
from hedgerow.model.model import Model
from tests.helpers.random_forests import forest_of, random_model

ESTIMATOR = {"class": "HedgerowClassifier", "classes_": ["a", "b"], "params": {"n_jobs": None}}
SMALL = random_model(3, n_rounds=1, n_features=2)
SMALL_BYTES = model_to_bytes(SMALL)

# ------------------------------------------------------------------ taking files apart


def take_apart(data: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def seal(header: bytes, payload: bytes) -> bytes:
    """Assemble a file with a valid checksum, written from docs/model-format.md alone."""
    start = len(header).to_bytes(8, "little") + header
    digest = hashlib.blake2b(start[:37] + start[101:] + payload, digest_size=32).hexdigest()
    return start[:37] + digest.encode() + start[101:] + payload


def reseal(head: dict[str, Any], payload: bytes) -> bytes:
    return seal(json.dumps(head, separators=(",", ":")).encode(), payload)


def arrays_of(data: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a file in the order of the file."""
    head, payload = take_apart(data)
    dtypes = {"F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "<u1"}
    places = {name: entry["data_offsets"] for name, entry in head.items() if name[0] != "_"}
    return {
        name: np.frombuffer(payload[slice(*places[name])], dtypes[head[name]["dtype"]])
        for name in sorted(places, key=lambda name: places[name])
    }


def replace_arrays(data: bytes, **changed: Any) -> bytes:
    """Return the file with some arrays replaced, of any size, and a valid checksum."""
    (head, _), parts, position = take_apart(data), [], 0
    for name, array in arrays_of(data).items():
        part = np.asarray(changed.get(name, array), dtype=array.dtype)
        head[name] |= {"data_offsets": [position, position + part.nbytes], "shape": [part.size]}
        position += part.nbytes
        parts.append(part.tobytes())
    return reseal(head, b"".join(parts))


def with_metadata(data: bytes, **changed: str | None) -> bytes:
    head, payload = take_apart(data)
    head["__metadata__"] |= changed
    head["__metadata__"] = {k: v for k, v in head["__metadata__"].items() if v is not None}
    return reseal(head, payload)


def refused(data: bytes, match: str | None = None) -> None:
    with pytest.raises(ModelFormatError, match=match or None):
        model_from_bytes(data)


def valid_or_refused(data: bytes) -> Model | None:
    try:
        model, _ = model_from_bytes(data)
    except ModelFormatError:
        return None
    walk_everywhere(model)
    return model


def walk_everywhere(model: Model) -> None:
    """Walk all paths of all trees in plain Python, which checks every index."""
    forest = model.forest
    assert len(forest.tree_start) == forest.n_rounds * forest.trees_per_round + 1
    for start, end in zip(forest.tree_start[:-1], forest.tree_start[1:], strict=True):
        open_nodes, visited = [0], set()
        while open_nodes:
            node = open_nodes.pop()
            assert 0 <= node < end - start
            assert node not in visited
            visited.add(node)
            feature = int(forest.feature[start + node])
            assert np.isfinite(forest.value[start + node])
            if feature >= 0:
                _ = model.schema.columns[feature]
                assert forest.threshold[start + node] != -(2**63)
                open_nodes += [int(forest.left[start + node]), int(forest.right[start + node])]
        assert len(visited) == end - start


# ------------------------------------------------------------------ round trip


@given(
    seed=st.integers(0, 10**6),
    n_rounds=st.integers(0, 4),
    n_outputs=st.integers(1, 3),
    n_features=st.integers(1, 9),
    max_leaves=st.integers(1, 40),
    named=st.booleans(),
)
def test_round_trip_is_exact(seed: int, n_rounds: int, n_outputs: int, **shape: Any) -> None:
    model = random_model(seed, n_rounds=n_rounds, n_outputs=n_outputs, **shape)
    data = model_to_bytes(model, estimator=ESTIMATOR)
    again, estimator = model_from_bytes(data)
    for name in FOREST_DTYPES:
        before, after = getattr(model.forest, name), getattr(again.forest, name)
        assert before.tobytes() == after.tobytes()
        assert before.dtype == after.dtype
        assert not after.flags.writeable
        assert after.flags.aligned
        assert after.flags.c_contiguous
    assert again.schema == model.schema
    assert (again.objective, again.training) == (model.objective, model.training)
    assert estimator == ESTIMATOR
    assert model_to_bytes(again, estimator=estimator) == data


def test_file_and_bytes_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_model(SMALL, path, estimator=ESTIMATOR)
    assert path.read_bytes() == model_to_bytes(SMALL, estimator=ESTIMATOR)
    model, estimator = load_model(str(path))
    assert estimator == ESTIMATOR
    assert model_to_bytes(model) == SMALL_BYTES
    assert model_from_bytes(bytearray(SMALL_BYTES))[1] is None


def test_bytes_are_pinned() -> None:
    """A change of this digest is a change of the format: add a reader, keep the old one."""
    forest = forest_of(
        2,
        base_score=[0.25],
        feature=[1, -1, -1],
        threshold=[7, 0, 0],
        missing_left=[1, 0, 0],
        left=[1, 0, 0],
        right=[2, 0, 0],
        value=[0.0, -0.5, 0.5],
        gain=[2.0, 0.0, 0.0],
        cover=[4.0, 2.0, 2.0],
        count=[4, 2, 2],
    )
    schema = Schema((Column("a"), Column("b", "int")), named=True)
    data = model_to_bytes(Model(forest, schema, "squared_error", {"seed": 1}))
    assert data[8:37] == b'{"__metadata__":{"checksum":"'
    assert hashlib.sha256(data).hexdigest() == PINNED


PINNED = "2bc750f3644efd5420ed6074492404430623ec3f8d0014f6843aecdec0ecbdd5"


@pytest.mark.parametrize("n_rounds", [0, 3])
def test_safetensors_opens_it(n_rounds: int, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    model = random_model(5, n_rounds=n_rounds, n_outputs=3)
    path = tmp_path / "m.safetensors"
    save_model(model, path, estimator=ESTIMATOR)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert set(file.keys()) == set(FOREST_DTYPES)
        for name in FOREST_DTYPES:
            np.testing.assert_array_equal(file.get_tensor(name), getattr(model.forest, name))
        metadata = file.metadata()
    assert (metadata["format"], metadata["schema_version"]) == ("hedgerow", "1")
    assert json.loads(metadata["schema"])["names"] == list(model.schema.names)


def test_arrays_are_aligned_in_the_file() -> None:
    head, _ = take_apart(SMALL_BYTES)
    assert int.from_bytes(SMALL_BYTES[:8], "little") % 8 == 0
    for name, dtype in FOREST_DTYPES.items():
        assert head[name]["data_offsets"][0] % dtype.itemsize == 0


def test_records_keep_what_json_lacks() -> None:
    record = {"loss": [np.float64(0.5), float("nan"), -np.inf, np.inf], "n": np.int32(3), "t": (1,)}
    record |= {"big": 2**64 - 1, "small": -(2**63), "array": np.array([[1, 2]]), "name": "\ud800é"}
    again = model_from_bytes(model_to_bytes(replace(SMALL, training=record)))[0].training
    assert again["loss"][0] == 0.5
    assert np.isnan(again["loss"][1])
    assert again["loss"][2:] == [-np.inf, np.inf]
    assert (again["n"], again["t"], again["array"]) == (3, [1], [[1, 2]])
    assert (again["big"], again["small"], again["name"]) == (2**64 - 1, -(2**63), "\ud800é")


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ({"a": [0, object()]}, r"training\.a\[1\] is a object"),
        ({"a": 1j}, "complex"),
        ({"a": 2**64}, "64 bits"),
        ({1: 2}, "keys must be strings"),
        ({"$float": "nan"}, "keys must be strings"),
        ({"a": b"x"}, "bytes"),
    ],
)
def test_unstorable_record_names_the_place(record: Any, match: str) -> None:
    with pytest.raises(DataTypeError, match=match):
        model_to_bytes(replace(SMALL, training=record))


def test_endless_record_is_refused() -> None:
    record: dict[str, Any] = {}
    record["self"] = record
    with pytest.raises(DataTypeError, match="nested"):
        model_to_bytes(replace(SMALL, training=record))


def test_too_large_header_cannot_be_saved(tmp_path: Path) -> None:
    model = replace(SMALL, training={"note": "x" * (17 << 20)})
    with pytest.raises(ModelFormatError, match="header"):
        save_model(model, tmp_path / "m")
    with pytest.raises(ModelFormatError, match="values"):
        save_model(replace(SMALL, training={"a": [0] * (MAX_VALUES + 1)}), tmp_path / "m")
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ damaged bytes


def test_truncated_at_every_byte(tmp_path: Path) -> None:
    for length in range(len(SMALL_BYTES)):
        refused(SMALL_BYTES[:length])
    path = tmp_path / "m"
    path.write_bytes(SMALL_BYTES[:-1])
    with pytest.raises(ModelFormatError, match=r"m: .*cut short"):
        load_model(path)


def test_appended_bytes_are_refused() -> None:
    refused(SMALL_BYTES + b"\0", "appended")
    refused(SMALL_BYTES + SMALL_BYTES, "appended")


def test_every_single_bit_flip_is_noticed() -> None:
    for position in range(len(SMALL_BYTES)):
        for bit in range(8):
            data = bytearray(SMALL_BYTES)
            data[position] ^= 1 << bit
            refused(bytes(data))


def test_every_single_bit_flip_with_right_checksum_is_harmless() -> None:
    """An attacker can make the checksum right, so the validator must find everything."""
    length = int.from_bytes(SMALL_BYTES[:8], "little")
    accepted = 0
    for position in range(101, len(SMALL_BYTES)):
        for bit in range(8):
            data = bytearray(SMALL_BYTES)
            data[position] ^= 1 << bit
            model = valid_or_refused(seal(bytes(data[8 : 8 + length]), bytes(data[8 + length :])))
            accepted += model is not None
    assert accepted > 0  # low bits of a leaf value, for example


@given(st.binary(max_size=300))
@example(b"")
def test_any_bytes(data: bytes) -> None:
    refused(data)


# ------------------------------------------------------------------ hostile trees

STUMP = Model(
    forest_of(
        2,
        feature=[0, 1, -1, -1, -1],
        threshold=[1 << 60, 7, 0, 0, 0],
        missing_left=[1, 0, 0, 0, 0],
        left=[1, 3, 0, 0, 0],
        right=[2, 4, 0, 0, 0],
        gain=[2.0, 1.0, 0, 0, 0],
        cover=[1.0] * 5,
        count=[4, 2, 2, 1, 1],
    ),
    Schema((Column("a"), Column("b", "int")), named=True),
    "squared_error",
)
STUMP_BYTES = model_to_bytes(STUMP)
INF_KEY = 0x7FF0_0000_0000_0000


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"left": [0, 3, 0, 0, 0]}, "left"),  # child = self
        ({"left": [1, 0, 0, 0, 0]}, "left"),  # cycle to the root
        ({"left": [3, 3, 0, 0, 0]}, "more than one parent|parents"),
        ({"left": [1, 4, 0, 0, 0]}, "parents"),  # both children the same
        ({"right": [2, 5, 0, 0, 0]}, "right"),  # outside
        ({"right": [2, 2**31 - 1, 0, 0, 0]}, "right"),
        ({"left": [1, 3, 0, 0, 1]}, "0 in a leaf"),
        ({"feature": [2**31 - 1, 1, -1, -1, -1]}, "feature"),
        ({"feature": [2, 1, -1, -1, -1]}, "feature"),
        ({"feature": [-1, 1, -1, -1, -1]}, "0 in a leaf"),
        ({"threshold": [INF_KEY + 1, 7, 0, 0, 0]}, "threshold of node 0"),  # NaN
        ({"threshold": [-INF_KEY - 2, 7, 0, 0, 0]}, "threshold of node 0"),
        ({"threshold": [1, -(2**63), 0, 0, 0]}, "threshold of node 1"),
        ({"missing_left": [2, 0, 0, 0, 0]}, "missing_left"),
        ({"gain": [np.nan, 1, 0, 0, 0]}, "gain must be finite"),
        ({"value": [0, 0, np.inf, 0, 0]}, "value must be finite; it is not at position 2"),
        ({"value": [0, 0, np.nan, 0, 0]}, "value must be finite"),
        ({"cover": [1, 1, 1, -1, 1]}, "cover must be at least 0"),
        ({"cover": [1, 1, 1, np.inf, 1]}, "cover must be finite"),
        ({"count": [1, 1, 1, -1, 1]}, "count must be at least 0"),
        ({"base_score": [np.nan]}, "base_score must be finite"),
        ({"base_score": []}, "outputs"),
        ({"base_score": [0, 0]}, "outputs"),
        ({"tree_start": []}, "tree_start"),
        ({"tree_start": [0]}, "tree_start"),
        ({"tree_start": [0, 0, 5]}, "increasing"),  # a tree without nodes
        ({"tree_start": [0, 6, 5]}, "increasing"),
        ({"value": [0.0] * 4}, "one entry per node"),
        ({"left": []}, "one entry per node"),
    ],
)
def test_hostile_trees(changed: dict[str, list[Any]], match: str) -> None:
    refused(replace_arrays(STUMP_BYTES, **changed), match)


def test_extreme_thresholds_are_fine() -> None:
    for threshold in (INF_KEY, -INF_KEY - 1, 0, 1):
        model_from_bytes(replace_arrays(STUMP_BYTES, threshold=[threshold, -1, 0, 0, 0]))


def test_save_refuses_what_load_would_refuse(tmp_path: Path) -> None:
    for name, bad in [("left", [0, 3, 0, 0, 0]), ("value", [np.nan] * 5)]:
        array = np.array(bad, dtype=FOREST_DTYPES[name])
        model = replace(STUMP, forest=replace(STUMP.forest, **{name: array}))
        with pytest.raises(ModelFormatError):
            save_model(model, tmp_path / "m")
    wrong_type = replace(STUMP.forest, value=np.zeros(5, dtype=np.float32))
    with pytest.raises(ModelFormatError, match="float64"):
        save_model(replace(STUMP, forest=wrong_type), tmp_path / "m")


# ------------------------------------------------------------------ hostile headers


def test_newer_version_says_so() -> None:
    refused(with_metadata(SMALL_BYTES, schema_version="11"), "newer")
    head, payload = take_apart(SMALL_BYTES)
    head["__metadata__"]["schema_version"] = "12"
    head["bitsets"] = {"dtype": "U8", "shape": [1], "data_offsets": [len(payload)] * 2}
    head["bitsets"]["data_offsets"][1] += 1
    refused(reseal(head, payload + b"\0"), "newer")


def test_a_version_that_does_not_go_with_the_content_says_what_to_do() -> None:
    for version in ("2", "3", "4", "6", "7", "8", "9", "10"):
        refused(with_metadata(SMALL_BYTES, schema_version=version), "Train the model again")


@pytest.mark.parametrize("version", ["", "0", "-1", "1.0", "01", " 1", "٣", "9" * 5000, None])
def test_malformed_version(version: str | None) -> None:
    refused(with_metadata(SMALL_BYTES, schema_version=version), "schema_version")


def schema_text(**changed: Any) -> str:
    return json.dumps({"kinds": {"int": [1]}, "named": True, "names": ["a", "b"]} | changed)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"format": "other"}, "another format"),
        ({"format": None}, "another format"),
        ({"objective": "os.system"}, "unknown objective"),
        ({"objective": "softmax"}, "cannot have 1 outputs"),
        ({"objective": None}, "lack objective"),
        ({"schema": None}, "lack schema"),
        ({"n_features": "3"}, "n_features"),
        ({"n_features": "0"}, "n_features"),
        ({"training": "[]"}, "training is not a JSON object"),
        ({"training": "{"}, "training cannot be read"),
        ({"training": '{"a":1,"a":2}'}, "duplicate"),
        ({"training": '{"a":NaN}'}, "NaN"),
        ({"training": '{"a":-Infinity}'}, "Infinity"),
        ({"training": '{"a":1e999}'}, "float64"),
        ({"training": '{"a":' + "1" * 5000 + "}"}, "64 bits"),
        ({"training": '{"a":18446744073709551616}'}, "64 bits"),
        ({"training": '{"a":1.' + "1" * 5000 + "}"}, "float64"),
        ({"training": '{"a":{"$float":"x"}}'}, "float"),
        ({"training": '{"a":{"$float":"nan","b":1}}'}, "float"),
        ({"training": '{"$float":"nan"}'}, "not a JSON object"),
        ({"training": "é{}"}, "training"),
        ({"training": ""}, "training"),
        ({"training": '{"a":' + "[" * 200_000 + "]" * 200_000 + "}"}, "nested"),
        ({"training": '{"a":"\\\\","b":' + "[" * 40 + "]" * 40 + "}"}, "nested"),
        ({"estimator": "7"}, "estimator is not a JSON object"),
        ({"schema": schema_text(names=["a", "a"])}, "twice"),
        ({"schema": schema_text(names=["a"])}, "kind|columns"),
        ({"schema": schema_text(names=["a", 1])}, "names"),
        ({"schema": schema_text(names={"a": 0, "b": 1})}, "names"),
        ({"schema": schema_text(named=1)}, "named"),
        ({"schema": schema_text(more=1)}, "no more"),
        ({"schema": schema_text(kinds={"int": [2]})}, "kind"),
        ({"schema": schema_text(kinds={"int": [-1]})}, "kind"),
        ({"schema": schema_text(kinds=[])}, "kinds"),
        ({"schema": "null"}, "schema"),
    ],
)
def test_hostile_metadata(changed: dict[str, str | None], match: str) -> None:
    refused(with_metadata(STUMP_BYTES, **changed), match)


def test_brackets_in_strings_do_not_nest() -> None:
    training = {"a": "[" * 100, "b\\": '"[{' * 100, "c": "\\" * 7 + '"' + "{" * 100}
    again, _ = model_from_bytes(model_to_bytes(replace(SMALL, training=training)))
    assert again.training == training


def test_unknown_metadata_is_ignored() -> None:
    model, _ = model_from_bytes(with_metadata(SMALL_BYTES, later_addition="x"))
    assert model_to_bytes(model) == SMALL_BYTES


def _edit(name: str, **changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda head: head[name].update(changed)


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (_edit("value", shape=[2**40], data_offsets=[0, 2**43]), "does not follow|announces"),
        (_edit("missing_left", shape=[2**40], data_offsets=[220, 220 + 2**40]), ""),
        (_edit("value", shape=[2**61]), "does not fit"),
        (_edit("value", shape=[-1]), "malformed"),
        (_edit("value", shape=[5.0]), "malformed"),
        (_edit("value", shape=[10**30]), "JSON"),
        (_edit("value", data_offsets=[0, 40]), "does not follow"),  # overlap
        (_edit("value", data_offsets=[48, 88]), "does not follow"),  # hole
        (_edit("value", data_offsets=[40, 81]), "does not fit"),
        (_edit("value", dtype="F32"), "dtype"),
        (_edit("value", dtype="O"), "dtype"),
        (_edit("value", dtype="I64"), "must have dtype"),
        (_edit("value", extra=1), "no more"),
        (_edit("__metadata__", n_features=2), "string to string"),
        (lambda head: head.update(value=7), "no more"),
        (lambda head: head.update(code=head.pop("gain")), "missing or unknown: code, gain"),
    ],
)
def test_hostile_layout(edit: Callable[[dict[str, Any]], None], match: str) -> None:
    head, payload = take_apart(STUMP_BYTES)
    edit(head)
    refused(reseal(head, payload), match)


def test_hostile_header_text() -> None:
    head, payload = take_apart(STUMP_BYTES)
    text = json.dumps(head, separators=(",", ":")).encode()
    model_from_bytes(seal(text, payload))
    model_from_bytes(seal(text + b"   ", payload))
    refused(
        seal(text[:-1] + b',"value":' + json.dumps(head["value"]).encode() + b"}", payload), "dup"
    )
    refused(seal(text[:-1] + b',"__metadata__":{}}', payload), "duplicate")
    refused(seal(text[:-1] + b',"x":' + b"[" * 10_000, payload), "nested")
    refused(seal(text[:-1] + b',"x":' + b'{"a":' * 10_000, payload), "nested")
    refused(seal(text + b"]" * 10_000, payload), "JSON")
    refused(seal(text[:-1], payload), "JSON")
    refused(seal(text[:-1] + b"\xff}", payload), "JSON")
    refused(seal(text[:-1] + b"\0}", payload), "JSON")
    refused(seal(text[:105], payload))
    refused(seal(text[:60], payload))
    refused(STUMP_BYTES[:7] + b"\xff" + STUMP_BYTES[8:], "header is longer")
    refused(b"\xff" * 8 + STUMP_BYTES[8:], "header is longer")


@pytest.mark.parametrize(
    "filling",
    [
        b"[" * (8 << 20),
        b"[]," * (5 << 20),
        b"{}," * (5 << 20),
        b'"' * (15 << 20),
        b'"",' * (5 << 20),
        b"\\" * (15 << 20),
        b'"\\"' * (5 << 20),
        b"0," * (7 << 20),
        b"1" * (15 << 20),
        b'"' + b"\\u0041" * (2 << 20),
        b" " * (15 << 20),
        b"[[]," * (MAX_CONTAINERS // 2 - 2),
        b'["a1",' + b'"ab",' * (MAX_VALUES - 99),
    ],
)
def test_no_hang_and_no_memory_blow_up(filling: bytes) -> None:
    """A header of the largest size takes seconds, and a few times its size in memory."""
    text = SMALL_BYTES[8:101] + b'","a":' + filling
    data = seal(text, b"")
    begun = time.process_time()
    tracemalloc.start()
    try:
        refused(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (256 << 20)
    assert time.process_time() - begun < 10.0


def test_memory_of_a_large_model(tmp_path: Path) -> None:
    """Memory holds the file, the arrays once, and the temporaries of the checks."""
    n_trees = 100_000
    nodes = {name: np.tile(getattr(STUMP.forest, name), n_trees) for name in NODE_FIELDS}
    forest = forest_of(2, tree_start=np.arange(n_trees + 1) * 5, **nodes)
    path = tmp_path / "m"
    save_model(replace(STUMP, forest=forest), path)
    tracemalloc.start()
    try:
        load_model(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.1 * path.stat().st_size


def test_depth_limit_is_reached_and_kept() -> None:
    value: Any = []
    for _ in range(MAX_DEPTH - 2):
        value = [value]
    model_from_bytes(model_to_bytes(replace(SMALL, training={"a": value})))
    with pytest.raises(DataTypeError, match="nested"):
        model_to_bytes(replace(SMALL, training={"a": [value]}))


# ------------------------------------------------------------------ other files by mistake


@pytest.mark.parametrize(
    ("content", "guess"),
    [
        (b"", "empty file"),
        (pickle.dumps({"a": 1}), "pickle"),
        (b"PK\x03\x04" + b"\0" * 100, "zip archive"),
        (b"tree\nversion=v4\nnum_class=1\n", "LightGBM"),
        (b'{"learner":{"attributes":{}},"version":[3,2,0]}', "XGBoost JSON"),
        (b"{L\x00\x00\x00\x00\x00\x00\x00\x07learner", "XGBoost model in UBJSON"),
        (b'{"trees": []}', "JSON text"),
        (b"\x1f\x8b\x08" + b"\0" * 50, "gzip"),
        (b"CBM1" + b"\0" * 50, "CatBoost"),
        (b"PAR1" + b"\0" * 50, "Parquet"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"<!DOCTYPE html><html>404</html>", "HTML"),
        ((64).to_bytes(8, "little") + b'{"w":{"dtype":"F32"', "safetensors"),
    ],
)
def test_wrong_file_is_named(content: bytes, guess: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.bin"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=rf"wrong\.bin: .*looks like .*{guess}"):
        load_model(path)


def test_foreign_bytes_without_a_guess() -> None:
    refused(b"\x01\x02\x03", "not a Hedgerow model file")


def test_path_errors_are_the_usual_ones(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        load_model(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        load_model(tmp_path)
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        save_model(SMALL, tmp_path)
    with pytest.raises(FileNotFoundError, match="absent"):
        save_model(SMALL, tmp_path / "absent" / "m")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFormatError, match="regular file"):
        load_model(tmp_path / "pipe")
    with pytest.raises(ModelFormatError, match="regular file"):
        load_model("/dev/zero")


# ------------------------------------------------------------------ atomic writing

OLD, NEW = random_model(1), random_model(2)


class Faulty:
    """A function of ``os`` that fails at its N-th call, and after it."""

    def __init__(self, call: Callable[..., Any], fails_at: int, error: BaseException) -> None:
        self.call, self.fails_at, self.error, self.calls = call, fails_at, error, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls >= self.fails_at:
            raise self.error
        return self.call(*args, **kwargs)


@pytest.mark.parametrize("name", ["write", "fsync", "replace", "open", "fchmod"])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, OSError),
        (errno.EIO, OSError),
        (errno.EACCES, PermissionError),
        (None, OSError),
        (None, KeyboardInterrupt),
    ],
)
def test_a_fault_leaves_the_old_model(
    name: str, code: int | None, kind: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    if not hasattr(os, name):
        pytest.skip("not on this system")
    n_faults = 0
    for fails_at in range(1, 100):
        save_model(OLD, path)
        before = path.read_bytes()
        error = kind(code, os.strerror(code)) if code else kind("boom")
        with pytest.MonkeyPatch.context() as patch:
            faulty = Faulty(getattr(os, name), fails_at, error)
            patch.setattr(os, name, faulty)
            try:
                save_model(NEW, path)
                failed = None
            except kind as caught:
                failed = caught
        assert sorted(file.name for file in tmp_path.iterdir()) == [path.name]
        if failed is None:
            assert path.read_bytes() == model_to_bytes(NEW)
            break
        n_faults += 1
        assert type(failed) is kind
        if kind is KeyboardInterrupt:  # may come when the new model is in its place already
            assert path.read_bytes() in (before, model_to_bytes(NEW))
        else:
            assert path.read_bytes() == before
            assert path.name in str(failed)
            assert getattr(failed, "errno", None) == code
    assert n_faults >= (0 if name == "fchmod" and code == errno.EACCES else 1)


def test_folder_that_cannot_be_flushed_is_no_failed_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "fsync", Faulty(os.fsync, 2, OSError(errno.EIO, "boom")))
    with caplog.at_level(logging.WARNING, logger="hedgerow"):
        save_model(NEW, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == model_to_bytes(NEW)
    assert "could not be flushed" in caplog.text


def test_partial_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:7])))
    save_model(NEW, tmp_path / "m")
    monkeypatch.undo()
    assert (tmp_path / "m").read_bytes() == model_to_bytes(NEW)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "m", tmp_path / "link"
    save_model(OLD, path)
    mask = os.umask(0o022)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o640)
    link.symlink_to(path)
    save_model(NEW, link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_bytes() == model_to_bytes(NEW)


def test_paths_that_cannot_be_used_are_named(tmp_path) -> None:
    booster = train({"n_estimators": 1}, Dataset([[1.0], [2.0]], [1.0, 2.0]))
    for path in (tmp_path, tmp_path / "absent" / "model"):
        with pytest.raises(OSError, match=f"'{path}'$"):
            booster.save(path)
    for path in (None, 1.5, booster):
        with pytest.raises(DataTypeError, match=r"path must be the path of a file, .* got"):
            load(path)
