"""Each feature trains on files and on a cluster to the bytes of a table in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import hedgerow
from hedgerow import Dataset, HedgerowClassifier, HedgerowRanker, HedgerowRegressor, train
from hedgerow.boosting.loop.setup.job import Job
from hedgerow.boosting.row_data import statistics
from hedgerow.errors import AllRowsNeededError, DataError, ParameterError
from tests.helpers.chunked import Rows, divided_into, same_bytes
from tests.helpers.clusters import client_of_workers
from tests.helpers.features import COLUMNS, FEATURES, N_ROWS, NUMBERS, ROWS, SMALL, parts_of
from tests.helpers.rank_trainings import cut, train_ranks

NOT_ON_CLUSTERS = {
    "of all", "absolute of all", "weighted squares of all", "own classes", "Cox", "Cox of events",
    "Cox of truth values", "folds", "exact", "approx", "statistics", "line search",
    "conflicts", "bundles by degree",
}  # fmt: skip
"""Pieces that need all rows, which no worker of a cluster has (reasons: docs/clusters.md)."""

IN_MEMORY = {"folds", "conflicts", "bundles by degree"}
IN_CHUNKS = [name for name in FEATURES if not IN_MEMORY & set(name.split(" + "))]
"""Features that do not need the rows of files as a table in memory."""

RNG = np.random.default_rng(0)


@functools.cache
def bytes_in_memory(feature: str) -> bytes:
    """Train a feature on the table in memory, and return the bytes of the model."""
    params, rows = parts_of(feature)
    return train(params, rows.in_memory()).to_bytes()


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    pytest.importorskip("pyarrow", reason="files need pyarrow")
    folder = tmp_path_factory.mktemp("rows")
    found = [folder / "0.parquet", folder / "1.parquet"]
    ROWS[:250].to_parquet(found[0])
    ROWS[250:].to_parquet(found[1])
    return found


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Divide rows into chunks; as many rows, with target statistics, are not copied."""
    monkeypatch.setattr(statistics, "COPIED_ROWS", 1)
    with divided_into(128):
        yield


def bytes_of(feature: str) -> bytes:
    """Train as :func:`bytes_in_memory`, with as many copies of rows as now."""
    if "statistics" not in feature:
        return bytes_in_memory(feature)
    params, rows = parts_of(feature)
    return train(params, rows.in_memory()).to_bytes()


@pytest.mark.parametrize("feature", IN_CHUNKS)
def test_chunks_give_the_bytes_of_memory(
    feature: str, paths: list[Path], small_chunks: None
) -> None:
    params, rows = parts_of(feature)
    assert train(params, rows.in_files(paths)).to_bytes() == bytes_of(feature)


# A fit of one chunk takes the path of memory: some of the features are enough.
@pytest.mark.parametrize("feature", FEATURES[::10])
def test_one_chunk_gives_the_bytes_of_memory(feature: str, paths: list[Path]) -> None:
    params, rows = parts_of(feature)
    assert train(params, rows.in_files(paths)).to_bytes() == bytes_in_memory(feature)


@pytest.mark.parametrize("feature", ["groups", "ranking", "statistics"])
def test_cross_validation_of_files(feature: str) -> None:
    params, rows = parts_of(feature)
    memory, files = (
        hedgerow.cv(params, data, folds=3, keep_models=True)
        for data in (rows.in_memory(), rows.in_batches())
    )
    assert [b.to_bytes() for b in files.boosters] == [b.to_bytes() for b in memory.boosters]
    np.testing.assert_equal(files.curves, memory.curves)
    np.testing.assert_equal(files.splits, memory.splits)


