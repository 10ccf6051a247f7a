"""Dataset.save and Dataset.load: a file gives the same models, or an error."""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hedgerow import DataError, Dataset, DataTypeError, HedgerowError, load, train
from hedgerow.io import model_to_bytes

RNG = np.random.default_rng(3)
N = 400
FEW = {"n_estimators": 5, "min_samples_leaf": 5, "early_stopping": False}


def frame():
    pandas = pytest.importorskip("pandas")
    date = np.datetime64("2024-01-01") + RNG.integers(0, 900, N).astype("timedelta64[D]")
    whole = pandas.array(RNG.integers(0, 9, N) + 2**60, dtype="Int64")
    whole[3] = None
    city = RNG.choice(["Ulm", "Bonn", "Köln"], N).astype(object)
    city[7] = None
    return pandas.DataFrame(
        {
            "city": city,
            "grade": pandas.Categorical(RNG.integers(0, 4, N)),
            "date": date,
            "whole": whole,
            "size": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N).round(1)),
        }
    )


def numbers():
    X = RNG.normal(size=(N, 3)).astype(np.float32)
    X[::7, 1] = np.nan
    X[::5, 2] = 0.0
    return X


def sparse():
    from scipy.sparse import csr_matrix

    return csr_matrix(np.where(RNG.random((N, 5)) < 0.7, 0.0, RNG.normal(size=(N, 5))))


TABLES = {"frame": frame, "numbers": numbers, "sparse": sparse}
Y = RNG.normal(size=N)


def again(dataset, tmp_path) -> Dataset:
    path = tmp_path / "rows.npz"
    dataset.save(path)
    return Dataset.load(path)


def bytes_of(params, *data) -> bytes:
    return model_to_bytes(train(params, *data).model)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("more", [{}, {"zero_as_missing": True}, {"max_bins": 7}])
def test_models_have_the_same_bytes(kind, more, tmp_path) -> None:
    X = TABLES[kind]()
    weight = RNG.uniform(0.5, 2.0, N)
    rows = Dataset(X, Y + 1.0, weight, RNG.normal(size=N))
    saved = again(rows, tmp_path)
    assert bytes_of({**FEW, **more}, saved) == bytes_of({**FEW, **more}, rows)
    assert saved.feature_names == rows.feature_names


@pytest.mark.parametrize("kind", TABLES)
def test_a_saved_dataset_may_be_validation_rows(kind, tmp_path) -> None:
    X = TABLES[kind]()
    first, second = (X.iloc[:250], X.iloc[250:]) if kind == "frame" else (X[:250], X[250:])
    rows, others = Dataset(first, Y[:250]), Dataset(second, Y[250:])
    valid = again(others, tmp_path)
    found = bytes_of(FEW, rows, valid)
    assert found == bytes_of(FEW, rows, others)
    booster = train(FEW, rows)
    assert booster.eval(valid) == booster.eval(others)
    more = train(FEW, valid, init_model=booster)
    assert model_to_bytes(more.model) == bytes_of_more(booster, others)


def bytes_of_more(booster, rows) -> bytes:
    return model_to_bytes(train(FEW, rows, init_model=booster).model)


def test_columns_of_another_order_are_put_in_order(tmp_path) -> None:
    X = frame()
    valid = again(Dataset(X[X.columns[::-1]], Y), tmp_path)
    booster = train(FEW, Dataset(X, Y))
    assert booster.eval(valid) == booster.eval(Dataset(X, Y))


def test_offsets_that_are_columns(tmp_path) -> None:
    X = frame()
    X["size"] = X["size"].fillna(0.0)
    rows = Dataset(X, Y, offset="size")
    saved = again(rows, tmp_path)
    assert saved.offset_names == ("size",)
    assert "size" not in saved.feature_names
    assert bytes_of(FEW, saved, Dataset(X, Y)) == bytes_of(FEW, rows, Dataset(X, Y))
    both = again(Dataset(X, Y), tmp_path)
    assert bytes_of(FEW, rows, both) == bytes_of(FEW, rows, Dataset(X, Y))


def test_queries_positions_and_groups(tmp_path) -> None:
    X, qid = numbers(), np.array([f"q{i}" for i in RNG.integers(0, 40, N)])
    labels, place = RNG.integers(0, 4, N), RNG.choice(["top", "side"], N)
    weight = {f"q{i}": 1.0 + i for i in range(40)}
    rows = Dataset(X, labels, weight, qid=qid, position=place)
    ranked = {**FEW, "objective": "lambdarank"}
    saved = again(rows, tmp_path)
    assert bytes_of(ranked, saved) == bytes_of(ranked, rows)
    assert saved.qid.tolist() == qid.tolist()
    later = Dataset(X, labels, weight, qid=saved.qid, position=place)  # weights of queries
    assert bytes_of(ranked, later) == bytes_of(ranked, rows)
    pairs = np.empty(N, dtype=object)  # not kept: JSON has no tuples
    pairs[:] = [(q, 1) for q in qid]
    for queries in (RNG.integers(5, 40, N), qid.astype(object), pairs):
        rows = Dataset(X, labels, qid=queries)
        saved = again(rows, tmp_path)
        assert bytes_of(ranked, saved) == bytes_of(ranked, rows)
        assert (saved.qid.tolist() == queries.tolist()) == (queries is not pairs)
    split = {**FEW, "early_stopping": True, "validation_fraction": 0.3}
    for groups in (qid, RNG.integers(0, 30, N), RNG.integers(0, 9, N) / 2):
        rows = Dataset(X, Y, groups=groups)
        assert bytes_of(split, again(rows, tmp_path)) == bytes_of(split, rows)


