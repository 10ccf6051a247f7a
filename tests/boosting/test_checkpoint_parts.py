"""Parts of a checkpoint as bytes, fingerprints of fits, and the times of writes.

* Reading returns what was written.
* Only bytes that were written are read as rounds; rounds with a valid checksum are safe to walk.
* Equal fits have equal fingerprints for all strides and threads; other fits have other ones.
* Writes are as rare as requested, and a failed write is repeated.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.atomic import write_atomically
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.job import Job
from hedgerow.boosting.resume.checkpoint import (
    Checkpoint,
    Fingerprint,
    Recorder,
    Rounds,
    array_digest,
    joined,
    schema_digest,
)
from hedgerow.data import Column, Schema, read_table
from hedgerow.errors import HedgerowError, HedgerowWarning, ModelFormatError, StorageError
from hedgerow.growing.core.tree import GrownTree
from hedgerow.io import container, model_to_bytes
from hedgerow.io.checkpoint_folder import CheckpointFolder
from hedgerow.io.checkpoint_parts import OtherVersionError, rounds_from_bytes, rounds_to_bytes
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers.fitting import fit_sample

FIT = Fingerprint({"learning_rate": "0.1", "objective": "softmax"}, {"X": "12", "y": "34"})


def kept(tmp_path, n_rows=200, parts=3, **params):
    """Return a fit, its folder with this many parts, and the bytes of its model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    data = Dataset(X, np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5]).astype(float))
    params = {
        "objective": "softmax", "n_estimators": parts, "max_leaves": 3, "min_samples_leaf": 5,
        "n_jobs": 1, **params,
    }  # fmt: skip
    model = train(params, data, checkpoint=tmp_path, checkpoint_every=0).model
    return params, data, model_to_bytes(model)


def read_all(folder):
    """Return all rounds in a folder without checking them."""
    files = sorted(Path(folder).glob("hedgerow-rounds-*"))
    return joined([rounds_from_bytes(file.read_bytes())[0] for file in files])


@pytest.fixture(scope="module")
def some_rounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    kept(folder, eval_metric=["loss", "accuracy"], early_stopping=False)
    return read_all(folder)


def same(one: Rounds, other: Rounds) -> bool:
    values = ((getattr(one, f.name), getattr(other, f.name)) for f in fields(Rounds))
    for a, b in values:
        if isinstance(a, np.ndarray):
            if a.tobytes() != b.tobytes() or a.shape != b.shape or a.dtype != b.dtype:
                return False
        elif not isinstance(a, tuple) and a != b:
            return False
    return all(same_tree(a, b) for a, b in zip(one.trees, other.trees, strict=True))


def same_tree(one: GrownTree, other: GrownTree) -> bool:
    return parts_of(one).keys() == parts_of(other).keys() and all(
        array.tobytes() == parts_of(other)[name].tobytes()
        and array.dtype == parts_of(other)[name].dtype
        and array.shape == parts_of(other)[name].shape
        for name, array in parts_of(one).items()
    )


def parts_of(tree: GrownTree) -> dict[str, np.ndarray]:
    known = {f.name: getattr(tree, f.name) for f in fields(GrownTree)}
    return {name: array for name, array in known.items() if array is not None}


# -- bytes ------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("on_bins", [False, True])
@pytest.mark.parametrize("n_metrics", [0, 1, 3])
def test_what_is_written_comes_back(some_rounds, ended, on_bins, n_metrics) -> None:
    strange = np.array([np.nan, np.inf, -0.0, 5e-324, 1.0, 2.0, 3.0, 4.0, 5.0])
    part = replace(
        some_rounds, first=17, ended=ended, scores=strange[: 3 * n_metrics].reshape(3, -1)
        if n_metrics else np.zeros((3, 0)),
    )  # fmt: skip
    if not on_bins:
        none = {"bin": np.zeros(0, np.uint8), "column": np.zeros(0, np.int32)}
        none["left_bins"] = np.zeros((0, 4), np.uint64)
        part = replace(part, trees=tuple(replace(tree, **none) for tree in part.trees))
    data = b"".join(rounds_to_bytes(part, FIT))
    again, fit = rounds_from_bytes(data)
    assert same(part, again)
    assert fit == FIT
    assert b"".join(rounds_to_bytes(again, FIT)) == data
    # Kernels are compiled for arrays that can be written to.
    assert all(array.flags.writeable for array in parts_of(again.trees[0]).values())


def one_round(number: int, trees: Any, base: Any, scores: Any, ended: bool = False) -> Rounds:
    table = np.array(scores, dtype=np.float64).reshape(1, -1)
    return Rounds(number, tuple(trees), base, table, ended)