@pytest.mark.fast(6)
@pytest.mark.parametrize(
    "feature", ["classes", "groups", "sample + offsets", "ranking", "Cox", "lines"]
)
@pytest.mark.parametrize("model", ["average", "refit"])
def test_cross_fits_of_files(feature: str, model: Any) -> None:
    params, rows = parts_of(feature)
    loss, kind = params.pop("objective", "squared_error"), HedgerowRegressor
    if feature == "classes":
        kind, loss = HedgerowClassifier, "softmax"
    elif feature == "ranking":
        kind = HedgerowRanker
    memory = rows.in_memory()
    given = {name: value for name, value in memory.given.items() if value is not None}
    arguments = {"weight": "sample_weight"}
    estimator = kind(**{**params, "objective": loss, "n_jobs": 2})
    expected, found = (
        hedgerow.cross_fit(estimator, *given, cv=3, model=model, **more)
        for given, more in (
            ((memory.X, memory.y), {arguments.get(name, name): v for name, v in given.items()}),
            ((rows.in_batches(),), {}),
        )
    )
    assert [b.to_bytes() for b in found.boosters] == [b.to_bytes() for b in expected.boosters]
    assert found.model.booster_.to_bytes() == expected.model.booster_.to_bytes()
    np.testing.assert_array_equal(found.oof_raw, expected.oof_raw)
    np.testing.assert_array_equal(found.oof_prediction, expected.oof_prediction)
    np.testing.assert_equal(found.curves, expected.curves)
    np.testing.assert_equal(found.scores, expected.scores)


def test_balanced_cross_fits_of_files_test_rows_in_any_order() -> None:
    _, rows = parts_of("classes")
    estimator = HedgerowClassifier(n_estimators=4, max_leaves=5, class_weight="balanced")
    order = np.random.default_rng(1).permutation(N_ROWS)
    splits = [(order[:300], order[300:]), (order[200:], order[:200])]
    memory = rows.in_memory()
    expected = hedgerow.cross_fit(estimator, memory.X, memory.y, splits, model="refit")
    found = hedgerow.cross_fit(estimator, rows.in_batches(), cv=splits, model="refit")
    assert found.model.booster_.to_bytes() == expected.model.booster_.to_bytes()
    np.testing.assert_array_equal(found.oof_prediction, expected.oof_prediction)


@pytest.mark.parametrize("feature", ["plain", "classes + weights", "Cox", "exact", "of all"])
def test_rounds_one_by_one_on_files(feature: str, small_chunks: None) -> None:
    params, rows = parts_of(feature)
    params.pop("n_estimators")
    models = []
    for data in (rows.in_memory(), rows.in_batches()):
        with hedgerow.Training(params, data) as training:
            for number in range(4):
                training.update()
                if number == 1:
                    training.set_params(max_leaves=4)
        models.append(training.booster().to_bytes())
    assert models[0] == models[1]


# -- validation rows, models to continue, and checkpoints -----------------------------------

VALIDATED = """
stops early
stops early + symmetric + weights
stops early + GOSS + offsets
stops early + DART + own metric
stops early + forest + training scores
stops early + lines + wide integers
stops early + lines + DART
stops early + high + scores of classes + weights
stops early + classes + crosses
stops early + two targets + r2
stops early + two targets + trees apart + DART + r2
stops early + exact + weights
stops early + exact + statistics + one cross
stops early + statistics + towns + training scores
stops early + Cox + training scores
stops early + absolute of all
stops early + AFT of events
stops early + ranking
stops early + ranking + exact
"""


@pytest.mark.fast(10)
@pytest.mark.parametrize("feature", VALIDATED.split("\n")[1:-1])
def test_validation_rows(feature: str, small_chunks: None) -> None:
    """Validation rows may lie in files or in memory."""
    params, rows = parts_of(feature)
    seen, unseen = rows.part(0, 400), rows.part(400, N_ROWS)
    booster = same_bytes(params, seen, unseen)
    found = train(params, seen.in_batches(), unseen.in_memory())
    assert found.to_bytes() == booster.to_bytes()
    assert found.evals_result == booster.evals_result


@pytest.mark.parametrize("more", ["plain", "symmetric", "GOSS + weights"])
def test_several_sets_of_validation_rows(more: str, small_chunks: None) -> None:
    params, rows = parts_of(f"stops early + {more}")
    seen, unseen = rows.part(0, 400), rows.part(400, N_ROWS)
    several = {"first": unseen.in_memory(), "second": unseen.in_batches()}
    plain = dict.fromkeys(several, unseen.in_memory())
    found = train(params, seen.in_batches(), several)
    assert found.to_bytes() == train(params, seen.in_memory(), plain).to_bytes()


