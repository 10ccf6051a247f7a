"""HedgerowRanker and ``train`` with queries: conventions, invariances, files and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import Dataset, HedgerowRanker, cross_fit, train
from hedgerow.boosting.row_data.queries import read_qid
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.metrics.queries import query_rows
from hedgerow.metrics.ranking import ranking_metric
from hedgerow.objectives import RANKING
from tests.reference import naive_ranking as naive

SHORT = {"n_estimators": 6, "n_jobs": 1, "min_samples_leaf": 5}


def make_queries(n_queries=80, rows=12, seed=0, n_features=4):
    """Return labels 0 to 4 by the rank in each query of a score of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * rows, n_features))
    qid = np.repeat(np.arange(n_queries), rows)
    signal = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=len(X))
    y = np.clip(np.floor(signal + 1.0), 0, 4)
    return X, y, qid


X, Y, QID = make_queries()


def model_bytes(model) -> bytes:
    return model_to_bytes(model.booster_.model)


class OneList(HedgerowRanker):
    """A ranker for checks without queries: all rows are one query."""

    def fit(self, X, y, sample_weight=None, *, qid=None):
        rows = np.zeros(0 if y is None else len(np.asarray(y))) if qid is None else qid
        return super().fit(X, y, sample_weight, qid=rows)

    def score(self, X, y, sample_weight=None, *, qid=None):
        return super().score(X, y, sample_weight, qid=np.zeros(len(y)) if qid is None else qid)


@parametrize_with_checks([OneList(n_estimators=15, n_jobs=1)])
def test_scikit_learn_conventions(estimator, check) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def ranker() -> HedgerowRanker:
    return HedgerowRanker(**SHORT).fit(X, Y, qid=QID)


def test_score_is_mean_ndcg(ranker) -> None:
    prediction = ranker.predict(X)
    expected = np.mean(
        [naive.ndcg(Y[query == QID], prediction[query == QID]) for query in np.unique(QID)]
    )
    assert ranker.score(X, Y, qid=QID) == pytest.approx(expected, rel=1e-12)
    one = ranker.score(X, Y, qid=np.zeros(len(Y)))
    assert one == pytest.approx(naive.ndcg(Y, prediction), rel=1e-12)
    weight = (QID % 2).astype(float)
    odd = QID % 2 == 1
    found = ranker.score(X, Y, weight, qid=QID)
    assert found == pytest.approx(ranker.score(X[odd], Y[odd], qid=QID[odd]), rel=1e-12)


# -- queries --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "object", "float", "date", "category", "polars", "bool"])
def test_names_of_queries_have_no_part_in_the_model(kind, ranker) -> None:
    pandas = pytest.importorskip("pandas")
    names = np.random.default_rng(2).permutation(len(np.unique(QID)))[QID]
    if kind == "bool":
        code = QID % 2
        one, other = (HedgerowRanker(**SHORT).fit(X, Y, qid=q) for q in (code, code == 0))
        assert model_bytes(one) == model_bytes(other)
        return
    given = {
        "text": np.array([f"query {name}" for name in names]),
        "object": [("q", int(name)).__repr__() if name % 2 else int(name) for name in names],
        "float": names / 7.0 - 3.0,
        "date": np.datetime64("2020-01-01") + names,
        "category": pandas.Series([f"q{name}" for name in names], dtype="category"),
        "polars": names,
    }[kind]
    if kind == "polars":
        polars = pytest.importorskip("polars")
        given = polars.Series([f"q{name}" for name in names]).cast(polars.Categorical)
    assert model_bytes(HedgerowRanker(**SHORT).fit(X, Y, qid=given)) == model_bytes(ranker)


@pytest.mark.parametrize("objective", RANKING)
def test_order_of_queries_changes_nothing_but_draws(objective) -> None:
    """Queries are moved, or their rows are scattered: gradients depend on each query only."""
    order = np.random.default_rng(3).permutation(len(Y))  # rows of a query change places, too
    moved = np.concatenate([np.flatnonzero(q == QID) for q in np.unique(QID)[::-1]])
    fitted = HedgerowRanker(**SHORT, objective=objective).fit(X, Y, qid=QID)
    again = HedgerowRanker(**SHORT, objective=objective).fit(X[moved], Y[moved], qid=QID[moved])
    if objective != "rank_xendcg":
        assert model_bytes(again) == model_bytes(fitted)
    apart = HedgerowRanker(**SHORT, objective=objective).fit(X[order], Y[order], qid=QID[order])
    assert apart.score(X, Y, qid=QID) > 0.8


