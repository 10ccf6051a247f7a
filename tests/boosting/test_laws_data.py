"""Laws that every fit obeys on every path of data through it.

A *path* is a kind of table and its settings: categories, sparse tables, bundles, row samples
by gradients, and options of columns.

Laws that hold on some paths only:

* Row samples are drawn by the position of a row (``"subsample"``, ``"goss"``,
  ``"mvs"``), so the order of rows and a row repeated k times keep them on average
  only: ``test_goss.py`` compares rows and weights with the definition.
* Ordered target statistics (``docs/categories.md``) depend on the order of the rows,
  of two equal rows the second knows the first, and a training row is scored by the
  rows before it; serving knows them all.
* Rows set aside for early stopping are drawn by position, too.
* ``min_samples_leaf``, ``cat_smooth``, ``min_data_per_group`` and
  ``max_conflict_rate`` count rows: weight k is k rows where they decide nothing.
* What a node has not seen goes with the side of more rows, counted, not weighed:
  so weight k is k rows for values that were seen.
* MVS evens out the weights of rows whose gradients have one size (absolute error,
  quantiles), so that many cuts tie but for rounding, and a factor on all weights
  that is no power of two may choose another of them.
* With ``max_conflict_rate`` above 0 training sees a table with values left out, and
  prediction the whole one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.boosting.loop import scored
from hedgerow.boosting.validation.stopping import rows_aside
from hedgerow.data import drop_unused_levels, read_any
from hedgerow.errors import HedgerowError
from hedgerow.io import model_to_bytes
from tests.helpers.examples import examples

NO_PENALTY = {
    "reg_lambda": 0.0, "reg_alpha": 0.0, "gamma": 0.0, "min_child_weight": 0.0,
    "cat_l2": 0.0, "cat_smooth": 0.0,
}  # fmt: skip
STOP = {"early_stopping": True, "n_estimators": 12, "patience": 3, "validation_fraction": 0.2}

seeds = st.integers(0, 2**32 - 1)
policies = st.sampled_from([{}, {"grow_policy": "depthwise", "max_leaves": None, "max_depth": 3}])


# -- tables -----------------------------------------------------------------------------


def mixed(rng, n, n_levels=12):
    """Return columns of numbers and of text, both with missing values."""
    size, age = rng.normal(size=(2, n))
    size[rng.random(n) < 0.1] = np.nan
    colour = rng.choice(np.array(["red", "green", "blue", None], dtype=object), n)
    town = np.array([f"t{k:03d}" for k in rng.integers(0, n_levels, n)], dtype=object)
    town[rng.random(n) < 0.05] = None
    return {"size": size, "age": age, "colour": colour, "town": town}


def many(rng, n):
    """Return more levels than bins, each in at least one row."""
    table = mixed(rng, n)
    table["town"][:290] = [f"t{k:03d}" for k in range(290)]
    return table


def plain(rng, n):
    """Return numbers with missing values."""
    values = rng.normal(size=(n, 4))
    values[rng.random((n, 4)) < 0.1] = np.nan
    return values


def keyed(rng, n):
    """Return named numbers, 64-bit keys and narrow floats."""
    return {
        "key": 2**60 + rng.integers(0, 30, n),
        "code": rng.integers(0, 9, n).astype(np.int16),
        "rate": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 5, n) / 4),
        "size": rng.normal(size=n).astype(np.float32),
    }


def scattered(rng, n):
    """Return sparse columns with conflicts; some stored entries are zeros and NaN."""
    values = rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0, np.nan], (n, 12))
    held = rng.random((n, 12)) < 0.3
    rows, columns = np.nonzero(held)
    return sparse.csr_array((values[held], (rows, columns)), shape=(n, 12))


def indicators(rng, n):
    """Return one-hot columns of three categories, without conflicts, and a column of counts."""
    parts = [np.eye(k)[rng.integers(0, k, n)] for k in (5, 9, 14)]
    counts = rng.poisson(0.2, (n, 1)) * (parts[0][:, :1] == 0)
    return sparse.csc_array(np.hstack([*parts, counts]))


def meeting(rng, n):
    """Return sparse columns with few conflicts."""
    return sparse.csr_array(np.where(rng.random((n, 20)) < 0.04, rng.integers(1, 4, (n, 20)), 0.0))


@dataclass(frozen=True)
class Path:
    """A path of data through a fit.

    make    table of n rows
    params  of the fit
    data    further arguments of the Dataset
    n_rows  rows that show what is meant
    sampled, conflicts  see the module's text
    dense   whether the table is given dense
    """

    make: Callable[[Any, int], Any] = mixed
    params: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    n_rows: int = 300
    objectives: tuple[str, ...] = (
        "squared_error", "absolute_error", "quantile", "logistic", "softmax",
    )  # fmt: skip
    dense: bool = False

    @property
    def sampled(self) -> bool:
        return self.params.get("subsample", 1.0) < 1.0 or "sampling" in self.params

    @property
    def ordered(self) -> bool:
        return self.params.get("target_statistics", self.make is many) is not False

    @property
    def conflicts(self) -> bool:
        return "max_conflict_rate" in self.params

    def table(self, rng, n=None):
        made = self.make(rng, self.n_rows if n is None else n)
        return made.toarray() if self.dense else made


LIGHT = {"cat_smooth": 2.0, "cat_l2": 1.0, "min_data_per_group": 5}
ONE_OUTPUT = ("squared_error", "absolute_error", "quantile", "logistic")
GOSS = {"sampling": "goss", "goss_top_rate": 0.3, "goss_other_rate": 0.3}
MVS = {"sampling": "mvs", "subsample": 0.5}
PATHS = {
    "numbers": Path(plain),
    "levels": Path(),
    "levels, guards low": Path(params=LIGHT),
    "levels one by one": Path(params={"max_cat_to_onehot": 20}),
    "many levels": Path(
        many,
        {"min_data_per_group": 1, "cat_smooth": 1.0, "target_statistics": False},
        n_rows=600,
    ),
    "statistics": Path(many, n_rows=600),
    "statistics, backoff": Path(
        params={**LIGHT, "target_statistics": True, "statistics_order": 1},
        data={"unknown_category": "backoff"},
    ),
    "statistics, constrained": Path(
        params={
            "target_statistics": True,
            "monotone_constraints": {"size": 1},
            "interaction_constraints": [["size", "town"], ["age", "town", "colour"]],
            "feature_penalties": {"town": 0.7},
            "max_bins_by_feature": {"colour": 5},
        },
        objectives=ONE_OUTPUT,
    ),
    "statistics, goss": Path(params={"target_statistics": True, **GOSS}),
    "backoff": Path(params=LIGHT, data={"unknown_category": "backoff"}),
    "error": Path(params=LIGHT, data={"unknown_category": "error"}),
    "named numbers": Path(keyed, LIGHT, {"categorical_features": ["code", "rate"]}),
    "rows sampled": Path(params={**LIGHT, "subsample": 0.6}),
    "goss": Path(params={**LIGHT, **GOSS}),
    "mvs": Path(params={**LIGHT, **MVS}),
    "monotone": Path(
        params={**LIGHT, "monotone_constraints": {"size": 1, "age": -1}}, objectives=ONE_OUTPUT
    ),
    "interactions": Path(
        params={**LIGHT, "interaction_constraints": [["size", "town"], ["age", "town", "colour"]]}
    ),
    "penalties": Path(params={**LIGHT, "feature_penalties": {"size": 0.3, "town": 0.7}}),
    "forced bins": Path(params={"forced_bins": {"size": [-0.5, 0.25]}, "max_bins": 8}),
    "bins by feature": Path(params={**LIGHT, "max_bins_by_feature": {"size": 4, "town": 6}}),
    "sparse": Path(scattered),
    "sparse as dense": Path(scattered, dense=True),
    "zeros missing": Path(scattered, {"zero_as_missing": True}),
    "zeros missing, dense": Path(scattered, {"zero_as_missing": True}, dense=True),
    "bundles": Path(indicators),
    "bundles by degree": Path(indicators, {"bundle_order": "degree"}),
    "bundles, zeros missing": Path(indicators, {"zero_as_missing": True}),
    "no bundles": Path(indicators, {"bundle_features": False}),
    "dense bundles": Path(indicators, {"bundle_features": True}, dense=True),
    "conflicts": Path(meeting, {"max_conflict_rate": 0.05}),
    "conflicts of one": Path(
        meeting, {"max_conflict_rate": 0.02, "bundle_conflicts": "max", "bundle_order": "degree"}
    ),
    "bundles, goss": Path(indicators, GOSS),
    "bundles, mvs": Path(indicators, MVS),
    "bundles, constrained": Path(
        indicators,
        {
            "monotone_constraints": {"x0": 1, "x28": -1},
            "interaction_constraints": [[0, 1, 2, 28], list(range(2, 29))],
            "feature_penalties": {3: 0.5},
            "forced_bins": {"x28": [0.5]},
        },
        objectives=ONE_OUTPUT,
    ),
}  # fmt: skip


def paths_where(wanted):
    """Run a law on some paths; a fast run takes numbers, and half of the others for each law."""

    def marked(law):
        chosen = [name for name, path in PATHS.items() if wanted(path)]
        first = len(law.__name__) % 2
        return pytest.mark.parametrize(
            "path",
            [
                pytest.param(
                    PATHS[name],
                    id=name,
                    marks=pytest.mark.slow if k % 2 and name != "numbers" else (),
                )
                for k, name in enumerate(chosen, first)
            ],
        )(law)

    return marked


every_path = paths_where(lambda path: True)


def n_rows_of(X):
    return X.shape[0] if not isinstance(X, dict) else len(next(iter(X.values())))


def take(X, rows):
    """Return some rows of a table of any kind."""
    if isinstance(X, dict):
        return {name: column[rows] for name, column in X.items()}
    return X.tocsr()[rows].asformat(X.format) if sparse.issparse(X) else X[rows]


def join(X, other):
    """Return the rows of two tables, one below the other."""
    if isinstance(X, dict):
        return {name: np.concatenate([X[name], other[name]]) for name in X}
    if sparse.issparse(X):
        return sparse.vstack([X, other], format=X.format)
    return np.vstack([X, other])


def strangers(X, rng, n):
    """Return rows with levels, values and entries that no other row has."""
    if not isinstance(X, dict):
        dense = rng.normal(0, 100, (n, X.shape[1]))
        return type(X)(dense) if sparse.issparse(X) else dense
    made = take(X, rng.integers(0, n_rows_of(X), n))
    for name, column in made.items():
        if column.dtype == object:
            made[name] = np.array([f"~{k}" for k in rng.integers(0, 40, n)], dtype=object)
        elif column.dtype.kind == "f":
            made[name] = (100 * rng.normal(size=n)).astype(column.dtype)
        else:
            made[name] = rng.integers(100, 200, n).astype(column.dtype)
    return made


def numbers(X):
    """Return the table as floats, with the index of each level."""
    if not isinstance(X, dict):
        return np.nan_to_num(X.toarray() if sparse.issparse(X) else X)
    columns = []
    for column in X.values():
        if column.dtype == object:
            _, column = np.unique([str(value) for value in column], return_inverse=True)
        columns.append(np.nan_to_num(column.astype(float)))
    return np.column_stack(columns)


def target_of(X, objective, rng, grid=None):
    """Return targets that the columns explain in part."""
    found = numbers(X)
    found = (found - found.mean(axis=0)) / (found.std(axis=0) + 1e-9)
    y = np.sin(2 * found) @ rng.normal(size=found.shape[1]) + 0.4 * rng.normal(size=len(found))
    if objective in ("logistic", "softmax"):
        n_classes = 2 if objective == "logistic" else 3
        y = np.argsort(np.argsort(y)) * n_classes // len(y)
    return np.round(grid * y) / grid if grid and objective not in ("logistic", "softmax") else y


def n_outputs(objective):
    return 3 if objective == "softmax" else 1


def fit(path, X, y, objective, weight=None, offset=None, valid=None, spy=None, **params):
    """Train on a path; ``spy`` records the raw scores of training after each round."""
    given_ = {
        "n_estimators": 5, "max_leaves": 8, "min_samples_leaf": 5, "n_jobs": 1,
        "early_stopping": False, **path.params, **params,
    }  # fmt: skip
    if objective == "quantile":
        given_["quantile"] = 0.7
    data = Dataset(X, y, weight, offset, **path.data)
    if spy is None:
        return train({"objective": objective, **given_}, data, valid)
    evaluate, evaluate_rounds = scored.evaluate, scored.evaluate_rounds

    def watch(metrics, objective_, target, raw, weight_):
        spy.append(raw.copy())
        return evaluate(metrics, objective_, target, raw, weight_)

    def watch_rounds(metrics, target, raw, weight_):
        spy.extend(raw[:, number].copy() for number in range(raw.shape[1]))
        return evaluate_rounds(metrics, target, raw, weight_)

    with (
        mock.patch.object(scored, "evaluate", watch),
        mock.patch.object(scored, "evaluate_rounds", watch_rounds),
    ):
        return train({"objective": objective, "eval_metric": "loss", **given_}, data, valid)


def raw(booster, X):
    return booster.raw_scores(X, n_jobs=1)


def content(booster):
    return model_to_bytes(booster.model)


def sample(path, objective, seed, grid=None):
    rng = np.random.default_rng(seed)
    X = path.table(rng)
    return rng, X, target_of(X, objective, rng, grid)


def an_objective(data, path):
    return data.draw(st.sampled_from(path.objectives), label="objective")


# -- weights --------------------------------------------------------------------------------


@every_path
@given(st.data(), seeds, st.sampled_from(["none", "automatic", "given"]), policies)
@settings(max_examples=examples(4))
def test_weight_zero_is_an_absent_row(path, data, seed, stopping, policy) -> None:
    objective = an_objective(data, path)
    rng, X, y = sample(path, objective, seed)
    n_strange = 60
    places = rng.permutation(len(y) + n_strange)
    mixed_up = np.empty(len(places), dtype=np.int64)  # the rows that count keep their order
    mixed_up[np.sort(places[:n_strange])] = len(y) + np.arange(n_strange)
    mixed_up[np.sort(places[n_strange:])] = np.arange(len(y))
    weight = rng.choice([1.0, 2.5], len(y))

    def with_strangers(X, y, weight, known=False):
        """Insert rows of weight 0; the other rows keep their order."""
        strange = take(X, np.arange(n_strange)) if known else strangers(X, rng, n_strange)
        X = take(join(X, strange), mixed_up)
        y = np.append(y, rng.choice(y, n_strange))[mixed_up]
        return X, y, np.append(weight, np.zeros(n_strange))[mixed_up]

    valid = valid_more = None
    if stopping == "given":
        again = rng.permutation(len(y))
        of_valid = take(X, again), y[again], weight
        # An error about an unknown value looks at every row of a validation table.
        known = path.data.get("unknown_category") == "error"
        valid, valid_more = Dataset(*of_valid), Dataset(*with_strangers(*of_valid, known))
    more = {**policy, **({} if stopping == "none" else STOP)}
    a = fit(path, X, y, objective, weight, None, valid, **more)
    X_more, y_more, weight_more = with_strangers(X, y, weight)
    b = fit(path, X_more, y_more, objective, weight_more, None, valid_more, **more)
    assert content(a) == content(b)


@paths_where(lambda path: not (path.sampled or path.conflicts or path.ordered))
@given(st.data(), seeds, st.booleans())
@settings(max_examples=examples(4))
def test_weight_k_is_a_row_repeated_k_times(path, data, seed, watched) -> None:
    objective = an_objective(data, path)
    rng, X, y = sample(path, objective, seed)
    times = rng.integers(1, 5, len(y))
    repeated = np.repeat(np.arange(len(y)), times)
    # Gradients that differ: equal ones make cuts that tie but for rounding.  Where the
    # slope of the loss is constant it takes weights to tell them apart.
    offset = rng.normal(size=(len(y), n_outputs(objective)))
    constant = objective in ("absolute_error", "quantile")
    one = rng.uniform(0.5, 2, len(y)) if constant else np.ones(len(y))
    params = {
        "min_samples_leaf": 1, "min_child_weight": 2.0, "max_leaves": 6,
        "min_data_per_group": 1, "cat_smooth": 0.0,
    }  # fmt: skip
    once, again = (X, y, times * one, offset), (
        take(X, repeated), y[repeated], one[repeated], offset[repeated],
    )  # fmt: skip
    validation = [None, None]
    if watched:
        params |= STOP
        validation = [Dataset(*once), Dataset(*again)]
    a, b = (
        fit(path, X, y, objective, weight, offset, valid, **params)
        for (X, y, weight, offset), valid in zip((once, again), validation, strict=True)
    )
    assert a.num_rounds == b.num_rounds
    np.testing.assert_allclose(raw(a, X), raw(b, X), rtol=0, atol=1e-6)


@every_path
@given(st.data(), seeds, st.integers(-40, 40), policies)
@settings(max_examples=examples(4))
def test_common_power_of_two_on_weights_changes_no_bit(path, data, seed, power, policy) -> None:
    objective = an_objective(data, path)
    rng, X, y = sample(path, objective, seed)
    weight = rng.uniform(0.5, 2, len(y))
    params = {**NO_PENALTY, **policy}
    a = fit(path, X, y, objective, weight, **params)
    b = fit(path, X, y, objective, weight * 2.0**power, **params)
    np.testing.assert_array_equal(raw(a, X), raw(b, X))


@every_path
def test_common_factor_on_weights_changes_nothing(path) -> None:
    for number, objective in enumerate(path.objectives[::2]):
        if path.params.get("sampling") == "mvs" and objective in ("absolute_error", "quantile"):
            continue  # cuts tie, see above
        rng, X, y = sample(path, objective, number)
        weight = rng.uniform(0.5, 2, len(y))
        offset = rng.normal(size=(len(y), n_outputs(objective)))
        params = {**NO_PENALTY, "min_samples_leaf": 15}
        a = fit(path, X, y, objective, weight, offset, **params)
        factor = (1e-12, 1.7)[number % 2]
        b = fit(path, X, y, objective, weight * factor, offset, **params)
        np.testing.assert_allclose(raw(a, X), raw(b, X), rtol=0, atol=1e-6)


# -- training and serving agree ---------------------------------------------------------------


@every_path
@given(st.data(), seeds, policies, st.booleans())
@settings(max_examples=examples(8))
def test_scores_of_rows_that_do_not_train_are_predictions(path, data, seed, policy, given_) -> None:
    objective = an_objective(data, path)
    rng, X, y = sample(path, objective, seed)
    kept: list[Any] = []
    lenient = path
    if given_:
        rows = rng.integers(0, len(y), 100)
        X_val, y_val = take(X, rows), y[rows]
        if path.data.get("unknown_category") != "error":
            X_val, y_val = join(X_val, strangers(X, rng, 30)), np.append(y_val, rng.choice(y, 30))
        valid = Dataset(X_val, y_val)
    else:
        stratify = objective in ("logistic", "softmax")
        aside = rows_aside(y, STOP["validation_fraction"], stratify, 0)
        X_val, valid = take(X, np.flatnonzero(aside)), None
        if path.data.get("unknown_category") == "error":
            lenient = Path(path.make, path.params, {})  # a prediction would refuse such rows
    booster = fit(lenient, X, y, objective, valid=valid, spy=kept, **STOP, **policy)
    stages = booster.staged_raw_scores(X_val, n_jobs=1)
    assert kept
    for scores, predicted in zip(kept, stages, strict=False):
        np.testing.assert_array_equal(scores, predicted)


@paths_where(lambda path: path.make in (mixed, many, keyed))
@given(st.data(), seeds)
@settings(max_examples=examples(4))
def test_columns_of_a_frame_come_in_any_order(path, data, seed) -> None:
    objective = an_objective(data, path)
    rng, X, y = sample(path, objective, seed)
    booster = fit(path, X, y, objective)
    names = rng.permutation(list(X)).tolist()
    other = {name: X[name] for name in names}
    np.testing.assert_array_equal(raw(booster, other), raw(booster, X))
    rows = [{name: X[name][row] for name in names} for row in range(20)]
    np.testing.assert_array_equal(raw(booster, rows), raw(booster, X)[:, :20])


@paths_where(lambda path: not (path.sampled or path.ordered))
@given(st.data(), seeds, policies)
@settings(max_examples=examples(4))
def test_rows_in_any_order_make_the_same_model(path, data, seed, policy) -> None:
    objective = an_objective(data, path)
    rng, X, y = sample(path, objective, seed, grid=64)
    X, y = take(X, np.arange(256)), y[:256]  # the base score is then exact
    order = rng.permutation(256)
    a = fit(path, X, y, objective, **policy)
    b = fit(path, take(X, order), y[order], objective, **policy)
    assert content(a) == content(b)


def test_zeros_of_either_sign_are_one_target() -> None:
    X = np.arange(20.0)[:, None] % 5
    for objective in ("absolute_error", "quantile", "squared_error"):
        files = set()
        for zeros in ([0.0, -0.0], [-0.0, 0.0], [0.0, 0.0]):
            y = np.concatenate([np.repeat([-1.0, 1.0], 5), zeros * 5])
            files.add(content(fit(Path(), X, y, objective)))
        assert len(files) == 1


# -- levels by value -----------------------------------------------------------------------------


def renamed(column, names):
    """Rename the levels of the column."""
    return np.array([None if value is None else names[value] for value in column], dtype=object)


@paths_where(lambda path: path.make in (mixed, many))
@given(st.data(), seeds)
@settings(max_examples=examples(4))
def test_new_names_in_the_same_order_change_nothing(path, data, seed) -> None:
    objective = an_objective(data, path)
    rng, X, y = sample(path, objective, seed)
    levels = sorted({value for value in X["town"] if value is not None})
    steps = np.cumsum(rng.integers(1, 9, len(levels)))
    whole = dict(zip(levels, steps.tolist(), strict=True))
    new = {
        "text": {level: f"{number:09d}~" for level, number in whole.items()},
        "whole": whole,
        "halves": {level: number / 2 - 40 for level, number in whole.items()},
    }[data.draw(st.sampled_from(["text", "whole", "halves"]))]
    other = {**X, "town": renamed(X["town"], new)}
    named = Path(path.make, path.params, {**path.data, "categorical_features": ["town", "colour"]})
    a, b = fit(path, X, y, objective), fit(named, other, y, objective)
    np.testing.assert_array_equal(raw(a, X), raw(b, other))


# -- failed fits ---------------------------------------------------------------------------------

GOOD = {
    "size": np.arange(60.0) % 7,
    "age": np.arange(60.0) % 11,
    "colour": np.array(["red", "green", "blue"] * 20, dtype=object),
}
GOOD_Y = np.arange(60) % 2


def twice_named():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(np.zeros((60, 3)), columns=["size", "age", "size"])


def with_column(name, values):
    return {**GOOD, name: np.array(values, dtype=object)}


SPARSE_GOOD = sparse.csr_array(np.eye(60)[:, :8])
BAD = {
    "mixed types": (lambda: with_column("colour", ["red", 1] * 30), {}, {}, ["'colour'", "mixes"]),
    "two of a name": (twice_named, {}, {}, ["names", "size"]),
    "no categories": (lambda: GOOD, {"categorical_features": None}, {}, ["'colour'"]),
    "unknown in validation": (
        lambda: GOOD, {"unknown_category": "error"},
        {"X_val": {**GOOD, "colour": ["red"] * 59 + ["lilac"]}, "y_val": GOOD_Y},
        ["'colour'", "'lilac'", "row 59"],
    ),
    "text in validation": (
        lambda: GOOD, {}, {"X_val": {**GOOD, "age": ["old"] * 60}, "y_val": GOOD_Y},
        ["'age'", "text"],
    ),
    "column not in validation": (
        lambda: GOOD, {},
        {"X_val": {"size": [1.0] * 60, "colour": ["red"] * 60}, "y_val": GOOD_Y},
        ["missing", "age"],
    ),
    "monotone category": (
        lambda: GOOD, {"monotone_constraints": {"colour": 1}}, {},
        ["monotone_constraints", "'colour'"],
    ),
    "forced category": (
        lambda: GOOD, {"forced_bins": {"colour": [1.0]}}, {}, ["forced_bins", "'colour'"]
    ),
    "sparse categories": (
        lambda: SPARSE_GOOD, {"categorical_features": [1]}, {}, ["'x1'", "category"]
    ),
    "sparse, no column": (
        lambda: SPARSE_GOOD, {"monotone_constraints": {"x8": 1}}, {},
        ["monotone_constraints", "'x8'"],
    ),
    "sparse text": (
        lambda: SPARSE_GOOD.astype(complex), {}, {}, ["omplex"]
    ),
    "sparse exact": (lambda: SPARSE_GOOD, {"tree_method": "exact"}, {}, ["tree_method", "exact"]),
    "exact categories": (
        lambda: GOOD, {"tree_method": "exact"}, {}, ["tree_method", "'colour'"]
    ),
    "bundled categories": (
        lambda: GOOD, {"bundle_features": True}, {}, ["bundle_features", "'colour'"]
    ),
    "statistics of nothing": (
        lambda: SPARSE_GOOD, {"target_statistics": True}, {}, ["target_statistics"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_a_failed_fit_leaves_all_as_it_was(case) -> None:
    make, params, more, words = case
    estimator = HedgerowRegressor(n_estimators=2, n_jobs=1).fit(GOOD, GOOD_Y)
    expected = estimator.predict(GOOD)
    estimator.set_params(**params)
    names = ("categorical_features", "unknown_category")
    data = Dataset(make(), GOOD_Y, **{name: params[name] for name in names if name in params})
    valid = Dataset(more["X_val"], more["y_val"]) if more else None
    params = {name: value for name, value in params.items() if name not in names}

    def train_on_data() -> None:
        train({"n_estimators": 2, "n_jobs": 1, **params}, data, valid)

    for owner, call in (
        (estimator, lambda: estimator.fit(make(), GOOD_Y, **more)),
        (data, train_on_data),
    ):
        before = dict(vars(owner))
        with pytest.raises(HedgerowError) as caught:
            call()
        for word in words:
            assert word in str(caught.value)
        assert list(vars(owner)) == list(before)
        assert all(vars(owner)[name] is before[name] for name in before)
    np.testing.assert_array_equal(estimator.predict(GOOD), expected)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 4)), min_size=1), seeds)
def test_of_too_many_levels_the_heaviest_stay(rows, seed) -> None:
    levels = np.array([level for level, _ in rows], dtype=object)
    weight = np.array([times for _, times in rows], dtype=float)
    table = read_any({"level": levels})
    repeated = read_any({"level": np.repeat(levels, weight.astype(int))})
    expected = drop_unused_levels(repeated, 3).schema
    assert drop_unused_levels(table, 3, weight).schema == expected
    assert drop_unused_levels(table, 3, weight * 2.0**-40).schema == expected
    order = np.random.default_rng(seed).permutation(len(rows))
    assert drop_unused_levels(table.take(order), 3, weight[order]).schema == expected