CONTINUED = {
    "plain": "plain",
    "plain + weights": "symmetric + weights",
    "plain + offsets": "offsets",
    "plain + offsets + weights": "offsets + stops early",
    "plain + dates": "GOSS + dates + stops early + training scores",
    "sample": "falling rates + left out",
    "monotone": "penalties + L1",
    "no statistics + streets": "streets + stops early",
    "categories": "lines",
    "lines": "categories",
    "lines + sample": "lines + GOSS + weights",
    "boosted forests": "boosted forests + training scores",
    "quantile": "quantile + sample",
    "classes": "classes + stops early",
    "vectors + classes": "classes",
    "vectors + classes + sample": "trees apart + classes",
    "two targets": "two targets + sample",
    "two targets + trees apart": "two targets + trees apart + GOSS",
    "exact": "exact + weights",
    "approx + classes": "exact + classes + stops early",
    "two targets + approx": "exact + two targets + sample",
    "Cox": "Cox",
    "Cox + offsets": "Cox + offsets",
    "approx + Cox": "approx + Cox",
    "of all": "of all",
    "ranking": "ranking",
}


@pytest.mark.fast(14)
@pytest.mark.parametrize("before", CONTINUED)
def test_a_model_is_continued(before: str, small_chunks: None) -> None:
    """The first model knows fewer rows, and lacks a category of the later ones."""
    params, rows = parts_of(before)
    model = train(params, rows.part(0, 250).in_memory())
    params, later = parts_of(CONTINUED[before])
    other = ROWS.assign(town=ROWS.town.mask(ROWS.index < 20, "new"))
    rows = Rows(other, rows.features, later.target, later.roles)
    found = same_bytes(params, rows, init_model=model)
    assert found.model.training["init_rounds"] == model.num_rounds
    if params.get("early_stopping"):
        unseen = rows.part(0, 90)
        expected = same_bytes(params, rows, unseen, init_model=model)
        found = train(params, rows.in_batches(), unseen.in_memory(), init_model=model)
        assert found.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("change", ["order", "kind"])
def test_a_model_is_continued_with_other_columns(change: str) -> None:
    rows = Rows(ROWS, ["a", "b", "town"])
    model = train(SMALL, rows.in_memory())
    if change == "order":
        rows = Rows(ROWS, ["b", "town", "a"])
    else:
        rows = Rows(ROWS.assign(a=np.arange(N_ROWS)), rows.features)
    same_bytes(SMALL, rows, init_model=model)


CHECKPOINTS = """
sample + weights + errors
classes + columns of nodes
line search + high + monotone
GOSS + stops early
symmetric + MVS
offsets + DART
DART + classes + sample
DART + quantile
lines + DART + few bins
lines + two targets + sample
boosted forests + classes
boosted forests + lines
forest + score of rows left out
forest + classes + score of rows left out + stops early
left out + absolute of all
categories + bundles
statistics + crosses
quantile + sample + stops early
two targets + sample
two targets + trees apart
exact + sample
exact + classes + sample
approx + classes
ranking + XE-NDCG
ranking + DART
"""


@pytest.mark.fast(13)
@pytest.mark.parametrize("feature", CHECKPOINTS.split("\n")[1:-1])
def test_a_checkpoint_goes_on(feature: str, tmp_path: Path, small_chunks: None) -> None:
    params, rows = parts_of(feature)
    params["n_estimators"] = 6
    expected = train(params, rows.in_memory()).to_bytes()
    rounds: list[int] = []

    class Killed(Exception):
        """An error that ends the fit like a killed process."""

    def killed(seen: Any) -> None:
        if seen.round == 2:
            raise Killed

    def fit(size: int, callback: Callable[[Any], None]) -> bytes:
        data = rows.in_batches(size) if size else rows.in_memory()
        kept = {"checkpoint": tmp_path / str(size > 0), "checkpoint_every": 0.0}
        return train(params, data, callbacks=callback, **kept).to_bytes()

    for first, other in ([0, 0], [170, 70]):  # other batches are the same rows
        with pytest.raises(Killed):
            fit(first, killed)
        assert fit(other, lambda seen: rounds.append(seen.round)) == expected
        assert rounds == sorted(set(rounds))
        assert rounds[0] == 2
        rounds.clear()