def test_parts_put_together_are_the_whole(some_rounds) -> None:
    whole = some_rounds
    singles = [one_round(k, whole.of_round(k), whole.base_score, whole.scores[k]) for k in range(3)]
    assert same(joined(singles), whole)
    assert same(joined(singles[:2]), whole.head(2))
    assert whole.head(3) is whole
    assert (len(whole.base_score), whole.n_rounds, whole.end) == (3, 3, 3)


def test_other_versions_are_distinguished(some_rounds) -> None:
    with pytest.raises(OtherVersionError, match="another version"):
        rounds_from_bytes(resealed(some_rounds, version="1"))


def resealed(part, fit=FIT, **changes):
    """Return bytes with a valid checksum and arrays or metadata that no fit writes."""
    view = memoryview(b"".join(rounds_to_bytes(part, fit)))
    length = container.header_length(bytes(view[:100]), len(view))
    header = container.parse_header(bytes(view[8 : 8 + length]))
    arrays = {
        name: container.array_at(header, name, view[8 + length :]).copy() for name in header.entries
    }
    metadata = dict(header.metadata)
    for name, change in changes.items():
        if name in arrays:
            arrays[name] = change(arrays[name])
        else:
            metadata[name] = change
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    return b"".join(container.pack(metadata, {name: arrays[name] for name in order}))


def put(place, value):
    def change(array):
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    "changes",
    [
        {"left": put(0, 10_000)},
        {"left": put(0, 0)},
        {"right": put(0, -1)},
        {"feature": put(0, -2)},
        {"value": put(0, np.nan)},
        {"count": put(0, -1)},
        {"missing_left": put(0, 2)},
        {"tree_start": put(1, 2**62)},
        {"tree_start": lambda a: a[:-1]},
        {"column": put(0, -1)},
        {"column": put(1, -7)},
        {"column": lambda a: a[:-1]},
        {"bin": lambda a: a[:0]},
        {"left_bins": lambda a: a[:-1]},
        {"scores": lambda a: a[:-1]},
        {"base_score": lambda a: a[:-1]},
        {"base_score": lambda a: a[:0]},
        {"n_rounds": "0"},
        {"n_rounds": "2"},
        {"n_rounds": "-3"},
        {"n_rounds": "3 "},
        {"first": "x"},
        {"ended": "yes"},
        {"format": "hedgerow"},
        {"other": "metadata"},
        {"settings": "[]"},
        {"contents": '{"X": 1}'},
    ],
    ids=lambda changes: ", ".join(changes),
)
def test_valid_checksums_do_not_make_valid_rounds(some_rounds, changes) -> None:
    assert same(rounds_from_bytes(resealed(some_rounds))[0], some_rounds)
    with pytest.raises(ModelFormatError):
        rounds_from_bytes(resealed(some_rounds, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"column": lambda a: np.where(a >= 0, a + 3, a).astype(np.int32)}, "split columns"),
        ({"feature": lambda a: np.where(a >= 0, a + 3, a).astype(np.int32)}, "split columns"),
        ({"column": lambda a: a[:0], "bin": lambda a: a[:0], "left_bins": lambda a: a[:0]},
         "split columns"),
        ({"base_score": lambda a: a + 1.0}, "starts from"),
        ({"scores": lambda a: np.zeros(6)}, "has 2 scores"),
    ],
)  # fmt: skip
def test_rounds_that_cannot_be_of_the_data_are_refused(changes, message, tmp_path) -> None:
    params, data, _ = kept(tmp_path, parts=3)
    whole = read_all(tmp_path)
    for file in tmp_path.glob("hedgerow-rounds-*"):
        _, fit = rounds_from_bytes(file.read_bytes())
        file.unlink()
    name = "hedgerow-rounds-00000001-00000003.safetensors"
    (tmp_path / name).write_bytes(resealed(whole, fit, **changes))
    with pytest.raises(StorageError, match=message):
        train(params, data, checkpoint=tmp_path)


# -- any bytes in a folder ------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder_of_three(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three")
    params, data, whole = kept(folder)
    files = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    assert len(files) == 3
    return folder, params, data, whole, files


@given(data=st.data())
def test_any_bytes_in_a_folder_never_give_another_model(folder_of_three, data) -> None:
    folder, params, rows, whole, files = folder_of_three
    for path in folder.iterdir():
        path.unlink()
    contents = dict(files)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(files)))
        old = contents.get(name) or b"?"
        kind = data.draw(st.sampled_from(["byte", "cut", "gone", "swap", "insert", "junk"]))
        place = data.draw(st.integers(0, len(old) - 1))
        if kind == "byte":
            new = data.draw(st.integers(0, 255))
            contents[name] = old[:place] + bytes([new]) + old[place + 1 :]
        elif kind == "cut":
            contents[name] = old[:place]
        elif kind == "gone":
            contents.pop(name, None)
        elif kind == "swap":
            contents[name] = files[data.draw(st.sampled_from(sorted(files)))]
        elif kind == "insert":
            contents[name] = old[:place] + data.draw(st.binary(max_size=20)) + old[place:]
        else:
            contents[name] = data.draw(st.binary(max_size=200))
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = said = None
        try:
            model = train(params, rows, checkpoint=folder).model
        except HedgerowError as error:
            said = str(error)
    if said is not None:
        assert str(folder) in said
        return
    assert model_to_bytes(model) == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the folder is whole again
        assert model_to_bytes(train(params, rows, checkpoint=folder).model) == whole


