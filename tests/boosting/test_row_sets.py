"""Several named validation sets, and scores of the training rows in the same fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import mean_absolute_error

from hedgerow import Dataset, HedgerowClassifier, HedgerowRanker, HedgerowRegressor, train
from hedgerow.boosting.row_data.dataset import validation_sets
from hedgerow.errors import DataError, DataTypeError, ParameterError

lightgbm = pytest.importorskip("lightgbm")


def make_rows(n_rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n_rows, 4))
    return X, X[:, 0] - X[:, 1] * X[:, 2] + r.normal(scale=0.5, size=n_rows)


X, Y = make_rows()
SETS = {"new": (X[200:300], Y[200:300]), "old": (X[300:], Y[300:])}
PLACES = {"train": slice(0, 200), "new": slice(200, 300), "old": slice(300, 400)}
PLAIN = {"n_estimators": 15, "learning_rate": 0.2, "max_leaves": 7, "early_stopping": False}


@pytest.mark.parametrize("boosting", ["gbdt", "dart", "rf"])
def test_each_curve_is_the_score_of_its_rows(boosting: str) -> None:
    params = {**PLAIN, "boosting": boosting, "subsample": 0.7, "train_scores": True}
    if boosting == "rf":
        del params["learning_rate"]
    model = HedgerowRegressor(**params, eval_metric=["mae", "rmse"]).fit(
        X[:200], Y[:200], X_val=SETS
    )
    assert list(model.evals_result_) == ["new", "old", "train"]
    for name, place in PLACES.items():
        curves = model.evals_result_[name]
        assert sorted(curves) == ["mae", "rmse"]
        assert len(curves["mae"]) == 15
        score = mean_absolute_error(Y[place], model.predict(X[place]))
        assert curves["mae"][-1] == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize("order", [["new", "old"], ["old", "new"]])
def test_first_set_decides(order: list[str]) -> None:
    params = {"n_estimators": 200, "learning_rate": 0.3, "patience": 5, "early_stopping": True}
    sets = {name: SETS[name] for name in order}
    model = HedgerowRegressor(**params, train_scores=True).fit(X[:200], Y[:200], X_val=sets)
    X_val, y_val = SETS[order[0]]
    alone = HedgerowRegressor(**params).fit(X[:200], Y[:200], X_val=X_val, y_val=y_val)
    assert model.best_iteration_ == alone.best_iteration_
    assert model.stopped_by_ == "early_stopping"
    curve = model.evals_result_[order[0]]["loss"]
    assert model.best_iteration_ == int(np.argmin(curve)) + 1


def test_weights_of_a_set_count() -> None:
    weight = np.r_[np.zeros(50), np.full(50, 3.0)]
    sets = {"all": SETS["new"], "half": (*SETS["new"], weight)}
    model = HedgerowRegressor(**PLAIN, eval_metric="mae").fit(X[:200], Y[:200], X_val=sets)
    rows = slice(250, 300)
    score = mean_absolute_error(Y[rows], model.predict(X[rows]))
    assert model.evals_result_["half"]["mae"][-1] == pytest.approx(score, rel=1e-12)


def test_sets_may_be_sparse_and_dense() -> None:
    sets = {"new": (sparse.csr_matrix(X[200:300]), Y[200:300]), "old": SETS["old"]}
    mixed, dense = (
        HedgerowRegressor(**PLAIN).fit(X[:200], Y[:200], X_val=each) for each in (sets, SETS)
    )
    assert mixed.evals_result_ == dense.evals_result_


def test_several_targets_and_labels() -> None:
    Z = np.c_[Y, X[:, 3] + Y]
    sets = {"new": (X[200:300], Z[200:300]), "old": (X[300:], Z[300:])}
    model = HedgerowRegressor(**PLAIN, eval_metric="mae").fit(X[:200], Z[:200], X_val=sets)
    score = mean_absolute_error(Z[300:], model.predict(X[300:]))
    assert model.evals_result_["old"]["mae"][-1] == pytest.approx(score)
    ones = (Z > 0).astype(int)
    sets = {name: (rows, (z > 0).astype(int)) for name, (rows, z) in sets.items()}
    labels = HedgerowClassifier(n_estimators=5, early_stopping=False)
    assert set(labels.fit(X[:200], ones[:200], X_val=sets).evals_result_) == {"new", "old"}


def test_queries_of_sets_are_apart() -> None:
    r = np.random.default_rng(3)
    y = r.integers(0, 3, 400)
    qid = np.repeat(np.arange(40), 10)
    sets = {
        name: Dataset(X[place], y[place], qid=qid[place] % 10)  # the same names in both
        for name, place in PLACES.items()
        if name != "train"
    }
    model = HedgerowRanker(
        n_estimators=5, eval_metric=["ndcg@5", "loss"], train_scores=True, early_stopping=False
    ).fit(X[:200], y[:200], qid=qid[:200], X_val=sets)
    for name, place in PLACES.items():
        alone = HedgerowRanker(n_estimators=5, eval_metric=["ndcg@5", "loss"]).fit(
            X[:200], y[:200], qid=qid[:200], X_val=X[place], y_val=y[place], qid_val=qid[place]
        )
        assert model.evals_result_[name]["ndcg@5"] == pytest.approx(
            alone.evals_result_["validation"]["ndcg@5"][:5]
        )


def test_offsets_belong_to_each_set() -> None:
    base = X[:, 3]
    sets = {
        name: Dataset(X[place], Y[place], offset=base[place])
        for name, place in PLACES.items()
        if name != "train"
    }
    estimator = HedgerowRegressor(**PLAIN, eval_metric="mae")
    model = estimator.fit(X[:200], Y[:200], offset=base[:200], X_val=sets)
    score = mean_absolute_error(Y[300:], model.predict(X[300:], offset=base[300:]))
    assert model.evals_result_["old"]["mae"][-1] == pytest.approx(score)
    with pytest.raises(DataError, match="validation rows have no offset"):
        estimator.fit(X[:200], Y[:200], offset=base[:200], X_val=SETS)


def test_checkpoint_keeps_all_curves(tmp_path: Path) -> None:
    class Broken(Exception):
        pass

    def breaks(state: object) -> None:
        if state.round == 8:  # type: ignore[attr-defined]
            raise Broken

    model = HedgerowRegressor(**PLAIN, train_scores=True, callbacks=breaks)
    how = {"X_val": SETS, "checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    with pytest.raises(Broken):
        model.fit(X[:200], Y[:200], **how)
    resumed = model.set_params(callbacks=None).fit(X[:200], Y[:200], **how)
    whole = HedgerowRegressor(**PLAIN, train_scores=True).fit(X[:200], Y[:200], X_val=SETS)
    assert resumed.evals_result_ == whole.evals_result_
    how["X_val"] = {"new": SETS["old"], "old": SETS["new"]}
    with pytest.raises(ParameterError, match="has changed"):
        model.fit(X[:200], Y[:200], **how)


def test_going_on_knows_the_scores_before() -> None:
    first = HedgerowRegressor(**PLAIN).fit(X[:200], Y[:200])
    more = HedgerowRegressor(**PLAIN, eval_metric="mae", train_scores=True).fit(
        X[:200], Y[:200], X_val=SETS, init_model=first
    )
    known = more.booster_.model.training["init_scores"]
    for name, place in PLACES.items():
        score = mean_absolute_error(Y[place], first.predict(X[place]))
        assert known[name]["mae"] == pytest.approx(score)
        assert len(more.evals_result_[name]["mae"]) == 15


def test_folds_and_training_scores() -> None:
    model = HedgerowRegressor(n_estimators=60, early_stopping="cv", train_scores=True).fit(X, Y)
    assert set(model.evals_result_) == {"cv", "train"}
    assert len(model.evals_result_["train"]["loss"]) == model.n_iter_


# -- train -----------------------------------------------------------------------------


def test_train_takes_named_datasets_and_the_training_rows() -> None:
    data = Dataset(X[:200], Y[:200])
    valid = {name: Dataset(*rows) for name, rows in SETS.items()}
    booster = train(PLAIN, data, {**valid, "train": data})
    model = HedgerowRegressor(**PLAIN, train_scores=True).fit(X[:200], Y[:200], X_val=SETS)
    assert booster.evals_result == model.evals_result_
    assert train(PLAIN, data, data).evals_result["train"] == model.evals_result_["train"]
    with pytest.raises(ParameterError, match="called 'train'"):
        train(PLAIN, data, {"mine": data})


# -- what cannot be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"X_val": X}, DataError, "without y_val"),
        ({"y_val": Y}, DataError, "without X_val"),
        ({"X_val": {"train": (X, Y)}}, ParameterError, "train_scores=True"),
        ({"X_val": {"cv": (X, Y)}}, ParameterError, "cv"),
        ({"X_val": {1: (X, Y)}}, DataTypeError, "must be non-empty text"),
        ({"X_val": {"new": (X,)}}, DataError, "several sets by name"),
        ({"X_val": {"new": (X, Y)}, "sample_weight_val": Y}, DataError, "has its own"),
        ({"X_val": {"new": (X, Y[:-1])}}, DataError, r"y of X_val\['new'\]"),
    ],
)
def test_errors(given: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        HedgerowRegressor(**PLAIN).fit(X, Y, **given)


def test_train_scores_must_be_a_truth_value() -> None:
    with pytest.raises(ParameterError, match="train_scores must be True or False"):
        HedgerowRegressor(train_scores="yes").fit(X, Y)


def test_columns_in_a_dict_are_a_table() -> None:
    """With ``y_val``, a dict is a table of columns, which may be tuples."""
    table = {"a": (1.0, 2.0), "b": (3.0, 4.0)}
    (rows,) = validation_sets(table, [1.0, 2.0], {}).values()
    assert rows.X is table


def test_picture_shows_all_sets() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    model = HedgerowRegressor(**PLAIN, train_scores=True).fit(X[:200], Y[:200], X_val=SETS)
    axes = model.booster_.plot_history()
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines) == ["new", "old", "train"]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines.values()}) == 3