@pytest.mark.parametrize("objective", ["lambdarank", "rank_map", "rank_pairwise"])
def test_weight_k_is_a_query_repeated_k_times(objective) -> None:
    times = 1 + QID % 3
    rows = np.repeat(np.arange(len(Y)), times)
    copy = np.concatenate([np.arange(t) for t in times])
    settings = {"objective": objective, "n_estimators": 3, "min_samples_leaf": 1, "max_leaves": 6}
    weighted = HedgerowRanker(**settings).fit(X, Y, times.astype(float), qid=QID)
    several = HedgerowRanker(**settings).fit(X[rows], Y[rows], qid=QID[rows] * 10 + copy)
    np.testing.assert_allclose(several.predict(X), weighted.predict(X), rtol=1e-6, atol=1e-8)


def test_without_qid_there_is_an_error_that_shows_it(ranker) -> None:
    with pytest.raises(DataError, match=r"fit\(..., qid=...\) takes one value for each row"):
        HedgerowRanker(**SHORT).fit(X, Y)
    with pytest.raises(DataError, match=r"qid_val is missing: fit\(..., qid_val=...\)"):
        HedgerowRanker(**SHORT).fit(X, Y, qid=QID, X_val=X, y_val=Y)
    with pytest.raises(DataError, match=r"score\(..., qid=...\)"):
        ranker.score(X, Y)
    with pytest.raises(DataError, match=r"fit\(..., qid=...\)"):
        cross_fit(HedgerowRanker(**SHORT), X, Y)
    HedgerowRanker(**SHORT).fit(X, Y, qid=np.zeros(len(Y)))


# -- validation rows --------------------------------------------------------------


def test_early_stopping_sets_whole_queries_aside() -> None:
    seen = []

    def spy(y_true, prediction, weight) -> float:
        seen.append(y_true.copy())
        return float(-len(seen))

    HedgerowRanker(
        **SHORT, early_stopping=True, validation_fraction=0.2, eval_metric=[spy, "ndcg@5"]
    ).fit(X, Y, qid=QID)
    kept = [query for query in np.unique(QID) if _holds(seen[0], Y[query == QID])]
    assert len(seen[0]) == round(0.2 * 80) * 12
    assert len(kept) >= 16
    renamed = np.array([f"q{q}" for q in QID])
    one, other = (
        HedgerowRanker(**SHORT, early_stopping=True).fit(X, Y, qid=q) for q in (QID, renamed)
    )
    assert model_bytes(one) == model_bytes(other)


def _holds(long, short) -> bool:
    return any(
        np.array_equal(long[at : at + len(short)], short) for at in range(0, len(long), len(short))
    )


@pytest.mark.parametrize("name", ["ndcg@5", "map", "mrr", "precision@3", "err@4", "loss"])
def test_curves_are_those_of_the_validation_queries(name) -> None:
    other_x, other_y, other_qid = make_queries(n_queries=20, seed=6)
    model = HedgerowRanker(**SHORT, eval_metric=name)
    model.fit(X, Y, qid=QID, X_val=other_x, y_val=other_y, qid_val=other_qid)
    last = model.evals_result_["validation"][name][model.n_iter_ - 1]
    queries = query_rows(other_qid, len(other_qid))
    prediction = model.predict(other_x)
    if name == "loss":
        expected = 1.0 - ranking_metric("ndcg@30").of_queries(queries)(other_y, prediction)
    else:
        expected = ranking_metric(name).of_queries(queries)(other_y, prediction)
    assert last == pytest.approx(expected, rel=1e-9)
    assert model.best_iteration_ == model.n_iter_


def test_metrics_take_the_gains_of_the_loss() -> None:
    gains = (0.0, 1.0, 2.0, 3.0, 4.0)
    model = HedgerowRanker(**SHORT, eval_metric="ndcg@5", label_gain=list(gains))
    model.fit(X, Y, qid=QID)
    metric = ranking_metric("ndcg@5", gains).of_queries(query_rows(QID, len(QID)))
    curve = model.evals_result_["train"]["ndcg@5"]
    assert curve[-1] == pytest.approx(metric(Y, model.predict(X)), rel=1e-9)
    assert model.score(X, Y, qid=QID) > 0.8


# -- scikit-learn -----------------------------------------------------------------


def test_search_and_cross_validation_know_the_queries() -> None:
    with config_context(enable_metadata_routing=True):
        grid = GridSearchCV(
            HedgerowRanker(**SHORT), {"max_leaves": [4, 15]}, cv=GroupKFold(3), n_jobs=1
        )
        grid.fit(X, Y, qid=QID, groups=QID)
        scores = cross_validate(
            clone(grid.best_estimator_), X, Y, cv=GroupKFold(3), params={"qid": QID, "groups": QID}
        )
    assert grid.best_score_ == pytest.approx(scores["test_score"].mean(), rel=1e-12)
    parts = []
    for rows, aside in GroupKFold(3).split(X, Y, QID):
        model = clone(grid.best_estimator_).fit(X[rows], Y[rows], qid=QID[rows])
        parts.append(model.score(X[aside], Y[aside], qid=QID[aside]))
    np.testing.assert_array_equal(parts, scores["test_score"])