@pytest.mark.parametrize("method", ["hist", "exact"])
def test_several_targets_of_files_are_matched_by_name(method: str, paths: list[Path]) -> None:
    params = {"n_estimators": 5, "early_stopping": True, "patience": 2, "tree_method": method}
    numbers = [column for column in COLUMNS if column in NUMBERS]

    def rows(path: Path, *targets: str) -> Dataset:
        return Dataset.from_files(path, [*targets], features=numbers)

    first, last = ROWS[:250], ROWS[250:]
    memory = [Dataset(part[numbers], part[["y", "y2"]]) for part in (first, last)]
    expected = train(params, *memory)
    assert expected.target_names == ("y", "y2")
    for valid in (rows(paths[1], "y", "y2"), rows(paths[1], "y2", "y"), memory[1]):
        found = train(params, rows(paths[0], "y", "y2"), valid)
        assert found.to_bytes() == expected.to_bytes()
    score = expected.eval(memory[1])
    assert expected.eval(rows(paths[1], "y2", "y")) == pytest.approx(score)
    assert expected.eval(rows(paths[1], "y", "y2")) == pytest.approx(score)
    for other in (("y", "d"), ("y",), ("y", "y2", "d")):
        without = [column for column in numbers if column not in other]
        wrong = Dataset.from_files(paths[1], [*other], features=without)
        with pytest.raises(DataError, match=r"lacks the column 'y2'|column\(s\), but|contains NaN"):
            train({**params}, Dataset.from_files(paths[0], ["y", "y2"], features=without), wrong)


def test_files_stay_as_the_user_gave_them(paths: list[Path]) -> None:
    def rows(*targets: str) -> Dataset:
        return Dataset.from_files(paths, [*targets], features=NUMBERS)

    params = {"n_estimators": 3}
    expected, first = train(params, rows("y2", "y")), train(params, rows("y", "y2"))
    used = rows("y2", "y")
    for use in (lambda: first.eval(used), lambda: train(params, rows("y", "y2"), used)):
        use()
        found = train(params, used)
        assert found.target_names == ("y2", "y")
        assert found.to_bytes() == expected.to_bytes()


def test_files_keep_their_labels_after_a_model_of_classes_was_scored(paths: list[Path]) -> None:
    labels = np.where(ROWS.b > 3.0, 8.0, 5.0)
    model = HedgerowClassifier(n_estimators=2).fit(ROWS[["a"]], labels).booster_
    rows = ROWS[["a"]].assign(label=labels)
    path = paths[0].with_name("labels.parquet")
    rows.to_parquet(path)
    files = Dataset.from_files(path, "label")
    params = {"n_estimators": 2, "objective": "squared_error"}
    assert model.eval(files) == pytest.approx(model.eval(Dataset(rows[["a"]], labels)))
    expected = train(params, Dataset(rows[["a"]], labels))
    assert train(params, files).to_bytes() == expected.to_bytes()


def test_intervals_of_files_are_scored_as_one_target(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="files need pyarrow")
    times = np.exp(ROWS.y.to_numpy() / 4)
    rows = ROWS[["a", "b"]].assign(lower=times, upper=times + 1.0)
    rows.to_parquet(tmp_path / "times.parquet")
    memory = Dataset(rows[["a", "b"]], rows[["lower", "upper"]])
    model = train({"objective": "aft", "n_estimators": 4}, memory)
    files = Dataset.from_files(tmp_path / "times.parquet", ["lower", "upper"])
    assert model.eval(files) == pytest.approx(model.eval(memory))


@pytest.mark.parametrize("more", [{}, {"grow_policy": "symmetric"}, {"early_stopping": "cv"},
                                  {"max_conflict_rate": 0.1, "early_stopping": True}])  # fmt: skip
def test_sparse_batches(more: dict[str, Any]) -> None:
    dense = RNG.normal(size=(300, 12)) * (RNG.random((300, 12)) < 0.2)
    dense[150:] = dense[:150]  # folds keep equal rows together
    X, y = csr_array(dense), dense.sum(axis=1)

    def batches() -> Iterator[Any]:
        for start in range(0, 300, 100):
            yield X[start : start + 100], y[start : start + 100]

    params = {"n_estimators": 4, **more}
    expected = train(params, Dataset(X, y)).to_bytes()
    assert train(params, Dataset.from_batches(batches)).to_bytes() == expected
    if not {"early_stopping", "max_conflict_rate"} & more.keys():
        with divided_into(128):
            assert train(params, Dataset.from_batches(batches)).to_bytes() == expected


def test_batches_without_rows_that_are_held_out() -> None:
    params = {"n_estimators": 4, "early_stopping": True, "feature_crosses": [("a", "b", "ratio")]}
    same_bytes(params, Rows(ROWS, ["a", "b"]), size=3)


# -- rows that do not fit into memory ----------------------------------------------------


