"""Offsets: a model stores the names of offset columns, but not offset arrays."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import Dataset, HedgerowClassifier, HedgerowRanker, HedgerowRegressor, load, train
from hedgerow.cli.main import main
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, ParameterError
from hedgerow.io import model_to_bytes

RNG = np.random.default_rng(0)
N = 2000
EXPOSURE = RNG.uniform(0.05, 1.0, N)
TABLE = {"age": RNG.normal(size=N), "power": RNG.integers(1, 9, N).astype(float)}
RATE = np.exp(0.5 * TABLE["age"] - 1.0)
CLAIMS = RNG.poisson(RATE * EXPOSURE).astype(float)
X = {**TABLE, "log_exposure": np.log(EXPOSURE)}
FLAT = np.column_stack(list(TABLE.values()))
SETTINGS = {"n_estimators": 40, "objective": "poisson", "max_leaves": 6}


@pytest.fixture(scope="module")
def model() -> HedgerowRegressor:
    return HedgerowRegressor(**SETTINGS).fit(X, CLAIMS, offset="log_exposure")


def test_poisson_with_the_log_of_the_exposure(model) -> None:
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["age", "power"]
    assert model.booster_.offset_columns == ("log_exposure",)
    expected = model.predict(X)
    assert expected.sum() == pytest.approx(CLAIMS.sum(), rel=0.05)
    assert np.corrcoef(np.log(expected / EXPOSURE), np.log(RATE))[0, 1] > 0.9
    # Twice the exposure, twice the claims.
    twice = model.predict({**X, "log_exposure": X["log_exposure"] + np.log(2.0)})
    np.testing.assert_allclose(twice, 2.0 * expected, rtol=1e-12)


def test_it_is_the_array_by_name(model) -> None:
    by_array = HedgerowRegressor(**SETTINGS).fit(TABLE, CLAIMS, offset=X["log_exposure"])
    for name in ("value", "threshold", "base_score"):
        one = getattr(model.booster_.model.forest, name)
        assert one.tobytes() == getattr(by_array.booster_.model.forest, name).tobytes()
    np.testing.assert_array_equal(
        model.predict(X), by_array.predict(TABLE, offset=X["log_exposure"])
    )
    assert by_array.booster_.offset_columns == ()
    # Without it, raw scores of exposure 1.
    np.testing.assert_allclose(
        by_array.predict(TABLE), by_array.predict(TABLE, offset=np.zeros(N)), rtol=1e-15
    )


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "rows"])
def test_any_table_with_names(model, library) -> None:
    if library == "rows":
        table = [dict(zip(X, row, strict=True)) for row in zip(*X.values(), strict=True)]
    else:
        frames = pytest.importorskip(library)
        table = frames.table(X) if library == "pyarrow" else frames.DataFrame(X)
    np.testing.assert_array_equal(model.predict(table), model.predict(X))
    again = HedgerowRegressor(**SETTINGS | {"n_estimators": 3})
    again.fit(table, CLAIMS, offset=["log_exposure"])
    assert again.booster_.offset_columns == ("log_exposure",)
    if library == "pandas":
        assert list(table.columns) == list(X)  # the user's table is as it was


def test_all_ways_to_predict(model) -> None:
    booster = model.booster_
    np.testing.assert_array_equal(booster.predict(X), model.predict(X))
    np.testing.assert_allclose(np.exp(booster.predict(X, "raw")), model.predict(X), rtol=1e-14)
    stages = list(model.staged_predict(X))
    np.testing.assert_allclose(stages[-1], model.predict(X), rtol=1e-14)
    np.testing.assert_array_equal(list(booster.staged_predict(X))[-1], stages[-1])
    leaves = model.apply(X)
    np.testing.assert_array_equal(leaves, model.apply(TABLE))  # leaves need no offset
    np.testing.assert_array_equal(leaves, booster.predict(FLAT, kind="leaf"))
    one = {name: float(column[7]) for name, column in X.items()}
    assert model.predict(one)[0] == model.predict(X)[7]
    halves = ({name: column[a : a + N // 2] for name, column in X.items()} for a in (0, N // 2))
    np.testing.assert_array_equal(
        np.concatenate(list(booster.predict_batches(halves))), model.predict(X)
    )
    assert model.score(X, CLAIMS) > 0.0


def test_a_missing_column_is_named(model) -> None:
    for table in (TABLE, {**TABLE, "log_exposur": X["log_exposure"]}):
        with pytest.raises(DataError, match="X has no column 'log_exposure', which is the offset"):
            model.predict(table)
    with pytest.raises(DataError, match="Did you mean 'log_exposur'"):
        model.predict({**TABLE, "log_exposur": X["log_exposure"]})
    with (
        pytest.warns(UserWarning, match="X does not have valid feature names"),
        pytest.raises(DataError, match="column 'log_exposure', but X has no named columns"),
    ):
        model.predict(np.column_stack(list(X.values())))
    with pytest.raises(DataError, match="Feature names unseen at fit time:\n- other"):
        model.predict({**X, "other": EXPOSURE})
    with pytest.raises(ParameterError, match="takes its offset from column 'log_exposure' of X"):
        model.predict(X, offset=np.zeros(N))


def test_bad_values_are_named(model) -> None:
    bad = X["log_exposure"].copy()
    bad[5] = np.nan
    words = r"offset column 'log_exposure' contains NaN \(1 of 2000 values, the first in row 5\)"
    with pytest.raises(DataError, match=words):
        model.predict({**X, "log_exposure": bad})
    with pytest.raises(DataError, match=words):
        HedgerowRegressor(**SETTINGS).fit({**X, "log_exposure": bad}, CLAIMS, offset="log_exposure")
    bad[5] = -np.inf
    with pytest.raises(DataError, match="offset column 'log_exposure' contains infinity"):
        model.predict({**X, "log_exposure": bad})
    with pytest.raises(DataTypeError, match=r"offset column 'log_exposure' .* must hold numbers"):
        model.predict({**X, "log_exposure": ["much"] * N})
    with pytest.raises(DataError, match=r"Input offset contains NaN \(1 of 2000 values"):
        HedgerowRegressor().fit(TABLE, CLAIMS, offset=np.where(np.arange(N) == 3, np.nan, 0.0))
    with pytest.raises(DataError, match="offset must have shape"):
        HedgerowRegressor().fit(TABLE, CLAIMS, offset=np.zeros(7))
    by_array = HedgerowRegressor(n_estimators=2).fit(TABLE, CLAIMS, offset=EXPOSURE)
    with pytest.raises(DataError, match="offset must have shape"):
        by_array.predict(TABLE, offset=np.zeros(7))
    with pytest.raises(ParameterError, match="names a column, but the model was trained without"):
        by_array.predict(X, offset="log_exposure")


def test_wrong_requests() -> None:
    fresh = HedgerowRegressor(**SETTINGS)
    with pytest.raises(DataError, match="X has no column 'exposure'"):
        fresh.fit(X, CLAIMS, offset="exposure")
    with pytest.raises(DataError, match="offset names 2 column"):
        fresh.fit(X, CLAIMS, offset=["log_exposure", "age"])
    for wrong in (["age", 3], ["age", "age"]):
        with pytest.raises(ParameterError, match="different names"):
            fresh.fit(X, CLAIMS, offset=wrong)
    with pytest.raises(DataError, match="offset_val is given without X_val"):
        fresh.fit(X, CLAIMS, offset=EXPOSURE, offset_val=EXPOSURE)
    with pytest.raises(DataError, match="the validation rows have no offset"):
        fresh.fit(TABLE, CLAIMS, X_val=TABLE, y_val=CLAIMS, offset=EXPOSURE)
    with pytest.raises(ParameterError, match="leave offset_val out"):
        fresh.fit(X, CLAIMS, X_val=X, y_val=CLAIMS, offset="log_exposure", offset_val=EXPOSURE)
    with pytest.raises(DataError, match="X has no column 'log_exposure'"):
        fresh.fit(X, CLAIMS, X_val=TABLE, y_val=CLAIMS, offset="log_exposure")
    with pytest.raises(DataError, match="Found array with 0"):
        fresh.fit({"log_exposure": EXPOSURE}, CLAIMS, offset="log_exposure")


def test_validation_rows_take_it_from_their_table() -> None:
    half = [{name: column[a : a + 1000] for name, column in X.items()} for a in (0, 1000)]
    settings = SETTINGS | {"n_estimators": 10, "early_stopping": False}
    named = HedgerowRegressor(**settings).fit(
        half[0], CLAIMS[:1000], X_val=half[1], y_val=CLAIMS[1000:], offset="log_exposure"
    )
    bare = [{name: part[name] for name in TABLE} for part in half]
    given = HedgerowRegressor(**settings).fit(
        bare[0], CLAIMS[:1000], X_val=bare[1], y_val=CLAIMS[1000:],
        offset=half[0]["log_exposure"], offset_val=half[1]["log_exposure"],
    )  # fmt: skip
    assert named.evals_result_ == given.evals_result_
    params = {"early_stopping": False, **settings}
    booster = train(
        params,
        Dataset(half[0], CLAIMS[:1000], offset="log_exposure"),
        Dataset(half[1], CLAIMS[1000:]),
    )
    assert booster.evals_result == named.evals_result_
    assert model_to_bytes(booster.model) == model_to_bytes(named.booster_.model)


def test_several_outputs() -> None:
    y = RNG.integers(0, 3, N)
    names = ["o1", "o2", "o3"]
    table = {**TABLE, **{name: RNG.normal(size=N) for name in names}}
    model = HedgerowClassifier(n_estimators=4).fit(table, y, offset=names)
    array = np.column_stack([table[name] for name in names])
    other = HedgerowClassifier(n_estimators=4).fit(TABLE, y, offset=array)
    np.testing.assert_array_equal(model.predict_proba(table), other.predict_proba(TABLE, array))
    np.testing.assert_array_equal(model.predict(table), other.predict(TABLE, array))
    np.testing.assert_array_equal(
        model.decision_function(table), other.decision_function(TABLE, array)
    )
    stages = zip(
        model.staged_predict_proba(table), other.staged_predict_proba(TABLE, array), strict=True
    )
    for one, two in stages:
        np.testing.assert_array_equal(one, two)


def test_rankings_and_times() -> None:
    qid = np.repeat(np.arange(N // 10), 10)
    y = np.minimum(CLAIMS, 3.0)
    ranker = HedgerowRanker(n_estimators=3).fit(X, y, qid=qid, offset="log_exposure")
    assert ranker.booster_.offset_columns == ("log_exposure",)
    flat = ranker.predict({**X, "log_exposure": np.zeros(N)})
    np.testing.assert_allclose(ranker.predict(X), flat + X["log_exposure"], atol=1e-12)
    times = np.exp(TABLE["age"])
    cox = HedgerowRegressor(n_estimators=3, objective="cox").fit(X, times, offset="log_exposure")
    assert cox.predict_survival_function(X).shape[0] == N


# -- files -----------------------------------------------------------------------------


def test_a_model_file_remembers(model, tmp_path) -> None:
    model.save(tmp_path / "m")
    loaded = HedgerowRegressor.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert load(tmp_path / "m").offset_columns == ("log_exposure",)


@pytest.mark.parametrize("names", ["log_exposure", [1], [], ["a", "b"], ["a", "a"], ["age"]])
def test_a_wrong_record_is_refused(model, names) -> None:
    from dataclasses import replace

    inner = model.booster_.model
    with pytest.raises(ModelFormatError, match="offset_columns"):
        model_to_bytes(replace(inner, training={**inner.training, "offset_columns": names}))


def test_files_and_the_command_line(tmp_path, monkeypatch, capsys) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    parquet.write_table(pyarrow.table({**X, "claims": CLAIMS}), "rows.parquet")
    lines = [",".join(f"{v:.17g}" for v in row) for row in zip(*X.values(), CLAIMS, strict=True)]
    (tmp_path / "rows.csv").write_text(",".join([*X, "claims"]) + "\n" + "\n".join(lines) + "\n")
    settings = SETTINGS | {"n_estimators": 5}
    memory = train(settings, Dataset(X, CLAIMS, offset="log_exposure"))
    stored = train(settings, Dataset.from_files("rows.parquet", "claims", offset="log_exposure"))
    assert model_to_bytes(memory.model) == model_to_bytes(stored.model)
    for source in ("rows.parquet", "rows.csv"):
        command = ["train", source, "--target", "claims", "--offset", "log_exposure"]
        command += ["--task", "regression", "--set", "objective=poisson", "--set", "n_estimators=5"]
        assert main([*command, "--set", "max_leaves=6", "--model", "m"]) == 0
        assert (
            main([*command, "--set", "max_leaves=6", "--model", "b", "--memory-limit", "32MB"]) == 0
        )
        for name in ("m", "b"):
            np.testing.assert_array_equal(load(name).predict(X), memory.predict(X))
        assert main(["predict", "m", source, "-o", "out.parquet"]) == 0
        found = parquet.read_table("out.parquet")["prediction"].to_numpy()
        np.testing.assert_array_equal(found, memory.predict(X))
        assert main([*command, "--valid", source, "--model", "v"]) == 0
    parquet.write_table(pyarrow.table(TABLE), "bare.parquet")
    capsys.readouterr()
    assert main(["predict", "m", "bare.parquet", "-o", "out.parquet"]) != 0
    assert "log_exposure" in capsys.readouterr().err
    assert main(["inspect", "m"]) == 0
    assert "log_exposure" in capsys.readouterr().out