def test_search_without_routing_gives_qid_to_fit() -> None:
    grid = GridSearchCV(HedgerowRanker(**SHORT), {"max_leaves": [4, 15]}, cv=3)
    with pytest.warns(UserWarning, match=r"score\(..., qid=...\)"):  # no fold can be scored
        grid.fit(X, Y, qid=QID)
    assert grid.best_estimator_.score(X, Y, qid=QID) > 0.8


# -- files ------------------------------------------------------------------------


def test_a_checkpoint_is_of_its_queries_and_its_loss(tmp_path) -> None:
    arguments = {"checkpoint": tmp_path / "c", "checkpoint_every": 0.0}
    HedgerowRanker(**SHORT).fit(X, Y, qid=QID, **arguments)
    with pytest.raises(Exception, match="qid has changed"):
        HedgerowRanker(**SHORT).fit(X, Y, qid=QID // 2, **arguments)
    with pytest.raises(Exception, match="truncation_level was None and is 5"):
        HedgerowRanker(**SHORT, truncation_level=5).fit(X, Y, qid=QID, **arguments)


# -- train, modes, tables -----------------------------------------------------------


def test_train_is_the_same_model(ranker) -> None:
    params = {**SHORT, "objective": "lambdarank"}
    booster = train(params, Dataset(X, Y, qid=QID))
    assert model_to_bytes(booster.model) == model_bytes(ranker)
    valid = Dataset(*make_queries(seed=7)[:2], qid=make_queries(seed=7)[2])
    watched = train({**params, "eval_metric": "ndcg@10"}, Dataset(X, Y, qid=QID), valid)
    assert len(watched.evals_result["validation"]["ndcg@10"]) == 6
    with pytest.raises(DataError, match="qid is missing"):
        train(params, Dataset(X, Y))
    with pytest.raises(DataError, match=r"validation rows, .* but qid is missing"):
        train(params, Dataset(X, Y, qid=QID), Dataset(X, Y))
    with pytest.raises(ParameterError, match="qid has no effect with objective 'squared_error'"):
        train({"n_estimators": 1}, Dataset(X, Y, qid=QID))


# -- what is refused ------------------------------------------------------------------


@pytest.mark.parametrize("objective", RANKING)
def test_rows_in_batches_need_queries(objective) -> None:
    data = Dataset.from_batches(lambda: iter([(X, Y)]))
    with pytest.raises(DataError, match=f"objective {objective!r}.* qid is missing"):
        train({"objective": objective}, data)


@pytest.mark.parametrize(
    ("qid", "error", "message"),
    [
        (QID[:-1], DataError, "qid has 959 values for 960 rows"),
        (np.full(80, 12), DataError, "look like sizes of groups"),
        (np.where(QID == 3, np.nan, QID), DataError, "missing in 12 of 960 rows, the first is row"),
        ([None if q == 3 else str(q) for q in QID], DataError, "the first is row 36"),
        (np.column_stack([QID, QID]), DataError, "qid should be a 1d array"),
        ([[] if q == 3 else 1 for q in QID], (DataTypeError, ValueError), "qid|array"),
    ],
)
def test_wrong_queries_are_refused(qid, error, message) -> None:
    with pytest.raises(error, match=message):
        HedgerowRanker(**SHORT).fit(X, Y, qid=qid)


def test_unhashable_names_are_refused() -> None:
    names = np.empty(2, dtype=object)
    names[:] = [{}, {1: 2}]
    with pytest.raises(DataTypeError, match="qid must hold numbers or text"):
        read_qid(names, 2)
    assert read_qid(np.array([[4], [4], [1]]), 3).tolist() == [0, 0, 1]


def test_queries_of_one_row_are_worth_a_warning() -> None:
    with pytest.warns(UserWarning, match="each of the 960 queries in qid has one row"):
        model = HedgerowRanker(**SHORT).fit(X, Y, qid=np.arange(len(Y)))
    assert not model.predict(X).any()


@pytest.mark.parametrize("equal", ["one row", "equal targets"])
def test_advice_for_queries_without_pairs_is_not_to_scale_their_grades(equal: str) -> None:
    qid = np.arange(len(Y)) if equal == "one row" else Y
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HedgerowRanker(**SHORT).fit(X, Y, qid=qid)
    said = " ".join(str(each.message) for each in caught)
    assert "Only rows of one query whose targets differ can be ranked" in said
    assert "Multiply" not in said


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({"objective": "squared_error"}, {}, "objective of a HedgerowRanker must be one of"),
        ({"oob_score": True, "subsample": 0.5}, {}, "out-of-bag rows are parts of"),
        ({"leaf_estimation": "line_search"}, {}, "no loss per leaf"),
        ({"eval_metric": "rmse"}, {}, "ranking"),
        ({"eval_metric": "ndgc@5"}, {}, "known: 'loss', 'ndcg'"),
        ({"truncation_level": 2.5}, {}, "truncation_level must be an integer"),
        ({"early_stopping": True}, {"qid": np.zeros(len(Y))}, "but there is only one"),
        ({}, {"qid_val": QID}, "qid_val is given without X_val"),
        ({}, {"X_val": X, "y_val": Y}, "qid_val is missing"),
        ({}, {"X_val": X, "y_val": Y, "qid": None, "qid_val": QID}, "qid is missing"),
    ],
)
def test_what_cannot_be_done_is_refused(settings, arguments, message) -> None:
    with pytest.raises((ParameterError, DataError), match=message):
        HedgerowRanker(**{**SHORT, **settings}).fit(X, Y, **{"qid": QID, **arguments})