# -- fingerprints ---------------------------------------------------------------------------


@given(
    array=arrays_of.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.int32]),
        arrays_of.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=40),
    ),
    data=st.data(),
)
def test_digest_is_of_elements_type_and_shape(array, data) -> None:
    digest = array_digest(array)
    assert array_digest(np.asfortranarray(array)) == digest
    padded = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
    padded[tuple(slice(None, None, 2) for _ in array.shape)] = array
    assert array_digest(padded[tuple(slice(None, None, 2) for _ in array.shape)]) == digest
    assert array_digest(array.reshape(-1, 1, 1)) != digest
    if array.size:
        place = data.draw(st.integers(0, array.size - 1))
        other = array.copy()
        other.reshape(-1).view(np.uint8)[place * array.itemsize] ^= 1
        assert array_digest(other) != digest


def test_digest_is_of_all_blocks() -> None:
    array = np.random.default_rng(0).normal(size=(700_000, 2))
    digest = array_digest(array)
    array[-1, -1] += 1.0
    assert array_digest(array) != digest


def test_digest_of_columns() -> None:
    schema = Schema((Column("a"), Column("b", "category", ("x", "y"))), named=True)
    others = [
        Schema((Column("a"), Column("b", "category", ("x", "z"))), named=True),
        Schema((Column("a"), Column("b", "category", ("x",))), named=True),
        Schema((Column("c"), Column("b", "category", ("x", "y"))), named=True),
        Schema((Column("a", "int"), Column("b", "category", ("x", "y"))), named=True),
        replace(schema, named=False),
        replace(schema, unknown="error"),
        replace(schema, zero_missing=True),
    ]
    assert len({schema_digest(each) for each in (schema, *others)}) == 8


def test_differences_are_named() -> None:
    now = Fingerprint({"learning_rate": "0.2", "objective": "softmax"}, {"X": "12", "offset": "5"})
    assert FIT.differences(now) == [
        "learning_rate was 0.1 and is 0.2", "y is gone", "offset is new",
    ]  # fmt: skip
    assert FIT.differences(FIT) == []


# -- when parts are written -------------------------------------------------------------------


class Store:
    """A store that records its writes; each takes ``cost`` seconds, and it fails on demand."""

    def __init__(self, cost=0.0):
        self.now, self.cost, self.fails, self.saved, self.closed = 0.0, cost, False, [], 0

    def open(self):
        pass

    def latest(self, fit):
        return None

    def save(self, part):
        self.now += self.cost
        if self.fails:
            raise StorageError("no space")
        self.saved.append((self.now, part.first, part.end))

    def close(self):
        self.closed += 1


def run_rounds(some_rounds, store, every, n_rounds, seconds):
    recorder = Recorder(Checkpoint(store, every), FIT, lambda: store.now)
    for number in range(n_rounds):
        store.now += seconds
        recorder.note(one_round(number, some_rounds.of_round(0), some_rounds.base_score, []))
    return recorder


def test_parts_are_written_when_it_is_time(some_rounds) -> None:
    store = Store()
    recorder = run_rounds(some_rounds, store, 10.0, 100, 0.5)
    assert store.saved == [(10.0, 0, 20), (20.0, 20, 40), (30.0, 40, 60), (40.0, 60, 80),
                           (50.0, 80, 100)]  # fmt: skip
    recorder.write()
    assert len(store.saved) == 5


def test_every_round_is_written_on_request_at_any_cost(some_rounds) -> None:
    store = Store(cost=3.0)
    run_rounds(some_rounds, store, 0.0, 4, 0.5)
    assert [end for _, _, end in store.saved] == [1, 2, 3, 4]


def test_a_slow_store_is_written_less_often(some_rounds) -> None:
    store = Store(cost=4.0)
    run_rounds(some_rounds, store, 10.0, 4000, 0.5)
    time_of_writes = 4.0 * len(store.saved)
    assert 0.03 < time_of_writes / store.now < 0.06


