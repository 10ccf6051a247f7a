"""Chunks on disk: reading, caching, and the state after faults."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.data.binning.matrix import PAD
from hedgerow.data.external import block_files, disk_store
from hedgerow.data.external.block_files import find_lz4
from hedgerow.data.external.disk_store import EVERYTHING, ROWS_ONLY, ChunkSink, Uses
from hedgerow.data.external.memory_plan import RESERVE, RowShape, divide_memory
from hedgerow.errors import ParameterError, StorageError
from tests.helpers.examples import examples

COMPRESSIONS = ("auto", "none", "always")
LARGE = 1 << 30
NO_BINS = Uses(False, ())


def make_matrix(n_rows, n_features, seed=0):
    rng = np.random.default_rng(seed)
    bins = [2, 4, 10, 16, 300, 1]
    X = np.stack([rng.integers(0, bins[j % 6], n_rows) for j in range(n_features)], axis=1)
    X = X.astype(np.float64)
    X[rng.random(X.shape) < 0.05] = np.nan
    table = read_table(X)
    return bin_table(table, fit_bins(table, max_bins=255))


def rows_of(matrix, start, stop):
    pad = np.zeros((len(matrix.by_row), PAD, matrix.tile_width), np.uint8)
    by_row = np.concatenate([matrix.by_row[:, start:stop], pad], axis=1)
    by_column = np.pad(matrix.by_column[:, start:stop], ((0, 0), (0, PAD)))
    return replace(matrix, by_row=by_row, by_column=by_column)


def smallest_limit(matrix, chunk_rows, n_lanes=1, n_numbers=0):
    shape = RowShape(matrix.n_columns, n_numbers)
    return RESERVE + (n_lanes + 2) * shape.chunk_bytes(chunk_rows)


def make_store(folders, matrix, cuts=(), limit=LARGE, numbers=None, **options):
    folders = folders if isinstance(folders, list) else [folders]
    with ChunkSink(matrix.spec, folders, limit, **options) as sink:
        for start, stop in itertools.pairwise([0, *cuts, matrix.n_rows]):
            some = None if numbers is None else numbers[start:stop]
            sink.append(rows_of(matrix, start, stop), numbers=some)
        return sink.finish()


def assert_same(store, matrix, uses=EVERYTHING, numbers=None):
    row, sizes = 0, []
    for number, chunk in enumerate(store.chunks(uses=uses)):
        rows = slice(row, row + chunk.n_rows)
        assert chunk.number == number
        assert chunk.rows == rows
        found, n = chunk.matrix, chunk.n_rows
        if uses.by_row:
            np.testing.assert_array_equal(found.by_row[:, :n], matrix.by_row[:, rows])
            assert not found.by_row[:, n:].any()
        for j in range(matrix.n_columns) if uses.columns is None else uses.columns:
            np.testing.assert_array_equal(found.by_column[j, :n], matrix.by_column[j, rows])
            assert not found.by_column[j, n:].any()
        assert found.by_row.shape == (matrix.n_tiles, n + PAD, matrix.tile_width)
        assert found.by_column.shape == (matrix.n_columns, n + PAD)
        assert found.by_row.flags.writeable
        assert found.layout is None
        assert (numbers is None) == (chunk.numbers is None)
        if numbers is not None:
            np.testing.assert_array_equal(chunk.numbers, numbers[rows])
            assert chunk.numbers.flags.f_contiguous
            assert chunk.numbers.flags.writeable
        row += n
        sizes.append(n)
    assert row == store.n_rows == matrix.n_rows
    assert sizes == list(store.chunk_sizes)


def assert_nothing_left(*folders):
    assert [os.listdir(folder) for folder in folders] == [[] for _ in folders]
    assert not [t for t in threading.enumerate() if t.name.startswith("hedgerow-ahead")]


@pytest.fixture(scope="module")
def small():
    return make_matrix(500, 7)


@st.composite
def stores(draw):
    n_rows, n_features = draw(st.integers(1, 300)), draw(st.sampled_from([1, 3, 8, 33, 70]))
    return {
        "matrix": make_matrix(n_rows, n_features, draw(st.integers(0, 3))),
        "cuts": sorted(draw(st.lists(st.integers(0, n_rows), max_size=4))),
        "chunk_rows": draw(st.integers(1, 200)),
        "compression": draw(st.sampled_from(COMPRESSIONS)),
        "n_folders": draw(st.integers(1, 3)),
        "with_numbers": draw(st.booleans()),
        "tight": draw(st.booleans()),
    }


@settings(max_examples=examples(25), deadline=None)
@given(case=stores())
def test_what_was_appended_comes_back(case, tmp_path_factory):
    folders = [tmp_path_factory.mktemp("disk") for _ in range(case["n_folders"])]
    matrix = case["matrix"]
    shape = matrix.n_rows, matrix.spec.n_features
    numbers = np.random.default_rng(0).normal(size=shape) if case["with_numbers"] else None
    n_numbers = shape[1] * case["with_numbers"]
    tight = smallest_limit(matrix, case["chunk_rows"], len(folders), n_numbers)
    with make_store(
        folders, matrix, case["cuts"], tight if case["tight"] else LARGE, numbers,
        chunk_rows=case["chunk_rows"], compression=case["compression"],
    ) as store:  # fmt: skip
        n_chunks = -(-matrix.n_rows // case["chunk_rows"])
        if not case["tight"]:
            assert list(store.chunk_sizes) == [matrix.n_rows]
        # Padding makes many chunks of a few rows larger than all rows as a single chunk.
        room = tight - RESERVE if case["tight"] else LARGE
        joined = RowShape(matrix.n_columns, n_numbers).one_chunk_bytes(matrix.n_rows)
        fits = n_chunks <= len(folders) + 2 or joined <= room
        assert store.n_resident == (len(store.chunk_sizes) if fits else 0)
        assert len(store.chunk_sizes) in (1, n_chunks)
        last, some = matrix.n_columns - 1, range(n_numbers)
        for uses in (EVERYTHING, NO_BINS, ROWS_ONLY, Uses(False, (last, 0)), EVERYTHING):
            assert_same(store, matrix, uses._replace(numbers=some), numbers)
    assert_nothing_left(*folders)


def test_arrays_of_rows_beyond_the_limit_are_in_files(small, tmp_path):
    limit = smallest_limit(small, 60)
    with make_store(tmp_path, small, limit=limit, chunk_rows=60) as store:
        in_memory, mapped = (store.row_array((2, limit // 20), np.float64) for _ in range(2))
        kinds = []
        for array in (in_memory, mapped):
            array[:] = 7.0
            assert array.shape == (2, limit // 20)
            owner = array
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            kinds.append(isinstance(owner, np.memmap) or owner.base is not None)
        assert kinds == [False, True]
        assert len(store.row_array(0, np.uint32)) == 0
    assert (mapped == 7.0).all()  # for as long as it is needed
    assert_nothing_left(tmp_path)


def without(monkeypatch, *names):
    for name in names:
        monkeypatch.delattr(os, name, raising=False)


@pytest.mark.parametrize("compression", ["none", "always"])
@pytest.mark.parametrize("lacking", ["positions", "pyarrow"])
def test_systems_that_lack_something(lacking, compression, small, tmp_path, monkeypatch):
    matrix = small
    if lacking == "positions":
        without(monkeypatch, "preadv", "pwrite", "posix_fallocate")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert find_lz4() is None
    limit = smallest_limit(matrix, 60)
    options = {"chunk_rows": 60, "compression": compression}
    with make_store(tmp_path, matrix, limit=limit, **options) as store:
        for _ in range(2):
            assert_same(store, matrix)
    assert_nothing_left(tmp_path)


def test_chunks_are_encoded_once_the_file_cache_is_full(small, tmp_path, monkeypatch):
    matrix = small
    monkeypatch.setattr(disk_store, "available_memory", lambda: 6 * 124 * 15)
    with make_store(tmp_path, matrix, chunk_rows=60) as store:
        mapped = [not record.columns for record in store.records]
        assert mapped == [True] * 3 + [False] * 6
        assert_same(store, matrix)


# Codecs


# Memory


@settings(max_examples=examples(100), deadline=None)
@given(
    limit=st.integers(1, 1 << 34),
    n_columns=st.integers(1, 2000),
    n_outputs=st.integers(1, 50),
    n_lanes=st.integers(1, 5),
    n_chunks=st.integers(0, 10_000),
)
def test_the_parts_are_within_the_limit(limit, n_columns, n_outputs, n_lanes, n_chunks):
    shape = RowShape(n_columns, n_outputs=n_outputs)
    try:
        plan = divide_memory(limit, shape, n_lanes)
    except ParameterError as error:
        enough = int(str(error).rstrip(".").rpartition(" ")[2])
        assert limit < enough
        divide_memory(enough, shape, n_lanes)
        with pytest.raises(ParameterError):
            divide_memory(enough - 1, shape, n_lanes)
        return
    resident = plan.resident_of(n_chunks)
    in_turn = plan.n_slots if resident < n_chunks else 0
    assert 0 <= resident <= n_chunks
    assert RESERVE + (resident + in_turn) * plan.chunk_bytes <= limit
    assert plan.chunk_bytes == shape.chunk_bytes(plan.chunk_rows)


# Arguments


def test_a_store_is_used_until_it_is_closed(small, tmp_path):
    store = make_store(tmp_path, small)
    assert_same(store, small)
    store.close()
    store.close()
    with pytest.raises(StorageError, match="closed"):
        next(iter(store.chunks()))
    with pytest.raises(StorageError, match="closed"):
        store.row_array(3, np.float64)
    assert_nothing_left(tmp_path)


# Faults


def test_a_folder_that_vanishes(small, tmp_path):
    limit = smallest_limit(small, 60)
    folder = tmp_path / "cache"
    folder.mkdir()
    with make_store(folder, small, chunk_rows=60, limit=limit) as store:
        folder.rmdir()
        assert_same(store, small)
        with pytest.raises(ParameterError, match=r"cache_dir.*is not a folder"):
            store.row_array(limit, np.float64)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(small, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="in which you may write"):
        ChunkSink(small.spec, [tmp_path], LARGE)
    tmp_path.chmod(0o700)


class Fault:
    """Make the n-th system call on files fail."""

    def __init__(self, monkeypatch, number, fail_at):
        self.calls, self.number, self.fail_at = 0, number, fail_at
        for module, name in (
            (block_files.tempfile, "TemporaryFile"),
            (block_files, "_write_at"),
            (block_files, "_read_at"),
            (os, "posix_fallocate"),
            (block_files.mmap, "mmap"),
        ):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, self.around(getattr(module, name)))

    def around(self, function):
        def call(*arguments, **options):
            self.calls += 1
            if self.calls == self.fail_at:
                raise OSError(self.number, os.strerror(self.number))
            return function(*arguments, **options)

        return call


@pytest.mark.parametrize(
    ("number", "compression", "resident"),
    [(errno.ENOSPC, "none", False), (errno.EIO, "always", False), (errno.EIO, "none", True)],
)
def test_any_call_of_the_system_may_fail(number, compression, resident, tmp_path, monkeypatch):
    matrix = make_matrix(70, 2)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    options = {"chunk_rows": 15, "compression": compression}
    options["limit"] = LARGE if resident else smallest_limit(matrix, 15, 2)
    errors = []
    for fail_at in itertools.count(1):
        with monkeypatch.context() as patch:
            fault = Fault(patch, number, fail_at)
            try:
                with make_store(folders, matrix, cuts=(40,), **options) as store:
                    for _ in range(2):
                        assert_same(store, matrix)
            except StorageError as error:
                errors.append(error)
        assert_nothing_left(*folders)
        if fault.calls < fail_at:
            break
    assert fail_at > 15
    assert len(errors) == fail_at - 1
    assert {error.errno for error in errors} == {number}
    assert all(str(tmp_path) in str(error) and "cache_dir" in str(error) for error in errors)


def test_short_reads_and_writes_are_continued(small, tmp_path, monkeypatch):
    matrix = small
    read, write = block_files._read_at, block_files._write_at
    monkeypatch.setattr(block_files, "_read_at", lambda f, b, o: read(f, b[: len(b) // 3 + 1], o))
    monkeypatch.setattr(block_files, "_write_at", lambda f, b, o: write(f, b[: len(b) // 2 + 1], o))
    limit = smallest_limit(matrix, 60)
    with make_store(tmp_path, matrix, chunk_rows=60, limit=limit) as store:
        assert_same(store, matrix)


@pytest.mark.parametrize("compression", ["none", "always"])
def test_passes_that_are_given_up_leave_no_thread(compression, small, tmp_path):
    matrix = small
    options = {"chunk_rows": 60, "compression": compression, "limit": smallest_limit(matrix, 60)}
    with make_store(tmp_path, matrix, **options) as store:
        for chunk in store.chunks():
            if chunk.number == 2:
                break
        del chunk
        assert not [t for t in threading.enumerate() if t.name.startswith("hedgerow-ahead")]
        assert [c.number for c in store.chunks([0, 1, 2])] == [0, 1, 2]
        with pytest.raises(ZeroDivisionError):
            _ = [1 / 0 for _ in store.chunks()]
        going = store.chunks()
        next(going)
        store.close()
        with pytest.raises(StorageError, match="closed"):
            next(going)
    assert_nothing_left(tmp_path)


# The end of the process


RUN = """
    import os, signal, sys, warnings
    import numpy as np
    from hedgerow.data import bin_table, fit_bins, read_table
    from hedgerow.data.external.disk_store import ChunkSink
    table = read_table(np.arange(300.0).reshape(-1, 1))
    spec = fit_bins(table, max_bins=255)
    sink = ChunkSink(spec, [sys.argv[1]], 1 << 24, chunk_rows=50)
    sink.append(bin_table(table, spec))
    store = sink.finish()
    chunks = store.chunks()
    next(chunks)
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
    if os.fork() == 0:
        sys.exit()  # a child that ends leaves the files alone
    os.wait()
    print(len(os.listdir(sys.argv[1])), sum(c.n_rows for c in store.chunks()), flush=True)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.fast(1)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_files_when_the_process_ends(end, tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN), str(tmp_path), end],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert result.stdout.split() == ["0", "300"], result.stderr
    if end == "exit":
        assert (result.returncode, result.stderr) == (0, "")
    else:
        assert result.returncode == -signal.SIGKILL
    assert_nothing_left(tmp_path)


# Threads