@functools.cache
def many_rows() -> pd.DataFrame:
    """Return rows whose table takes more than 32 MB, and more than the sample for cuts."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(350_000, 8)), columns=[f"x{k}" for k in range(8)])
    rows["y"], rows["z"] = rows.x0 * rows.x1 + rows.x2, rows.x2
    rows["class"], rows["time"] = np.digitize(rows.y, [-0.5, 0.5]), np.exp(rows.x0)
    rows["query"] = np.arange(len(rows)) // 20
    rows["code"] = rng.integers(0, 3000, len(rows)).astype(str)
    return rows


@pytest.mark.fast(3)
@pytest.mark.parametrize(
    ("params", "target"),
    [
        ({"grow_policy": "symmetric", "monotone_constraints": {"x2": 1}}, "y"),
        ({"sampling": "goss", "objective": "softmax"}, "class"),
        ({"linear_leaves": True, "max_leaves": 12, "sampling": "mvs", "subsample": 0.4}, "y"),
        ({"multi_strategy": "one_output_per_tree"}, ["y", "z"]),
        ({"objective": "cox"}, "time"),
        ({"objective": "lambdarank"}, "class"),
        ({"target_statistics": True, "feature_crosses": [("x0", "x1", "ratio")]}, "y"),
    ],
    ids=str,
)
def test_rows_that_do_not_fit(
    params: dict[str, Any], target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Job, "in_memory", None)
    features = [f"x{k}" for k in range(8)] + ["code"] * ("target_statistics" in params)
    roles = {"qid": "query"} if params.get("objective") == "lambdarank" else {}
    rows = Rows(many_rows(), features, target, roles)
    params = {"n_estimators": 2, "n_jobs": 2, **params}
    files = rows.in_batches(50_000, memory_limit="48 MB" if "code" in features else "32 MB")
    assert train(params, files).to_bytes() == train(params, rows.in_memory()).to_bytes()


def test_rows_that_do_not_fit_say_what_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"x{k}" for k in range(8)]
    rows = Rows(many_rows(), names).in_batches(50_000, memory_limit="32 MB")
    coded = Rows(many_rows(), [*names[:7], "code"]).in_batches(50_000, memory_limit="32 MB")
    integers = np.arange(80).reshape(10, 8)
    monkeypatch.setattr(statistics, "COPIED_ROWS", 10**6)  # these are few
    first = train({"n_estimators": 1}, Dataset(integers, integers[:, 0], feature_names=names))
    for params, data, start, what in (
        ({}, rows, first, "of other kinds"),
        ({"early_stopping": "cv"}, rows, None, "need all rows in memory"),
        ({"max_conflict_rate": 0.1}, rows, None, "chooses bundles of columns from all rows"),
        ({}, coded, None, "of the columns 'code', of several copies of these few rows"),
    ):
        with pytest.raises(ParameterError, match=rf"{what}.* 33.6 MB, and memory_limit is 32"):
            train({"n_estimators": 2, **params}, data, init_model=start)


def test_bundles_of_categories_in_files_are_refused_as_in_memory() -> None:
    rows = Rows(ROWS, COLUMNS)
    for data in (rows.in_batches(), rows.in_memory()):
        with pytest.raises(ParameterError, match="column 'town' is a category"):
            train({"n_estimators": 2, "bundle_features": True}, data)


# -- a cluster ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    pytest.importorskip("dask.dataframe")
    with client_of_workers(2, processes=False) as found:
        yield found


def divided(values: Any, n_parts: int = 3) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(values, npartitions=n_parts, sort=False)


def bytes_of_values(feature: str) -> bytes:
    """Return the bytes of a fit in memory whose offsets are values, as on clusters.

    In tables they are columns, which the model names.
    """
    params, rows = parts_of(feature)
    if "offset" not in rows.roles:
        return bytes_in_memory(feature)
    given = {role: ROWS[name].to_numpy() for role, name in rows.roles.items()}
    return train(params, Dataset(ROWS[rows.features], ROWS[rows.target], **given)).to_bytes()


DIVIDED = [name for name in FEATURES if not NOT_ON_CLUSTERS & set(name.split(" + "))]


@pytest.mark.fast(40)
@pytest.mark.parametrize("feature", DIVIDED)
def test_ranks_give_the_bytes_of_memory(feature: str, tmp_path: Path) -> None:
    """There are three ranks; one of them has no rows."""
    params, rows = parts_of(feature)
    known = {role: ROWS[name] for role, name in rows.roles.items()}
    parts = cut([200, 200], ROWS[rows.features], ROWS[rows.target], **known)
    with divided_into(128):
        assert train_ranks(3, parts, tmp_path, **params) == bytes_of_values(feature)


@pytest.mark.parametrize("feature", ["statistics", "statistics + towns + forest"])
def test_statistics_of_ranks_are_refused(feature: str, tmp_path: Path) -> None:
    params, rows = parts_of(feature)
    parts = cut([200, 200], ROWS[rows.features], ROWS[rows.target])
    with pytest.raises(AllRowsNeededError, match=r"columns 'street'.*, which needs all rows"):
        train_ranks(3, parts, tmp_path, **params)


# Workers take the path of one chunk, or that of ranks.
@pytest.mark.fast(9)
@pytest.mark.parametrize("feature", DIVIDED)
def test_clusters_give_the_bytes_of_memory(feature: str, client: Any) -> None:
    from hedgerow.distributed import train as train_on_cluster

    params, rows = parts_of(feature)
    known = {role: divided(ROWS[name]) for role, name in rows.roles.items()}
    X, y = divided(ROWS[rows.features]), divided(ROWS[rows.target])
    found = train_on_cluster(client, params, X, y, **known)
    assert found.to_bytes() == bytes_of_values(feature)


@pytest.mark.parametrize("trees", [{}, {"linear_leaves": True}])
def test_going_on_on_a_cluster(trees: dict[str, Any], client: Any) -> None:
    from hedgerow.distributed import train as train_on_cluster

    memory, params = Dataset(ROWS[COLUMNS], ROWS.y.to_numpy()), {"n_estimators": 3, **trees}
    first = train(params, memory)
    found = train_on_cluster(
        client, params, divided(ROWS[COLUMNS]), divided(ROWS.y), init_model=first
    )
    assert found.to_bytes() == train(params, memory, init_model=first).to_bytes()


def test_going_on_with_new_categories_on_workers(client: Any) -> None:
    from hedgerow.distributed import training

    more = ROWS[COLUMNS].copy()
    more.loc[:9, "town"] = "new"
    first = train({"n_estimators": 3}, Dataset(ROWS[COLUMNS], ROWS.y.to_numpy()))
    params = {"n_estimators": 5, "early_stopping": True, "patience": 1}
    found = training.train(client, params, divided(more), divided(ROWS.y), init_model=first)
    expected = train(params, Dataset(more, ROWS.y.to_numpy()), init_model=first)
    assert found.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize(
    ("kind", "target", "params"),
    [
        ("Regressor", "y", {"n_estimators": 4, "sampling": "goss"}),
        ("Classifier", "class", {"n_estimators": 4, "grow_policy": "symmetric"}),
        ("Classifier", "class", {"n_estimators": 4, "class_weight": "balanced"}),
    ],
)
def test_estimators_on_a_cluster(
    kind: str, target: str, params: dict[str, Any], client: Any, tmp_path: Path
) -> None:
    local = {"Regressor": HedgerowRegressor, "Classifier": HedgerowClassifier}[kind](**params)
    cluster = getattr(hedgerow, f"DaskHedgerow{kind}")(**params)
    cluster.fit(divided(ROWS[COLUMNS]), divided(ROWS[target]), client=client)
    local.fit(ROWS[COLUMNS], ROWS[target])
    cluster.save(tmp_path / "cluster")
    local.save(tmp_path / "local")
    assert (tmp_path / "cluster").read_bytes() == (tmp_path / "local").read_bytes()


def test_warm_start_on_a_cluster_is_an_error(client: Any) -> None:
    X, y, q = divided(ROWS[COLUMNS]), divided(ROWS["class"]), divided(ROWS.q)
    cluster = hedgerow.DaskHedgerowRanker(n_estimators=3, warm_start=True)
    cluster.fit(X, y, qid=q, client=client)
    local = HedgerowRanker(n_estimators=3).fit(ROWS[COLUMNS], ROWS["class"], qid=ROWS.q)
    assert cluster.booster_.to_bytes() == local.booster_.to_bytes()
    with pytest.raises(ParameterError, match="warm_start=True continues with rows in memory"):
        cluster.fit(X, y, qid=q, client=client)