def test_a_failed_write_is_made_up_for(some_rounds) -> None:
    store = Store()
    store.fails = True
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        recorder = run_rounds(some_rounds, store, 0.0, 41, 0.5)  # tried after 0.5, 10.5, 20.5 s
    assert [str(warning.message).split(" could")[0] for warning in found] == [
        "the last 1 rounds", "the last 21 rounds", "the last 41 rounds",
    ]  # fmt: skip
    assert "no space; training continues" in str(found[0].message)
    store.fails = False
    recorder.write()
    assert store.saved == [(20.5, 0, 41)]


def test_the_end_of_a_fit_is_written_at_once(some_rounds) -> None:
    store = Store()
    recorder = Recorder(Checkpoint(store, 10.0), FIT, lambda: store.now)
    for number, ended in ((0, False), (1, True)):
        trees, base = some_rounds.of_round(0), some_rounds.base_score
        recorder.note(one_round(number, trees, base, [], ended=ended))
    assert store.saved == [(0.0, 0, 2)]


@pytest.mark.filterwarnings("ignore::hedgerow.InterruptedFitWarning")
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_what_is_left_is_written_whatever_happens(error) -> None:
    def end(state):
        if error is not None and state.round == 2:
            raise error

    store, y = Store(), np.arange(100.0)
    options = FitOptions(callbacks=end, checkpoint=Checkpoint(store))
    with contextlib.suppress(ValueError):
        sample = Sample(read_table(y[:, None]), y)
        fit_sample(sample, make_objective("squared_error"), BoostParams(n_estimators=2), options)
    assert [(first, end) for _, first, end in store.saved] == [(0, 2 if error is None else 1)]


def test_a_claimed_store_is_given_back() -> None:
    store = Store()
    job = Job(Dataset([[1.0]], [1.0]), {})
    with pytest.raises(StorageError, match="no"), job.opened(Checkpoint(store)):
        raise StorageError("no")
    assert store.closed == 1


def test_locks_do_not_outlive_their_process(tmp_path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    from hedgerow.io.checkpoint_folder import FileLock

    path = str(tmp_path / "lock")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        lock = FileLock(path)
        os.write(writing, b"locked")
        os.read(os.pipe()[0], 1)  # until it is killed
        lock.release()
        os._exit(0)
    assert os.read(reading, 6) == b"locked"
    with pytest.raises(StorageError, match=f"locked by process {child}"):
        FileLock(path)
    os.kill(child, 9)
    os.waitpid(child, 0)
    lock = FileLock(path)
    lock.release()
    lock.release()
    FileLock(path).release()


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="needs symbolic links of POSIX")
@pytest.mark.parametrize("kind", ["symbolic", "dangling", "hard", "pipe"])
def test_a_lock_is_no_way_to_other_files(tmp_path, kind) -> None:
    """A user who may write to the folder cannot make the fit empty other files."""
    folder, victim = tmp_path / "checkpoint", tmp_path / "precious"
    folder.mkdir()
    victim.write_text("all that there is")
    lock = folder / "hedgerow.lock"
    if kind == "pipe":
        os.mkfifo(lock)
    elif kind == "hard":
        lock.hardlink_to(victim)
    else:
        lock.symlink_to(victim if kind == "symbolic" else tmp_path / "new")
    store = CheckpointFolder(str(folder))
    with pytest.raises(StorageError, match=r"cannot be used.*hedgerow\.lock: it is a"):
        store.open()
    assert victim.read_text() == "all that there is"
    assert not (tmp_path / "new").exists()
    lock.unlink()
    store.open()
    store.close()


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="needs symbolic links of POSIX")
def test_parts_replace_links_and_not_what_these_lead_to(tmp_path) -> None:
    victim = tmp_path / "precious"
    victim.write_text("all that there is")
    link, file = tmp_path / "link", tmp_path / "file"
    for name in (link, file):
        name.symlink_to(victim)
    write_atomically(link, [b"new"], follow_links=False)
    assert (link.is_symlink(), link.read_bytes()) == (False, b"new")
    assert link.stat().st_mode & 0o111 == 0
    assert victim.read_text() == "all that there is"
    write_atomically(file, [b"new"])  # whoever names a file means what it leads to
    assert file.is_symlink()
    assert victim.read_bytes() == b"new"


def test_a_fit_writes_through_no_link_of_its_checkpoint(tmp_path) -> None:
    victim, folder = tmp_path / "precious", tmp_path / "checkpoint"
    victim.write_text("all that there is")
    X = np.arange(60.0)[:, None]
    model = HedgerowRegressor(n_estimators=3, early_stopping=False)
    model.fit(X, X[:, 0], checkpoint=folder, checkpoint_every=0)
    for file in list(folder.iterdir()):
        if file.name != "hedgerow.lock":
            file.unlink()
            file.symlink_to(victim)
    with pytest.warns(HedgerowWarning, match="is damaged"):
        model.fit(X, X[:, 0], checkpoint=folder, checkpoint_every=0)
    assert victim.read_text() == "all that there is"
