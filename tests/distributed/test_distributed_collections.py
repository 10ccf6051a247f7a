"""Every kind of Dask collection, from files and from memory, with any partitions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from hedgerow import (
    DaskHedgerowClassifier,
    DaskHedgerowRanker,
    DaskHedgerowRegressor,
    Dataset,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    train,
)
from hedgerow.boosting.automatic.recipe import plain_values
from hedgerow.distributed import Resilience
from hedgerow.errors import CommunicationError, DataError, DataTypeError
from hedgerow.io import model_to_bytes

distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed (hedgerow[dask])"
)
dd = pytest.importorskip(
    "dask.dataframe", reason="dask.dataframe is not installed (hedgerow[dask])"
)
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array", reason="dask.array is not installed (hedgerow[dask])")

DOCS = Path(__file__).resolve().parents[2] / "docs"
N_FILES, N_ROWS = 4, 320
COLUMNS = list("abcdef")
SMALL: dict[str, Any] = {"n_estimators": 3, "max_leaves": 5, "random_state": 3}
QUICK = Resilience(timeout=120.0, connect_timeout=20.0)


def whole_table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({name: rng.integers(-3, 4, N_ROWS).astype(float) for name in COLUMNS})
    rows["amount"] = rows["a"] - rows["b"] * (rows["c"] > 0) + rng.random(N_ROWS)
    rows["clicked"] = (rows["amount"] > 0).astype(int)
    rows["grade"] = np.clip(np.round(rows["amount"]), 0, 3).astype(int)
    rows["weight"] = rng.choice([0.5, 1.0, 2.0], N_ROWS)
    rows["search"] = np.arange(N_ROWS) // 20
    return rows


@pytest.fixture(scope="module")
def client(shared_client: Any) -> Any:
    return shared_client


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    rows, ends = whole_table(), [0, 50, 170, 171, N_ROWS]
    for number in range(N_FILES):
        part = rows.iloc[ends[number] : ends[number + 1]].reset_index(drop=True)
        part.to_parquet(folder / f"part-{number}.parquet")
    return folder


FRAMES: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda folder: dd.read_parquet(folder),
    "parquet-persisted": lambda folder: dd.read_parquet(folder).persist(),
    "parquet-filtered": lambda folder: dd.read_parquet(folder).query("a > -9"),
    "memory": lambda folder: dd.from_pandas(whole_table(), npartitions=3),
    "memory-unknown": lambda folder: dd.from_pandas(whole_table(), npartitions=3).clear_divisions(),
}
TABLES: dict[str, Callable[[Any], Any]] = {
    "frame": lambda X: X,
    "persisted": lambda X: X.persist(),
    "array": lambda X: X.values,
    "sparse": lambda X: X.values.map_blocks(scipy.sparse.csr_matrix),
}
ESTIMATORS: dict[str, tuple[Any, Any, str]] = {
    "classifier": (DaskHedgerowClassifier, HedgerowClassifier, "clicked"),
    "regressor": (DaskHedgerowRegressor, HedgerowRegressor, "amount"),
    "ranker": (DaskHedgerowRanker, HedgerowRanker, "grade"),
}


def local_bytes(kind: str, table: str, columns: list[str], **settings: Any) -> bytes:
    _, local, target = ESTIMATORS[kind]
    rows = whole_table()
    X: Any = rows[columns]
    if table == "sparse":
        X = scipy.sparse.csr_matrix(X.to_numpy())
    elif table == "array":
        X = X.to_numpy()
    more = {"qid": rows["search"]} if kind == "ranker" else {}
    model = local(**SMALL, **settings).fit(X, rows[target], rows["weight"], **more)
    return model_to_bytes(model.booster_.model)


@pytest.mark.fast(5)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_columns_of_one_frame(
    client: Any, parquet: Path, frame: str, table: str, kind: str
) -> None:
    rows = FRAMES[frame](parquet)
    model, _, target = ESTIMATORS[kind]
    more = {"qid": rows["search"]} if kind == "ranker" else {}
    X = TABLES[table](rows[COLUMNS])
    found = model(**SMALL).fit(X, rows[target], rows["weight"], resilience=QUICK, **more)
    assert model_to_bytes(found.booster_.model) == local_bytes(kind, table, COLUMNS)
    if table == "persisted":  # Dask itself cannot compute some of these (len(X) fails)
        X = rows[COLUMNS]
    assert len(found.predict(X).compute()) == N_ROWS
    if kind == "classifier":
        assert found.predict_proba(X).compute().shape == (N_ROWS, 2)


@pytest.mark.fast(5)
@pytest.mark.parametrize("columns", [COLUMNS, ["b"]], ids=["many", "one"])
@pytest.mark.parametrize("table", ["frame", "array"])
@pytest.mark.parametrize(
    "of_rows",
    [
        lambda column: column.to_frame(),
        lambda column: column.persist(),
        lambda column: column.values,
        lambda column: column.values.persist(),
        lambda column: column.repartition(npartitions=1),
    ],
    ids=["frame", "persisted", "array", "array-persisted", "one-partition"],
)
def test_what_belongs_to_the_rows_is_divided_in_other_places(
    client: Any, parquet: Path, of_rows: Any, table: str, columns: list[str]
) -> None:
    rows = dd.read_parquet(parquet)
    X, y, weight, qid = (
        TABLES[table](rows[columns]),
        of_rows(rows["grade"]),
        of_rows(rows["weight"]),
        of_rows(rows["search"]),
    )
    settings: dict[str, Any] = {"early_stopping": False}
    model = DaskHedgerowRanker(**SMALL, **settings).fit(
        X, y, weight, qid=qid, X_val=X, y_val=y, qid_val=qid, resilience=QUICK
    )
    data = whole_table()
    table_X = data[columns] if table == "frame" else data[columns].to_numpy()
    local = HedgerowRanker(**SMALL, **settings).fit(
        table_X, data["grade"], data["weight"], qid=data["search"],
        X_val=table_X, y_val=data["grade"], qid_val=data["search"],
    )  # fmt: skip
    assert model_to_bytes(model.booster_.model) == model_to_bytes(local.booster_.model)
    assert model.evals_result_ == local.evals_result_


def test_partitions_of_the_same_number_that_end_elsewhere(client: Any) -> None:
    data = whole_table()
    X, y = data[COLUMNS].to_numpy(), data["amount"].to_numpy()
    chunked = da.from_array(X, chunks=((100, 0, 220), 6))
    found = DaskHedgerowRegressor(**SMALL).fit(
        chunked, da.from_array(y, chunks=((0, 300, 20),)), resilience=QUICK
    )
    local = HedgerowRegressor(**SMALL).fit(X, y)
    assert model_to_bytes(found.booster_.model) == model_to_bytes(local.booster_.model)


@pytest.mark.fast(1)
@pytest.mark.parametrize("names", [["c", "d"], [0, 1]], ids=str)
def test_categories_that_only_some_partitions_have(client: Any, names: list[Any]) -> None:
    rng = np.random.default_rng(0)
    numbers, texts = rng.integers(0, 6, N_ROWS), rng.choice(["u", "v", "w"], N_ROWS)
    X = pd.DataFrame({names[0]: pd.Categorical(numbers), names[1]: pd.Categorical(texts)})
    y = pd.Series((numbers == 2) * 3.0 + (texts == "v") + rng.random(N_ROWS), name="y")
    order = np.argsort(numbers, kind="stable")
    X, y = X.iloc[order].reset_index(drop=True), y.iloc[order].reset_index(drop=True)
    ends = [0, 0, 90, 200, 201, N_ROWS]
    parts = [X.iloc[a:b].copy() for a, b in itertools.pairwise(ends)]
    for part in parts:
        for name in names:
            part[name] = part[name].cat.remove_unused_categories()
    frames = [dask.delayed(lambda part: part)(part) for part in parts]
    targets = [dask.delayed(y.iloc[a:b]) for a, b in itertools.pairwise(ends)]
    rows = dd.from_delayed(frames, meta=X.iloc[:0], verify_meta=False), dd.from_delayed(targets)
    found = DaskHedgerowRegressor(**SMALL).fit(*rows, resilience=QUICK)
    expected = HedgerowRegressor(**SMALL).fit(X, y)
    assert [column.kind for column in found.booster_.model.schema.columns] == ["category"] * 2
    assert model_to_bytes(found.booster_.model) == model_to_bytes(expected.booster_.model)


@pytest.mark.fast(1)
@pytest.mark.filterwarnings("ignore:the labels of the columns of X:UserWarning")
@pytest.mark.parametrize("labels", [[0, 1], [1, 0], [0.5, 2]], ids=str)
def test_labels_that_are_no_text(client: Any, labels: list[Any]) -> None:
    """Columns are matched by position, like in memory."""
    X = whole_table()[["a", "b"]].set_axis(labels, axis=1)
    y = whole_table()["amount"]
    parts = (dd.from_pandas(each, npartitions=2) for each in (X, y))
    found = DaskHedgerowRegressor(**SMALL).fit(*parts, resilience=QUICK)
    expected = HedgerowRegressor(**SMALL).fit(X, y)
    assert model_to_bytes(found.booster_.model) == model_to_bytes(expected.booster_.model)
    prediction = found.predict(dd.from_pandas(X, npartitions=2)).compute()
    np.testing.assert_array_equal(prediction, expected.predict(X))


def test_defaults_on_a_cluster_are_plain(client: Any) -> None:
    data = whole_table()
    X, y = data[COLUMNS], data["amount"]
    parts = [dd.from_pandas(each, npartitions=2) for each in (X, y)]
    found = DaskHedgerowRegressor().fit(*parts, resilience=QUICK)
    for expected in (
        train({}, Dataset(X, y)),
        HedgerowRegressor(**plain_values()).fit(X, y).booster_,
    ):
        assert model_to_bytes(found.booster_.model) == model_to_bytes(expected.model)
    by_recipe = HedgerowRegressor().fit(X, y).booster_
    assert model_to_bytes(found.booster_.model) != model_to_bytes(by_recipe.model)


def test_a_closed_client_is_an_error(client: Any) -> None:
    data = whole_table()
    leaving = distributed.Client(client.scheduler.address)
    given = {"X": dd.from_pandas(data[COLUMNS], 2), "y": dd.from_pandas(data["amount"], 2)}
    leaving.close()
    with pytest.raises(CommunicationError, match="the Dask scheduler does not answer"):
        DaskHedgerowRegressor(**SMALL).fit(*given.values(), client=leaving)


def test_another_client_is_an_error() -> None:
    rows = dd.from_pandas(whole_table(), npartitions=1)
    with pytest.raises(DataTypeError, match=r"client must be a distributed.Client; got str"):
        DaskHedgerowRegressor().fit(rows[COLUMNS], rows["amount"], client="tcp://localhost:8786")


def test_other_rows_are_an_error(client: Any) -> None:
    data = whole_table()
    X = dd.from_pandas(data[COLUMNS], npartitions=3)
    y = dd.from_pandas(data["amount"].iloc[:-1], npartitions=2)
    with pytest.raises(DataError, match="X has 320 rows in 3 partitions, but y has 319 in 2"):
        DaskHedgerowRegressor(**SMALL).fit(X, y)
    backwards = dd.from_pandas(data["amount"].iloc[::-1], npartitions=2, sort=False)
    with pytest.raises(DataError, match=r"X and y have different partitions.* different indexes"):
        DaskHedgerowRegressor(**SMALL).fit(X, backwards)


def test_examples_of_the_page_run(client: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """The test changes only the addresses of the scheduler and of the folders."""
    monkeypatch.chdir(tmp_path)
    data = whole_table()
    (tmp_path / "rows").mkdir()
    for number, part in enumerate(np.array_split(np.arange(N_ROWS), N_FILES)):
        rows = data[[*COLUMNS, "clicked"]].iloc[part]
        rows.to_parquet(tmp_path / "rows" / f"part-{number}.parquet")
    page = (DOCS / "distributed.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) > 2
    names: dict[str, Any] = {}
    for block in blocks:
        code = block.replace("tcp://scheduler:8786", client.scheduler.address)
        code = code.replace("s3://bucket/", f"{tmp_path}/")
        code = re.sub(r"n_estimators=\d+", "n_estimators=9", code)
        if not names:
            exec(compile(code, "distributed.md", "exec"), names)
            names |= {"grades": names["y"], "searches": names["table"]["a"]}
        else:  # the others go on from the first one
            exec(compile(code, "distributed.md", "exec"), dict(names))
    names["client"].close()
    probabilities = pd.read_parquet(tmp_path / "predictions")
    model = HedgerowClassifier.load(tmp_path / "model.hedgerow")
    np.testing.assert_array_equal(probabilities.to_numpy(), model.predict_proba(data[COLUMNS]))