def test_several_targets_and_times_keep_their_names(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    X = numbers()
    y = pandas.DataFrame({"a": Y, "b": Y**2})
    saved = again(Dataset(X, y), tmp_path)
    assert train(FEW, saved).target_names == ("a", "b")
    assert bytes_of(FEW, saved) == bytes_of(FEW, Dataset(X, y))
    assert bytes_of(FEW, Dataset(X, y), saved) == bytes_of(FEW, Dataset(X, y), Dataset(X, y))
    times = {"event": RNG.integers(0, 2, N), "time": RNG.uniform(1.0, 9.0, N)}
    for loss in ("cox", "aft"):
        params = {**FEW, "objective": loss}
        assert bytes_of(params, again(Dataset(X, times), tmp_path)) == bytes_of(
            params, Dataset(X, times)
        )


def test_the_model_predicts_frames(tmp_path) -> None:
    X = frame()
    booster = train(FEW, again(Dataset(X, Y), tmp_path))
    booster.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict(X), train(FEW, Dataset(X, Y)).predict(X))


def test_what_cannot_be_saved_is_refused(tmp_path) -> None:
    path = tmp_path / "rows.npz"
    with pytest.raises(DataTypeError, match="give their indices"):
        Dataset(numbers(), np.array(["a", "b"] * (N // 2))).save(path)
    with pytest.raises(DataError, match="read in batches"):
        Dataset.from_batches(lambda: iter([(numbers(), Y)])).save(path)
    assert not list(tmp_path.iterdir())


def rewritten(path, change) -> None:
    """Change the arrays of a file."""
    with np.load(path) as found:
        arrays = dict(found)
    about = json.loads(arrays["about"].tobytes())
    change(arrays, about)
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


FORGED = {
    "codes without a level": lambda a, about: a["values"].__setitem__((0, 0), 77.0),
    "levels of column 'city' are not ascending": lambda a, about: about["columns"][0].update(
        levels=["b", "a"]
    ),
    "wrong number of columns": lambda a, about: about["columns"].pop(),
    "'y' does not have an entry": lambda a, about: a.update(y=a["y"][1:]),
    "another version": lambda a, about: about.update(version=2),
    "this is not a Dataset": lambda a, about: about.update(format="other"),
    "unknown arrays": lambda a, about: a.update(more=np.zeros(3)),
    "does not hold numbers": lambda a, about: a.update(y=np.array(["a"] * N)),
    "does not fit its columns": lambda a, about: a.update(values=a["values"].astype(np.int64)),
    "a column has levels": lambda a, about: about["columns"][1].update(levels=[1]),
    "arrays of the table are missing": lambda a, about: a.pop("values"),
    "'groups' is malformed": lambda a, about: a.update(groups=a["groups"] + 1),
    "'qid' is malformed": lambda a, about: a.update(qid=a["qid"] - 1),
}


@pytest.mark.parametrize("words", FORGED)
def test_forged_files_are_refused(words, tmp_path) -> None:
    path = tmp_path / "rows.npz"
    X = {"city": ["Ulm", "Bonn"] * (N // 2), "size": Y}
    Dataset(X, Y, groups=["a", "b"] * (N // 2), qid=["q", "r"] * (N // 2)).save(path)
    rewritten(path, FORGED[words])
    with pytest.raises(DataError, match=words):
        Dataset.load(path)


def test_damaged_files_are_refused(tmp_path) -> None:
    path = tmp_path / "rows.npz"
    Dataset(sparse(), Y).save(path)
    whole = path.read_bytes()
    before = bytes_of(FEW, Dataset.load(path))
    for seed in range(300):
        rng = np.random.default_rng(seed)
        damaged = bytearray(whole[: rng.integers(len(whole))] if seed % 3 == 0 else whole)
        for place in rng.integers(0, max(1, len(damaged)), 3):
            damaged[place : place + 1] = rng.bytes(1)
        path.write_bytes(damaged)
        try:
            found = Dataset.load(path)
        except HedgerowError:
            continue
        assert bytes_of(FEW, found) == before  # what changed is not read


def test_compressed_and_large_arrays_are_refused(tmp_path) -> None:
    path = tmp_path / "rows.npz"
    Dataset(numbers(), Y).save(path)
    with np.load(path) as found:
        np.savez_compressed(path, **dict(found))
    with pytest.raises(DataError, match="compressed"):
        Dataset.load(path)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 60, 3)}
    )
    with zipfile.ZipFile(path, "w") as parts:
        parts.writestr("about.npy", head.getvalue())
    with pytest.raises(DataError, match="wrong length"):
        Dataset.load(path)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
def test_a_saved_dataset_has_the_permissions_of_every_new_file(tmp_path: Path) -> None:
    path, link = tmp_path / "rows.npz", tmp_path / "link"
    rows = Dataset({"x": [1.0, 2.0]}, [1.0, 2.0])
    rows.save(path)
    (tmp_path / "new").touch()
    assert path.stat().st_mode == (tmp_path / "new").stat().st_mode
    path.chmod(0o640)
    link.symlink_to(path)
    rows.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_fault_while_saving_leaves_the_old_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.npz"
    Dataset({"x": [1.0, 2.0]}, [1.0, 2.0]).save(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"rows\.npz"):
        Dataset({"x": [3.0, 4.0]}, [1.0, 2.0]).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
