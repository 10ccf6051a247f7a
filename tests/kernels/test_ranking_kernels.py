"""Derivatives and scores of rankings equal their naive twins."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels.ranking import QueryRows, make_space, sort_descending
from hedgerow.metrics.queries import first_seen, query_rows
from hedgerow.metrics.ranking import ranking_metric
from hedgerow.objectives import make_objective
from hedgerow.objectives.base import LossRows
from tests.reference import naive_ranking as naive

RNG = np.random.default_rng(5)
KINDS = {"lambdarank": "ndcg", "rank_map": "map", "rank_pairwise": "plain"}


def queries_of(seed: int, sizes=(1, 2, 3, 7, 40, 5, 4), labels: int = 4):
    """Return codes, labels and scores of queries in a mixed order, with ties in both."""
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    target = rng.integers(0, labels, len(code)).astype(float)
    target[code == len(sizes) - 1] = 2.0  # all the same
    raw = np.round(rng.normal(size=len(code)), 1)
    return code, target, raw


def untied(raw):
    """Return scores in the same order, without equal ones."""
    return raw + 1e-6 * RNG.permutation(len(raw))


def derivatives(objective, code, target, raw, *, seed=3, round_=0, n_threads=1):
    bound = objective.of_queries(query_rows(code, len(code)), seed, n_threads)
    g, h = np.empty((2, len(code)))
    bound.bound_to(target, None).derivatives(LossRows(target, raw[None], None, round_), 0, g, h)
    return g, h


@given(st.lists(st.integers(-3, 3) | st.floats(-5, 5), min_size=1, max_size=200))
def test_sort_is_stable_and_descending(values) -> None:
    score = np.array(values, dtype=float)
    order, spare = np.empty((2, len(score)), dtype=np.int64)
    sort_descending(score, len(score), order, spare)
    assert order.tolist() == naive.ranking(score.tolist())


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"truncation_level": 3},
        {"sigmoid": 2.5, "normalize_pairs": False},
        {"pair_method": "mean", "pairs_per_row": 2},
        {"pair_method": "mean", "normalize_pairs": False},
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_pairs_have_the_derivatives_of_their_twin(name, parameters, seed) -> None:
    if name == "rank_pairwise":
        parameters = {k: v for k, v in parameters.items() if k != "normalize_pairs"}
    code, target, raw = queries_of(seed)
    objective = make_objective(name, parameters=parameters)
    g, h = derivatives(objective, code, target, raw, round_=seed)
    for query in np.unique(code):
        rows = np.flatnonzero(code == query)
        values = target[rows]
        if name == "lambdarank":
            values = 2.0**values - 1.0
        if name == "rank_map":
            values = (values > 0).astype(int)
        expected = naive.pair_gradients(
            KINDS[name],
            values.tolist(),
            raw[rows].tolist(),
            most=objective.most,
            sigmoid=parameters.get("sigmoid", 1.0),
            normalize=name != "rank_pairwise" and parameters.get("normalize_pairs", True),
            rows=rows,
            drawn=parameters.get("pairs_per_row", 1) if "pair_method" in parameters else 0,
            seed=3,
            round_=seed,
        )
        np.testing.assert_allclose(g[rows], expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(h[rows], np.maximum(expected[1], 1e-16), rtol=1e-9, atol=1e-12)
    assert np.abs(g).max() > 0.0


def test_cross_entropy_has_the_derivatives_of_its_twin() -> None:
    code, target, raw = queries_of(4)
    g, h = derivatives(make_objective("rank_xendcg"), code, target, raw, seed=9, round_=2)
    for query in np.unique(code):
        rows = np.flatnonzero(code == query)
        noise = naive.noise_of(rows, 9, 2)
        expected = naive.cross_entropy_gradients(target[rows], raw[rows], noise)
        np.testing.assert_allclose(g[rows], expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(h[rows], np.maximum(expected[1], 1e-16), rtol=1e-9)


def slope_by_differences(loss, raw, step=1e-5):
    found = np.empty(len(raw))
    for i in range(len(raw)):
        up, down = raw.copy(), raw.copy()
        up[i] += step
        down[i] -= step
        found[i] = (loss(up) - loss(down)) / (2 * step)
    return found


@pytest.mark.parametrize("sigmoid", [1.0, 0.5])
def test_pairwise_derivatives_are_slopes_of_the_loss(sigmoid) -> None:
    code, target, raw = queries_of(6)
    objective = make_objective("rank_pairwise", parameters={"sigmoid": sigmoid})
    g, _ = derivatives(objective, code, target, raw)
    bound = objective.of_queries(query_rows(code, len(code)))
    n_rows = sum(
        len(rows)
        for rows in (np.flatnonzero(code == query) for query in np.unique(code))
        if len(set(target[rows])) > 1
    )
    slope = slope_by_differences(lambda at: bound.loss(target, at[None], None), raw)
    np.testing.assert_allclose(g, n_rows * slope, atol=1e-6)
    total = sum(
        naive.pair_loss(target[code == query], raw[code == query], sigmoid) for query in set(code)
    )
    assert bound.loss(target, raw[None], None) == pytest.approx(total / n_rows, rel=1e-12)


@pytest.mark.parametrize("name", [*KINDS, "rank_xendcg"])
def test_nothing_to_learn_gives_no_gradient(name) -> None:
    code = np.array([0, 1, 1, 1, 2])
    target = np.array([3.0, 1.0, 1.0, 1.0, 0.0])
    g, h = derivatives(make_objective(name), code, target, RNG.normal(size=5))
    assert not g.any()
    assert (h > 0.0).all()
    assert (h < 1e-15).all()


@pytest.mark.parametrize("name", [*KINDS, "rank_xendcg"])
@pytest.mark.parametrize("pair_method", ["topk", "mean"])
def test_threads_and_neighbours_change_no_bit(name, pair_method) -> None:
    if name == "rank_xendcg" and pair_method == "mean":
        return
    code, target, raw = queries_of(8, sizes=(50,) * 60 + (2000, 1))
    parameters = {} if pair_method == "topk" else {"pair_method": "mean", "pairs_per_row": 40}
    objective = make_objective(name, parameters=parameters)
    expected = derivatives(objective, code, target, raw)
    for n_threads in (2, 5):
        found = derivatives(objective, code, target, raw, n_threads=n_threads)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))
    renamed = first_seen(np.random.default_rng(0).permutation(1000)[code])
    found = derivatives(objective, renamed, target, raw)
    assert found[0].tobytes() == expected[0].tobytes()


# -- scores ----------------------------------------------------------------------

NAMES = ["ndcg", "ndcg@3", "ndcg@10", "map", "map@4", "mrr", "mrr@2", "precision@1", "precision@5"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_the_twin(name, weighted) -> None:
    code, target, raw = queries_of(11)
    raw = untied(raw)
    target[code == 2] = 0.0  # nothing relevant
    kind, _, most = name.partition("@")
    metric = ranking_metric(name).of_queries(query_rows(code, len(code)))
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(code)) if weighted else None
    found, mass = [], []
    for query in np.unique(code):
        rows = code == query
        found.append(naive.score_of(kind, target[rows], raw[rows], int(most) if most else None))
        mass.append(1.0 if weight is None else weight[rows].mean())
    assert metric(target, raw, weight) == pytest.approx(np.average(found, weights=mass), rel=1e-12)


@pytest.mark.parametrize("name", ["err", "err@3"])
def test_expected_reciprocal_rank(name) -> None:
    code, target, raw = queries_of(12)
    raw = untied(raw)
    most = 3 if "@" in name else None
    found = [
        naive.err(target[code == query], raw[code == query], target.max(), most)
        for query in np.unique(code)
    ]
    metric = ranking_metric(name).of_queries(query_rows(code, len(code)))
    assert metric(target, raw) == pytest.approx(np.mean(found), rel=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_auc_counts_pairs_of_each_query(ties) -> None:
    code, target, raw = queries_of(14, sizes=(1, 2, 3, 40, 17, 5))
    target[code == 2] = 1.0  # no pair
    raw = np.round(raw) if ties else raw
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(code))
    found, mass = [], []
    for query in np.unique(code):
        rows = code == query
        one = naive.pair_auc(target[rows], raw[rows])
        if one is not None:
            found.append(one)
            mass.append(weight[rows].mean())
    assert 2 <= len(found) < len(np.unique(code))
    metric = ranking_metric("auc").of_queries(query_rows(code, len(code)))
    assert metric(target, raw) == pytest.approx(np.mean(found), rel=1e-12)
    assert metric(target, raw, weight) == pytest.approx(np.average(found, weights=mass), rel=1e-12)


def test_auc_without_pairs_is_refused() -> None:
    with pytest.raises(DataError, match="in none of the 2 queries"):
        ranking_metric("auc").of_queries(query_rows(np.array([0, 0, 1]), 3))(np.ones(3), np.ones(3))
    for name, words in (("auc@5", "leave '@5' out"), ("auc-", "left out in any case")):
        with pytest.raises(ParameterError, match=words):
            ranking_metric(name)


LISTS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-1.0, 0.0, 0.5])), max_size=6)


@given(LISTS.filter(len), st.integers(1, 7), st.randoms())
def test_metrics_are_means_over_the_orders_of_ties(rows, most, random) -> None:
    """Not a bit depends on the order of the table, whichever order the ties have in it."""
    target, raw = np.array(rows, dtype=float).T
    best, every = np.sort(raw)[::-1], map(np.array, permutations(range(len(raw))))
    orders = [order for order in every if (raw[order] == best).all()]
    shuffled = random.sample(range(len(raw)), len(raw))
    for name in ("ndcg", "map", "mrr", "precision", "recall", "err"):
        for at in (None, most) if name not in ("precision", "recall") else (most,):
            metric = ranking_metric(name if at is None else f"{name}@{at}")
            found = metric(target, raw)
            listed = np.arange(len(raw), 0.0, -1.0)
            each = [naive.score_of(name, target[order], listed, at) for order in orders]
            assert found == pytest.approx(np.mean(each), rel=1e-12)
            assert metric(target[shuffled], raw[shuffled]) == found


def test_err_of_many_ties_needs_few_of_their_means() -> None:
    """The means of subsets are cut off where they no longer count, and no sooner."""
    target, n = RNG.integers(0, 5, 400).astype(float), 400
    orders = np.array([RNG.permutation(n) for _ in range(1000)])
    each = [naive.score_of("err", target[order], np.arange(n, 0.0, -1.0)) for order in orders]
    found = ranking_metric("err")(target, np.zeros(n))
    assert found == pytest.approx(np.mean(each), abs=4 * np.std(each) / np.sqrt(len(each)))
    few = np.zeros(n)
    few[7] = 1.0  # the chance is 1/2 at one of 400 ranks
    expected = 0.5 * np.mean(1.0 / np.arange(1, n + 1))
    assert ranking_metric("err")(few, np.zeros(n)) == pytest.approx(expected, rel=1e-12)


def test_weight_k_is_a_query_repeated_k_times() -> None:
    code, target, raw = queries_of(14)
    times = 1 + code % 3
    rows = np.repeat(np.arange(len(code)), times)
    copy = np.concatenate([np.arange(t) for t in times])
    several = query_rows(first_seen(code[rows] * 10 + copy), len(rows))
    for name in ("ndcg@5", "map", "err"):
        metric = ranking_metric(name)
        weighted = metric.of_queries(query_rows(code, len(code)))(target, raw, times.astype(float))
        assert weighted == pytest.approx(metric.of_queries(several)(target[rows], raw[rows]))
    for name in ("rank_pairwise", "rank_xendcg", "lambdarank", "rank_map"):
        objective = make_objective(name)
        one = objective.of_queries(query_rows(code, len(code)))
        found = one.loss(target, raw[None], times.astype(float))
        more = objective.of_queries(several).loss(target[rows], raw[None, rows], None)
        assert found == pytest.approx(more, rel=1e-12)


# -- queries and what is refused ----------------------------------------------------


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60))
def test_rows_of_queries(values) -> None:
    code = np.array(values)
    queries: QueryRows = query_rows(code, len(code))
    seen = list(dict.fromkeys(values))
    assert len(queries.starts) == len(seen) + 1
    for number, value in enumerate(seen):
        rows = queries.rows[queries.starts[number] : queries.starts[number + 1]]
        assert rows.tolist() == np.flatnonzero(code == value).tolist()
    assert make_space(queries).numbers.shape[1] == np.diff(queries.starts).max()


@pytest.mark.parametrize("label", [-1.0, 0.5, np.nan, np.inf, 901.0])
def test_labels_must_be_whole_numbers(label) -> None:
    target = np.array([0.0, 1.0, label, -7.0])
    with pytest.raises(DataError, match="row 2 holds"):
        make_objective("lambdarank").check_target(target)
    with pytest.raises(DataError, match="row 12 holds"):
        make_objective("rank_map").check_target(target, first_row=10)


def test_labels_need_gains() -> None:
    objective = make_objective("lambdarank", parameters={"label_gain": [0, 1, 3]})
    objective.check_target(np.array([0.0, 2.0]))
    with pytest.raises(DataError, match="row 1 has label 3: give more gains"):
        objective.check_target(np.array([0.0, 3.0]))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("lambdarank", {"truncation_level": 0}, "truncation_level must be an integer at least 1"),
        ("lambdarank", {"sigmoid": 0.0}, "sigmoid must be a number greater than 0"),
        ("lambdarank", {"pair_method": "all"}, "pair_method must be 'topk', 'mean'"),
        ("lambdarank", {"pairs_per_row": 2}, "pairs_per_row=2 has no effect here"),
        ("rank_map", {"pair_method": "mean", "truncation_level": 5}, "truncation_level=5 has no"),
        ("rank_map", {"normalize_pairs": 1}, "normalize_pairs must be True, False"),
        ("lambdarank", {"label_gain": [0, 2, 1]}, "non-decreasing"),
        ("lambdarank", {"label_gain": "012"}, "label_gain must be a non-decreasing sequence"),
        ("lambdarank", {"label_gain": []}, "label_gain must be a non-decreasing sequence"),
        ("rank_xendcg", {"sigmoid": 1.0}, "sigmoid=1.0 has no effect with objective 'rank_xendcg'"),
        ("squared_error", {"truncation_level": 5}, "has no effect with objective 'squared_error'"),
    ],
)
def test_parameters_are_checked(name, parameters, message) -> None:
    with pytest.raises(ParameterError, match=message):
        make_objective(name, parameters=parameters)


def test_precision_needs_a_number_of_rows() -> None:
    with pytest.raises(ParameterError, match="precision@10"):
        ranking_metric("precision")
    assert ranking_metric("ndcg@0") is None
    assert ranking_metric("rmse") is None


def test_saturated_scores_stay_finite() -> None:
    target = np.array([0.0, 1.0, 2.0, 0.0])
    raw = np.array([1e6, -1e6, 3.0, 0.0])
    for name in (*KINDS, "rank_xendcg"):
        g, h = derivatives(make_objective(name), np.zeros(4, np.int64), target, raw)
        assert np.isfinite(g).all()
        assert np.isfinite(h).all()
