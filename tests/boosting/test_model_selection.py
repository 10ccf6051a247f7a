"""Cross-validation chooses between settings, in large steps."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hedgerow
from hedgerow import FoldsWarning, HedgerowClassifier, HedgerowRegressor
from hedgerow.boosting.automatic import model_selection as selection_module
from hedgerow.boosting.automatic.defaults import choose
from hedgerow.boosting.automatic.evidence import Difference, warn_of_doubts
from hedgerow.boosting.automatic.model_selection import ModelSelection, of_folds
from hedgerow.boosting.automatic.recipe import FEWEST_ROWS, DataSize, candidates_for, plain_values
from hedgerow.boosting.loop.driver import FitOptions, FitPlan
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.resolved import resolve, resolve_strategy
from hedgerow.boosting.validation import cross as cross_module
from hedgerow.boosting.validation import stopping as stops
from hedgerow.boosting.validation.cross import FoldRows
from hedgerow.boosting.validation.folds import draw_folds
from hedgerow.boosting.validation.stopping import BestRound, Candidate, Search, StoppingParams
from hedgerow.data import read_any
from hedgerow.io import model_to_bytes
from hedgerow.metrics import make_metrics
from hedgerow.model.model import Model
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers.fitting import fit_sample

SQUARES = make_objective("squared_error")
LOSS = make_metrics(None, SQUARES)[0]
STUMPS = BoostParams(n_estimators=60, learning_rate=0.1, max_leaves=2, min_samples_leaf=5)
LARGER = replace(STUMPS, max_leaves=8)
LEVELS = replace(STUMPS, grow_policy="symmetric", max_leaves=None, max_depth=3)


@pytest.fixture(scope="module")
def sample() -> Sample:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=300)  # stumps cannot tell it
    return Sample(read_any(X), y)


def fitted(sample: Sample, params: BoostParams, *others: Candidate, **search: Any) -> Model:
    return fit_sample(sample, SQUARES, params, FitOptions(searching(*others, **search)))


def searching(*others: Candidate, patience: int = 12, **search: Any) -> StoppingParams:
    return StoppingParams("cv", patience=patience, search=Search(candidates=others, **search))


def scores(model: Model) -> list[float]:
    return [entry["score"] for entry in model.training["folds"]["tried"]]


@pytest.mark.parametrize("cautious", [False, True])
def test_the_best_of_all_settings_is_trained(sample: Sample, cautious: bool) -> None:
    settings = {"is_cautious": cautious}
    alone = [fitted(sample, params, **settings) for params in (STUMPS, LARGER, LEVELS)]
    model = fitted(sample, STUMPS, Candidate(LARGER), Candidate(LEVELS), **settings)
    best = min(range(3), key=lambda i: scores(alone[i])[0])
    assert best != 0
    if not cautious:  # whose curves are not followed to the end if they are far off
        assert scores(model) == [scores(one)[0] for one in alone]
    record = model.training["folds"].pop("tried")
    assert record[1]["max_leaves"] == 8
    assert record[2]["grow_policy"] == "symmetric"
    assert "max_leaves" not in record[0]
    alone[best].training["folds"].pop("tried")
    assert model_to_bytes(model) == model_to_bytes(alone[best])


def test_of_equal_settings_the_first_wins(sample: Sample) -> None:
    # No node has so many rows, so that the limit changes nothing.
    same = replace(STUMPS, min_child_weight=1e-2)
    model = fitted(sample, STUMPS, Candidate(same))
    assert len(set(scores(model))) == 1
    assert model.training["parameters"]["min_child_weight"] == STUMPS.min_child_weight


def test_a_metric_of_the_user_decides(sample: Sample) -> None:
    stopping = searching(Candidate(LARGER), Candidate(LEVELS))
    model = fit_sample(sample, SQUARES, STUMPS, FitOptions(stopping, eval_metric="r2"))
    tried = scores(model)
    assert tried[0] < max(tried)  # a greater one is better
    best = model.training["folds"]["tried"][int(np.argmax(tried))]
    assert model.training["parameters"]["grow_policy"] == best.get("grow_policy", "leafwise")
    assert max(model.training["history"]["cv"]["r2"]) == max(tried)


@pytest.mark.parametrize("stride", [1.0, 2.0, 3.0])
def test_a_stride_is_a_larger_rate_of_the_folds(sample: Sample, stride: float) -> None:
    model = fitted(sample, LARGER, stride=stride)
    large = replace(LARGER, learning_rate=0.1 * stride, n_estimators=math.ceil(60 / stride))
    stopping = StoppingParams("cv", patience=math.ceil(12 / stride))
    by_hand = fit_sample(sample, SQUARES, large, FitOptions(stopping))
    assert model.training["history"] == by_hand.training["history"]
    n_rounds = by_hand.forest.n_rounds
    assert model.forest.n_rounds == min(60, round(n_rounds * stride))
    assert model.training["parameters"]["learning_rate"] == 0.1
    assert of_folds(LARGER, 1.0) is LARGER


@pytest.mark.parametrize(("easy", "times"), [(1000, 1.0), (50, None), (1, 3.0)])
def test_a_long_way_is_gone_in_larger_steps(sample: Sample, easy: int, times: float | None) -> None:
    many = replace(LARGER, n_estimators=600)
    plain = fitted(sample, many, stride=3.0)
    model = fitted(sample, many, stride=3.0, easy_rounds=easy)
    n_rounds = plain.forest.n_rounds
    times = times or round(math.sqrt(n_rounds / easy), 2)
    assert model.forest.n_rounds == round(n_rounds / times)
    assert 20 <= model.forest.n_rounds <= n_rounds
    rate = model.training["parameters"]["learning_rate"]
    assert rate == pytest.approx(0.1 * times)
    assert model.training["folds"]["stride"] == round(3.0 / times, 3)
    assert model.training["history"] == plain.training["history"]
    by_hand = replace(many, learning_rate=rate, n_estimators=model.forest.n_rounds)
    alone = fit_sample(sample, SQUARES, by_hand, FitOptions(StoppingParams(False)))
    assert np.array_equal(alone.forest.value, model.forest.value)


@pytest.mark.parametrize("room", [0, 2_000])
def test_scores_of_folds_that_are_not_kept_are_added_up_again(
    sample: Sample, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """The scores of the best round show whether it is better than chance."""
    search = {"is_cautious": True, "stride": 2.0}
    plain = fitted(sample, LEVELS, Candidate(LARGER), **search)
    monkeypatch.setattr(cross_module, "_RECENT_BYTES", room)
    assert model_to_bytes(fitted(sample, LEVELS, Candidate(LARGER), **search)) == model_to_bytes(
        plain
    )


def test_a_model_at_its_most_rounds_was_not_stopped(sample: Sample) -> None:
    few = replace(LARGER, n_estimators=12)
    model = fitted(sample, few, stride=2.0, easy_rounds=1)
    # The loss of the folds fell to the last of their six rounds, so the model goes twice as far.
    assert model.forest.n_rounds == 12
    assert model.training["parameters"]["learning_rate"] == 0.2
    assert model.training["stopped_by"] == "rounds"


@pytest.mark.parametrize("n_cities", [300, 40])
def test_statistics_of_folds_are_binned_alike_beside_integers_and_floats(n_cities: int) -> None:
    # A column of int64 makes a table of keys; the statistics of a fold are floats nevertheless.
    rng = np.random.default_rng(3)
    numbers, cities = rng.integers(0, 50, 4_000), rng.integers(0, n_cities, 4_000)
    y = rng.normal(size=n_cities)[cities] + 0.1 * numbers
    params = replace(resolve_strategy(resolve(LARGER, SQUARES), SQUARES), target_statistics=True)
    found = []
    for values in (numbers.astype(np.int64), numbers.astype(np.float64)):
        frame = pd.DataFrame({"number": values, "city": pd.Categorical(cities)})
        rows = FoldRows(Sample(read_any(frame), y), SQUARES, params, 1)
        data = rows.fold(draw_folds(y, 5, False, 0)[0])
        seen, unseen = data.seen.matrix, data.unseen[0].matrix
        of_statistic = seen.spec.cut_keys[seen.spec.cut_start[1] :]
        found.append((of_statistic, seen.by_row, unseen.by_row))
    assert len(found[0][0]) >= 30
    for of_integers, of_floats in zip(*found, strict=True):
        np.testing.assert_array_equal(of_integers, of_floats)


# -- how long a curve is followed ---------------------------------------------


def test_patience_that_is_given_is_had() -> None:
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    alone = {"max_leaves": 4, "extra_trees": False, "n_jobs": 1}
    for patience in (9, 90):
        model = HedgerowRegressor(patience=patience, **alone).fit(X, y)
        first, *others = model.chosen_params_["tried"]
        assert others == []
        curve = model.evals_result_["cv"]["loss"]
        assert len(curve) - first["rounds"] == patience / 3
    automatic = HedgerowRegressor(**alone).fit(X, y)
    curve = automatic.evals_result_["cv"]["loss"]
    assert len(curve) - automatic.chosen_params_["tried"][0]["rounds"] < 10


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=200), st.integers(1, 40))
def test_a_contender_is_a_best_round_that_may_end_earlier(
    curve: list[float], patience: int
) -> None:
    usual = BestRound(LOSS, patience, 0.0)
    candidate = BestRound(LOSS, patience, 0.0, least=5)
    for n, score in enumerate(curve, 1):
        ended, early = usual.observe(n, score), candidate.observe(n, score)
        assert (candidate.round, candidate.score) == (usual.round, usual.score)
        waited = n - usual.round
        assert early == (ended or waited >= 5 + 0.2 * usual.round)
        if early:
            break


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=100),
    st.integers(1, 40),
    st.integers(1, 20),
    st.sampled_from([(), (0.3,)]),
)
def test_no_round_before_the_next_end_ends_the_fit(
    curve: list[float], patience: int, judged_from: int, rival: tuple[float, ...]
) -> None:
    judged = {"least": 5, "rival": rival, "judged_from": judged_from}
    candidate = BestRound(LOSS, patience, 0.0, **judged)
    for best in (BestRound(LOSS, patience, 0.0), candidate):
        for n, score in enumerate(curve, 1):
            next_end = best.next_end(n - 1)
            assert next_end >= n
            # Later comparisons with a rival may end the fit in any round.
            compared = best is candidate and rival and n > judged_from
            if best.observe(n, score):
                assert compared or next_end == n
                break


def rounds_followed(curve: Callable[[int], float], **judged: Any) -> int:
    candidate = BestRound(LOSS, 60, 0.0, least=10, **judged)
    return next((n for n in range(1, 1_000) if candidate.observe(n, curve(n))), 1_000)


def test_curves_that_are_far_off_are_not_followed() -> None:
    def rounds(curve: Callable[[int], float], *rival: float) -> int:
        return rounds_followed(curve, rival=rival)

    def slow(n: int) -> float:
        return 1.0 + 1.0 / n

    assert rounds(slow, 0.5) == 40  # as early as possible
    assert 250 < rounds(slow, 0.999) < 350
    assert rounds(slow) == rounds(slow, 1.5) == 1_000
    assert rounds(lambda n: max(1.0 - 0.02 * n, 0.35), 0.3) > 45  # it was still falling
    assert rounds(lambda n: 1.0 + 0.01 * n, 0.9) == 12  # out of patience


def test_a_test_on_one_fold_ends_with_its_answer() -> None:
    """The answer equals that of the full test, and needs fewer rounds if it is yes."""

    def falling(n: int) -> float:
        return 1.0 + 1.0 / n

    assert rounds_followed(falling, rival=(1.125,), to_beat=1.125) == 9
    for rival in (1.125, 1.9, 0.5):
        tests = [
            BestRound(LOSS, 60, 0.0, least=10, rival=(rival,), to_beat=to_beat)
            for to_beat in (rival, None)
        ]
        for test in tests:
            any(test.observe(n, falling(n)) for n in range(1, 500))
        assert len({LOSS.improves(test.score, rival) for test in tests}) == 1


def test_curves_behind_at_equal_rounds_are_not_followed() -> None:
    def rival(n: int) -> float:
        return 0.5 + 1.0 / n

    judged = {"rival": [rival(n) for n in range(1, 301)], "judged_from": 24, "farthest": 0.0}
    assert rounds_followed(lambda n: rival(n) + 1e-9, **judged) == 24
    assert rounds_followed(lambda n: rival(n) + (1e-9 if n < 20 else 0.0), **judged) == 1_000
    assert rounds_followed(lambda n: rival(n) + 1e-4 * (n - 60), **judged) == 61
    # The best score counts: one round in which the curve rises does not end it.
    bumpy = [rival(n) - 0.01 + 0.1 * (n == 50) for n in range(1, 100)]
    assert rounds_followed(lambda n: bumpy[n - 1] if n < 99 else math.inf, **judged) > 99


@pytest.mark.parametrize(("n_wrong", "tries"), [(0, False), (4, True)])
def test_nothing_else_is_tried_if_hardly_any_loss_is_left(n_wrong: int, tries: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[:, 0] = rng.integers(0, 2, 400)
    y = X[:, 0] == 1.0
    y[:n_wrong] = ~y[:n_wrong]
    model = HedgerowClassifier(random_state=0, n_jobs=1).fit(X, y)
    tried = model.chosen_params_["tried"]
    assert (len(tried) > 1) == tries
    assert (tried[0]["score"] < 1e-3 * math.log(2.0)) != tries


def test_a_slow_learner_is_found_abreast(sample: Sample) -> None:
    params = resolve_strategy(resolve(replace(LARGER, n_estimators=600), SQUARES), SQUARES)
    slow = replace(params, reg_lambda=40.0)
    folds = draw_folds(sample.target, 5, False, 0)
    found = {}
    for at_equal_rounds in (False, True):
        how = {"is_cautious": True, "at_equal_rounds": at_equal_rounds}
        stopping = searching(Candidate(slow), patience=60, **how)
        rows = FoldRows(sample, SQUARES, params, 1)
        plan = FitPlan(SQUARES, params, stopping, (LOSS,), folds=folds)
        found[at_equal_rounds] = ModelSelection(plan, rows)
        found[at_equal_rounds].choose()
    assert (
        found[False].entries[1].tracker.round == 40
    )  # far from the best score of the first settings
    assert found[False].best.params == params
    assert found[True].best.params == slow
    assert found[True].best.tracker.score < found[False].best.tracker.score


# -- what is tried ------------------------------------------------------------


def test_alternatives_have_only_parameters_that_are_free() -> None:
    sizes = [
        DataSize(n, 5, n_outputs, levels, squares, dense, dense)
        for n in (50, 150, 5_000, 50_000)
        for n_outputs in (1, 3, 20)
        for levels in (0, 3, 100)
        for squares in (False, True)
        for dense in (False, True)
        if n_outputs == 1 or not squares
    ]
    for size in sizes:
        params = replace(BoostParams(), max_leaves=8)
        found = candidates_for(size, params)
        assert size.n_rows >= FEWEST_ROWS or not found
        assert found or not 100 < size.n_rows < 3_000
        by_levels = any(values.get("grow_policy") == "symmetric" for values in found)
        assert by_levels or not size.by_levels or size.squares or size.n_rows < 3_000
        for values in found:
            if values.pop("lead", None) is not None:
                continue
            assert set(values) <= set(plain_values()) | {"max_depth"}
            assert dense_only(values) <= size.by_levels
        assert ({"max_cat_to_onehot": 254} in found) <= (size.most_levels > 4)


def dense_only(values: dict[str, Any]) -> bool:
    return values.get("grow_policy") == "symmetric" or values.get("linear_leaves", False)


def tried_with(automatic: set[str], **settings: Any) -> list[BoostParams]:
    size = DataSize(500, 4, 1, 9, True, True, True)
    params = BoostParams(**settings)
    stopping = choose(params, StoppingParams(), frozenset(automatic), SQUARES, size, False)[1]
    return [other.params for other in stopping.search.candidates if not other.is_sieved]


@pytest.mark.parametrize("params", [{}, {"max_leaves": 12}, {"grow_policy": "leafwise"}])
def test_many_classes_also_try_symmetric_trees_and_few_columns(params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(9), 30)
    X = rng.normal(size=(270, 4)) + y[:, None] * rng.normal(size=(9, 4))[y] / 3
    model = HedgerowClassifier(random_state=0, n_jobs=1, **params).fit(X, y)
    tried = model.chosen_params_["tried"]
    levels = [entry for entry in tried if entry.get("grow_policy") == "symmetric"]
    narrow = [entry for entry in tried if entry.get("colsample_bynode") == 0.3]
    assert (len(levels), len(narrow)) == (0 if params else 1, 0 if "max_leaves" in params else 2)


def test_explicit_values_are_in_all_alternatives() -> None:
    every = set(plain_values())
    assert len(tried_with(every)) == 5
    drawn, ones = tried_with(every - {"max_leaves"}, max_leaves=5)
    assert drawn.max_leaves == ones.max_leaves == 5
    assert drawn.extra_trees
    assert ones.max_cat_to_onehot == 254
    best_cuts = tried_with(every - {"extra_trees"}, extra_trees=False)
    assert [other.extra_trees for other in best_cuts] == [False, False]
    columns = tried_with(every - {"colsample_bynode"}, colsample_bynode=0.5)
    assert {other.colsample_bynode for other in columns} == {0.5}
    constrained = tried_with(every, monotone_constraints={0: 1})
    assert {other.grow_policy for other in constrained} == {"leafwise"}
    assert not any(other.linear_leaves for other in constrained)


def test_chosen_params_tell_what_was_tried() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(400, 3))
    y = (np.sin(3 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=400) > 0).astype(int)
    model = HedgerowClassifier(random_state=0).fit(X, y)
    tried = model.chosen_params_["tried"]
    (best,) = [entry for entry in tried if entry.get("chosen")]
    assert best["score"] == min(entry["score"] for entry in tried)
    for name in set(best) - {"score", "rounds", "weight", "chosen"}:
        assert model.chosen_params_[name] == best[name]
    assert min(model.evals_result_["cv"]["loss"]) == best["score"]
    assert len(model.evals_result_["cv"]["loss"]) >= best["rounds"]
    json.dumps(tried)
    few = HedgerowClassifier(random_state=0).fit(X[:90], y[:90])
    assert len(few.chosen_params_["tried"]) == 1


# -- the plain settings --------------------------------------------------------


@pytest.mark.parametrize("is_sieved", [True, False])
def test_settings_that_must_lead_are_taken_if_they_are_clearly_better(
    sample: Sample, is_sieved: bool
) -> None:
    found = [fitted(sample, STUMPS, Candidate(LARGER, lead, is_sieved)) for lead in (1.0, 1e6)]
    leaves = [model.training["parameters"]["max_leaves"] for model in found]
    assert leaves == [LARGER.max_leaves, STUMPS.max_leaves]
    assert len(scores(found[0])) == 2
    assert scores(found[0]) == scores(found[1])


def test_plain_settings_that_are_behind_on_the_first_fold_are_not_grown_on_others(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = []
    real = selection_module.grow_folds

    def spy(plan: Any, rows: Any, folds: Any, stopping: Any) -> Any:
        grown.append(len(folds))
        return real(plan, rows, folds, stopping)

    monkeypatch.setattr(selection_module, "grow_folds", spy)
    model = fitted(sample, LARGER, Candidate(STUMPS, 1.0, is_sieved=True))
    assert grown == [5, 1]
    assert len(scores(model)) == 1
    del grown[:]
    fitted(sample, STUMPS, Candidate(LARGER, 1.0, is_sieved=True))
    assert grown == [5, 1, 5]


def reported(mean: float, n_rows: int = 50) -> Difference:
    return Difference(mean, 0.1, n_rows)


def test_folds_that_contradict_each_other_are_reported() -> None:
    rng = np.random.default_rng(0)
    group, X = rng.integers(0, 6, 600), rng.normal(size=(600, 3))
    y = 3.0 * np.where(group < 5, 1.0, -1.0) * X[:, 0] + 0.3 * rng.normal(size=600)
    with pytest.warns(FoldsWarning, match="worse than a constant|contradict each other"):
        HedgerowRegressor(n_jobs=1).fit(X, y, groups=group)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HedgerowRegressor(n_jobs=1).fit(X, y)
        HedgerowRegressor(n_jobs=1).fit(X, rng.normal(size=600), groups=group)
        warn_of_doubts(reported(-0.3), [reported(-0.3), reported(2.0)])
        warn_of_doubts(reported(-0.5, 10), [reported(-0.5, 10), reported(2.0)])
    with pytest.warns(FoldsWarning, match=r"the loss is 0.5 higher \(standard error 0.1\)"):
        warn_of_doubts(reported(-0.5), [reported(-0.5)])
    by_fold = [reported(mean) for mean in (1.0, -0.5, 0.1, -0.6)]
    with pytest.warns(FoldsWarning, match=r"rows of fold 0, and raise it on those of fold 1, 3"):
        warn_of_doubts(reported(0.2), by_fold)


# -- ends before all are tried ------------------------------------------------


def selection_of(sample: Sample, budget: stops.Budget | None = None) -> ModelSelection:
    params = resolve_strategy(resolve(LARGER, SQUARES), SQUARES)
    others = tuple(resolve(other, SQUARES) for other in (STUMPS, LEVELS))
    stopping = searching(*map(Candidate, others))
    rows = FoldRows(sample, SQUARES, params, 1)
    folds = draw_folds(sample.target, 5, False, 0)
    found = ModelSelection(FitPlan(SQUARES, params, stopping, (LOSS,), folds=folds), rows, budget)
    found.choose()
    return found


def test_alternatives_are_tried_while_there_is_time(sample: Sample) -> None:
    assert len(selection_of(sample).entries) == 3
    assert len(selection_of(sample, stops.Budget(3600.0, 0.0, clock=lambda: 0.0)).entries) == 3
    spent = selection_of(sample, stops.Budget(1.0, 0.0, clock=lambda: 1.0))
    assert len(spent.entries) == 1
    assert spent.entries[0].tracker.round == 4  # those of the first batch


def test_a_budget_leaves_the_model_its_time(sample: Sample) -> None:
    """Five fits of four fifths of the rows take 0.8 of the time, of which 0.95 are for rounds."""
    for clock, n_tried in ((0.75, 3), (0.77, 1)):
        budget = stops.Budget(1.0, 0.0, clock=iter([0.0, 0.0, *[clock] * 1_000]).__next__)
        assert len(selection_of(sample, budget).entries) == n_tried


def test_folds_that_cannot_be_drawn_try_nothing() -> None:
    table = read_any(np.arange(4.0)[:, None])
    sample = Sample(table, np.arange(4.0), group=np.zeros(4, np.uint64))
    stopping = searching(Candidate(LARGER), is_cautious=True)
    rows = FoldRows(sample, SQUARES, STUMPS, 1)
    found = ModelSelection(FitPlan(SQUARES, STUMPS, stopping, (LOSS,)), rows).choose()
    assert found.params is STUMPS
    assert "tried" not in found.record


USER_PARAMS: list[dict[str, Any]] = [
    {"grow_policy": "depthwise"},
    {"grow_policy": "symmetric"},
    {"multi_strategy": "multi_output_tree"},
    {"linear_leaves": True},
    {"max_depth": 3},
    {"max_leaves": 5},
    {"max_leaves": None, "max_depth": 4},
    {"interaction_constraints": [[0, 1], [2, 3]]},
    {"feature_penalties": {0: 0.5}},
    {"bundle_features": True},
    {"target_statistics": True, "categorical_features": [3]},
    {"max_cat_to_onehot": 30, "categorical_features": [3]},
    {"advanced": {"max_conflict_rate": 0.1}},
    {"min_samples_leaf": 100},
    {"max_bins_by_feature": {0: 4}},
]


@pytest.mark.fast(15)
@pytest.mark.parametrize("n_classes", [2, 3, 9])
@pytest.mark.parametrize("params", USER_PARAMS, ids=str)
def test_candidates_are_compatible_with_the_users_parameters(
    params: dict[str, Any], n_classes: int
) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(160, 4))
    X[:, 3] = rng.integers(0, 9, 160)
    y = np.argsort(np.argsort(X[:, 0] + 0.3 * rng.normal(size=160))) * n_classes // 160
    kind = HedgerowClassifier
    if n_classes == 2 and "multi_strategy" in params:
        kind, y = HedgerowRegressor, np.column_stack([X[:, 0], X[:, 1]])
    model = kind(**params, n_jobs=2).fit(X, y)
    found = model.booster_.model.training["parameters"]
    for name, value in (params | params.get("advanced", {})).items():
        assert isinstance(value, list | dict) or found.get(name, value) == value
    settled = "max_leaves" in params or params.get("grow_policy") == "symmetric"
    tried = [one for one in model.chosen_params_["tried"] if "feature_crosses" not in one]
    assert settled != any("max_leaves" in one for one in tried)


def test_a_default_fit_takes_few_frames_to_the_trees() -> None:
    """Each layer between ``fit`` and the compiled trees is one more to read."""
    root, deepest = Path(hedgerow.__file__).parent, 0

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal deepest
        if event == "call" and frame.f_code.co_name in ("_run", "grow_rounds"):
            names = []
            while frame is not None:
                names.append(frame.f_code.co_filename)
                frame = frame.f_back
            deepest = max(deepest, sum(name.startswith(str(root)) for name in names))

    X = np.random.default_rng(0).normal(size=(150, 3))
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        HedgerowRegressor(n_jobs=1).fit(pd.DataFrame(X), X[:, 0])
    finally:
        sys.setprofile(before)
    assert 0 < deepest <= 13
