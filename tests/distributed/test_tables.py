"""Ranks with Arrow tables fit what one process fits to the same rows in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.distributed.tables import Columns, estimator_of, file_of, fit_tables
from hedgerow.errors import CommunicationError, DataError, ParameterError
from tests.helpers.ranks import rank_outcomes, run_ranks

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (hedgerow[files])")

N_ROWS = 600
NAMES = ("a", "b", "c", "d")
SMALL: dict[str, Any] = {"n_estimators": 5, "max_leaves": 6, "random_state": 3}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    found = pd.DataFrame(
        {
            "a": rng.standard_normal(N_ROWS),
            "b": rng.integers(0, 9, N_ROWS),
            "c": rng.choice(["x", "y", "z"], N_ROWS),
            "d": np.where(rng.random(N_ROWS) < 0.2, np.nan, rng.random(N_ROWS)),
            "w": rng.choice([0.0, 0.5, 1.0, 2.0], N_ROWS),
            "q": [f"query {number // 12}" for number in range(N_ROWS)],
            "valid": rng.random(N_ROWS) < 0.2,
        }
    )
    found.loc[550:, "c"] = "only at the end"
    found["y"] = found["a"] + (found["c"] == "x") * found["b"] / 5
    found["name"] = pd.cut(found["y"], [-9, 0, 1, 9], labels=["low", "mid", "high"]).astype(str)
    found.loc[:250, "name"] = "low"  # no other class on the first rank
    found["grade"] = np.clip(np.round(found["y"] + 1), 0, 3) + 0.0  # no zero has a sign
    return found


def on_ranks(estimator: Any, rows: pd.DataFrame, columns: Columns, n_ranks: int = 3) -> bytes:
    """Fit on ranks: the first has 250 rows, the last one the others, the rest none."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    parts = [table.slice(0, 250), *[None] * (n_ranks - 2), table.slice(250)]
    found = run_ranks(
        n_ranks, lambda ranks: fit_tables(estimator, ranks, parts[ranks.rank], columns)
    )
    assert not any(found[1:])
    return found[0]


@pytest.mark.fast(4)
@pytest.mark.parametrize(
    ("estimator", "columns"),
    [
        (HedgerowRegressor(**SMALL), Columns(NAMES, "y", {})),
        (HedgerowRegressor(**SMALL), Columns(NAMES, "y", {"weight": "w", "offset": "d"})),
        (HedgerowRegressor(**SMALL, early_stopping=True), Columns(NAMES, "y", {}, "valid")),
        (HedgerowClassifier(**SMALL), Columns(NAMES, "name", {})),
        (
            HedgerowClassifier(**SMALL, class_weight="balanced"),
            Columns(NAMES, "name", {"weight": "w"}, "valid"),
        ),
        (HedgerowClassifier(**SMALL), Columns(("a", "b"), "grade", {})),
        (HedgerowRanker(**SMALL), Columns(("a", "b"), "grade", {"qid": "q"}, "valid")),
    ],
)
def test_the_file_is_that_of_a_local_fit(
    estimator: Any, columns: Columns, rows: pd.DataFrame
) -> None:
    rows = rows.fillna({"d": 0.5}) if "offset" in columns.row_values else rows
    train, more = rows, {}
    called = {"weight": "sample_weight"}
    if columns.validation:
        train, valid = rows[~rows["valid"]], rows[rows["valid"]]
        more = {"X_val": valid[list(columns.features)], "y_val": valid[columns.label]}
        for name, column in columns.row_values.items():
            more[f"{called.get(name, name)}_val"] = valid[column]
    for name, column in columns.row_values.items():
        more[called.get(name, name)] = train[column]
    local = type(estimator)(**estimator.get_params())
    local.fit(train[list(columns.features)], train[columns.label], **more)
    found = on_ranks(estimator, rows, columns)
    assert found == file_of(local)
    assert file_of(estimator_of(type(estimator), found)) == found