@pytest.mark.parametrize("objective", RANKING)
def test_wrong_labels_are_refused(objective) -> None:
    wrong = np.where(np.arange(len(Y)) == 17, 1.5, Y)
    with pytest.raises(DataError, match=r"row 17 holds 1\.5"):
        HedgerowRanker(**SHORT, objective=objective).fit(X, wrong, qid=QID)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HedgerowRanker(**SHORT, objective=objective).fit(X, np.where(Y > 1, 800.0, 0.0), qid=QID)


# -- weights of queries ------------------------------------------------------------


def test_weights_of_queries_are_those_of_their_rows() -> None:
    rng = np.random.default_rng(4)
    order = rng.permutation(len(Y))
    x, y, qid = X[order], Y[order], np.array([f"q{q}" for q in QID])[order]
    by_name = {f"q{q}": w for q, w in enumerate(rng.uniform(0.5, 2.0, 80))} | {"unknown": 1.0}
    by_name["q3"] = 0.0
    _, first = np.unique(qid, return_index=True)
    in_order = [by_name[query] for query in qid[np.sort(first)]]
    rows = np.array([by_name[query] for query in qid])
    fits = [HedgerowRanker(**SHORT).fit(x, y, weight, qid=qid) for weight in (rows, in_order)]
    assert len({model_bytes(fit) for fit in fits}) == 1
    assert model_bytes(fits[0]) != model_bytes(HedgerowRanker(**SHORT).fit(x, y, qid=qid))
    scores = {fits[0].score(x, y, weight, qid=qid) for weight in (rows, in_order)}
    assert len(scores) == 1
    params = {"objective": "lambdarank", "eval_metric": "auc", **SHORT}
    valid = [
        train(params, Dataset(x, y, weight, qid=qid), Dataset(x, y, weight, qid=qid))
        for weight in (rows, in_order)
    ]
    assert len({model_to_bytes(booster.model) for booster in valid}) == 1
    assert len({str(booster.evals_result) for booster in valid}) == 1
    scored = valid[0].evals_result["validation"]["auc"]
    assert 0.5 < scored[0] < scored[-1] < 1.0


def test_weights_for_other_numbers_of_queries_are_refused() -> None:
    with pytest.raises(DataError, match="79 values for 960 rows of 80 queries"):
        HedgerowRanker().fit(X, Y, np.ones(79), qid=QID)
    with pytest.raises(DataError, match="must not be negative"):
        HedgerowRanker().fit(X, Y, -np.ones(80), qid=QID)
    with pytest.raises(DataTypeError, match="must be an array"):
        HedgerowRanker().fit(X, Y, {0: 1.0}, qid=QID)


def test_a_ranker_that_knows_nothing_scores_the_same_in_any_order() -> None:
    """Best rows first in each query: ties in the order of the table would be perfect."""
    found, nothing, names = [], np.zeros_like(X), ["ndcg", "map@3", "err"]
    best_first = np.lexsort((-Y, QID))
    for rows in (best_first, best_first[::-1]):
        known = {"X_val": nothing, "y_val": Y[rows], "qid_val": QID[rows]}
        model = HedgerowRanker(**SHORT, eval_metric=names, early_stopping=False)
        model.fit(nothing, Y[rows], qid=QID[rows], **known)
        curves = model.evals_result_["validation"]
        score = model.score(nothing, Y[rows], qid=QID[rows])
        found.append([score, *(curves[name][-1] for name in names)])
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[0][0] == pytest.approx(found[0][1], rel=1e-12)
    assert found[0][0] < 0.9