def test_features_may_be_lists_or_all_other_columns(rows: pd.DataFrame) -> None:
    array = rows[["a", "b"]].to_numpy(dtype=float)
    listed = pd.DataFrame({"features": list(array), "y": rows["y"]})
    local = HedgerowRegressor(**SMALL).fit(array, rows["y"])
    found = on_ranks(HedgerowRegressor(**SMALL), listed, Columns(("features",), "y", {}))
    assert found == file_of(local)
    local = HedgerowRegressor(**SMALL).fit(rows[["a", "b"]], rows["y"])
    found = on_ranks(HedgerowRegressor(**SMALL), rows[["a", "y", "b"]], Columns(None, "y", {}))
    assert found == file_of(local)
    listed["features"] = [[1.0, 2.0], [1.0]] * (N_ROWS // 2)
    with pytest.raises(DataError, match="lists of a column of features have different lengths"):
        on_ranks(HedgerowRegressor(**SMALL), listed, Columns(("features",), "y", {}))


def test_a_fit_goes_on_from_what_it_saved(rows: pd.DataFrame) -> None:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    saved: list[list[bytes]] = [[], []]

    def fit(ranks: Any, checkpoint: list[bytes]) -> bytes:
        part = table.slice(0, 250) if ranks.rank == 0 else table.slice(250)
        return fit_tables(
            HedgerowRegressor(**SMALL), ranks, part, Columns(NAMES, "y", {}),
            checkpoint=checkpoint, save=saved[ranks.rank].append,
        )  # fmt: skip

    whole = run_ranks(2, lambda ranks: fit(ranks, []))[0]
    assert saved[0] == saved[1]
    n_parts = len(saved[0])
    assert n_parts >= 5
    first = saved[0][:3]
    assert run_ranks(2, lambda ranks: fit(ranks, first))[0] == whole
    assert len(saved[0]) == 2 * n_parts - 3  # the first rounds were not grown again


@pytest.mark.parametrize("wrong", ["a column less", "text in a column", "a wrong weight"])
def test_what_is_wrong_on_one_rank_is_an_error_on_all(wrong: str, rows: pd.DataFrame) -> None:
    good = pa.Table.from_pandas(rows, preserve_index=False)
    bad = rows.copy()
    if wrong == "a column less":
        bad = bad.drop(columns="b")
    elif wrong == "text in a column":
        bad["b"] = "text"
    else:
        bad["w"] = -1.0
    parts = [good, pa.Table.from_pandas(bad, preserve_index=False)]
    columns = Columns(NAMES, "y", {"weight": "w"})
    outcomes = rank_outcomes(
        2, lambda ranks: fit_tables(HedgerowRegressor(**SMALL), ranks, parts[ranks.rank], columns)
    )
    named = {"a column less": "'b'", "text in a column": "'b'", "a wrong weight": "weight"}[wrong]
    for outcome in outcomes:
        assert isinstance(outcome.error, DataError | CommunicationError | TypeError)
        assert named in str(outcome.error)


def test_what_ranks_cannot_do_is_refused(rows: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="there are no rows"):
        run_ranks(
            2, lambda ranks: fit_tables(HedgerowRegressor(), ranks, None, Columns(None, "y", {}))
        )
    with pytest.raises(DataError, match="no column 'z'"):
        on_ranks(HedgerowRegressor(**SMALL), rows, Columns(NAMES, "z", {}))
    with pytest.raises(DataError, match="no row is a validation row"):
        on_ranks(
            HedgerowRegressor(**SMALL), rows.assign(valid=False), Columns(NAMES, "y", {}, "valid")
        )
    with pytest.raises(ParameterError, match="progress=True would be called"):
        on_ranks(HedgerowRegressor(**SMALL, progress=True), rows, Columns(NAMES, "y", {}))
    exact = HedgerowRegressor(**SMALL, tree_method="exact")
    with pytest.raises(ParameterError, match=r"'exact' sorts .* no worker of a cluster"):
        on_ranks(exact, rows, Columns(("a", "b"), "y", {}))
