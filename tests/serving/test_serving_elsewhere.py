"""Models in other servers and tools: MLflow, FastAPI, BentoML, Triton's client, Optuna."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.errors import DataError, ParameterError
from tests.helpers.servers import records, rows

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def classifier() -> HedgerowClassifier:
    X = rows()
    y = np.where(np.nan_to_num(X["size"]) + (X["city"] == "Oslo") > 0.4, "yes", "no")
    return HedgerowClassifier(n_estimators=8, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def path(classifier, tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("model") / "income.hedgerow"
    classifier.save(found)
    return found


# -- MLflow ---------------------------------------------------------------------------


def test_mlflow_loads_and_predicts(classifier, tmp_path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow")
    from hedgerow.serving import mlflow_model

    X = rows()
    mlflow_model.save_model(classifier, str(tmp_path / "model"))
    files = [file.name for file in (tmp_path / "model").rglob("*") if file.is_file()]
    assert "model.hedgerow" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))]
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert loaded.predict(X).tolist() == classifier.predict(X).tolist()
    found = loaded.predict(X, params={"kind": "probability"})
    np.testing.assert_array_equal(found, classifier.predict_proba(X))
    names = [column.name for column in loaded.metadata.get_input_schema()]
    assert names == ["size", "age", "city"]
    with pytest.raises(ParameterError, match="kind"):
        loaded.predict(X, params={"kind": "leaf"})
    with pytest.raises(Exception, match="city"):
        loaded.predict(X.drop(columns="city"))
    with pytest.raises(ParameterError, match="Booster"):
        mlflow_model.save_model(object(), str(tmp_path / "other"))


def test_mlflow_takes_dates_and_durations(tmp_path) -> None:
    from hedgerow.serving import mlflow_model

    days = np.arange(200)
    when = pd.Timestamp("2026-01-01") + pd.to_timedelta(days, unit="D")
    X = pd.DataFrame({"when": when, "span": pd.to_timedelta(days % 7, unit="h")})
    model = HedgerowRegressor(n_estimators=5, early_stopping=False).fit(X, days % 7 + days / 9)
    whole = X.assign(span=(days % 7) * 3_600_000_000)
    found = mlflow_model.PyfuncModel(model.booster_).predict(whole)
    np.testing.assert_array_equal(found, model.predict(X))
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow")
    mlflow_model.save_model(model, str(tmp_path / "model"))
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(whole), model.predict(X))


def test_mlflow_takes_arrays_and_logs_models(tmp_path, monkeypatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow")
    from hedgerow.serving import mlflow_model

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    booster = train({"n_estimators": 5}, Dataset(X, X[:, 0]))
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    monkeypatch.chdir(tmp_path)
    with mlflow.start_run():
        info = mlflow_model.log_model(booster, "numbers")
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(loaded.predict(X), booster.predict(X))


def test_mlflow_serves_the_model(classifier, tmp_path) -> None:
    """The test sends requests to MLflow's scoring server like its clients."""
    pytest.importorskip("mlflow", reason="needs mlflow")
    client = pytest.importorskip("fastapi.testclient", reason="needs fastapi and httpx")
    import mlflow.pyfunc
    from mlflow.pyfunc import scoring_server

    from hedgerow.serving import mlflow_model

    mlflow_model.save_model(classifier, str(tmp_path / "model"))
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    http = client.TestClient(scoring_server.init(loaded))
    body = {"dataframe_records": records(6), "params": {"kind": "probability"}}
    answer = http.post("/invocations", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["predictions"] == classifier.predict_proba(rows().head(6)).tolist()


# -- examples -------------------------------------------------------------------------


def example(name: str):
    """Import a module of the examples with a unique name."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_example_of_fastapi(classifier, path, monkeypatch) -> None:
    client = pytest.importorskip("fastapi.testclient", reason="needs fastapi and httpx")
    monkeypatch.setenv("MODEL", str(path))
    with client.TestClient(example("fastapi_app").app) as http:
        body = {"records": records(5), "kind": "probability"}
        answer = http.post("/predict", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["predictions"] == classifier.predict_proba(rows().head(5)).tolist()
        bad = {"records": [{**records(1)[0], "size": "large"}]}
        answer = http.post("/predict", json=bad)
        assert (answer.status_code, "'size'" in answer.json()["detail"]) == (400, True)
        assert http.post("/predict", json={"records": []}).status_code == 422


def test_the_example_of_bentoml(classifier, path, monkeypatch) -> None:
    bentoml = pytest.importorskip("bentoml", reason="needs bentoml")
    client = pytest.importorskip("starlette.testclient", reason="needs starlette and httpx")
    monkeypatch.setenv("MODEL", str(path))
    service = example("bentoml_service").HedgerowService
    with client.TestClient(service.to_asgi()) as http:
        answer = http.post("/predict", json={"records": records(5)})
        assert answer.status_code == 200, answer.text
        assert answer.json() == classifier.predict(rows().head(5)).tolist()
        bad = [{**records(1)[0], "size": "large"}]
        answer = http.post("/predict", json={"records": bad})
        assert answer.status_code == bentoml.exceptions.InvalidArgument.error_code
        assert "'size'" in answer.text


# -- a client of the protocol that nobody here wrote ------------------------------------


def test_the_client_of_triton_asks_our_server(classifier, path) -> None:
    client = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    pytest.importorskip("uvicorn", reason="needs hedgerow[serve]")
    from tests.helpers.servers import serving

    X = rows().head(7)
    with serving(path) as server:
        http = client.InferenceServerClient(f"{server.host}:{server.port}")
        assert http.is_server_live()
        assert http.is_server_ready()
        assert http.is_model_ready("income")
        assert http.get_server_metadata()["name"] == "hedgerow"
        about = http.get_model_metadata("income")
        inputs = []
        for described in about["inputs"]:
            tensor = client.InferInput(described["name"], [7], described["datatype"])
            values = X[described["name"]].to_numpy()
            if described["name"] == "size":
                values = np.nan_to_num(values)
            if described["datatype"] == "BYTES":
                values = values.astype(object)
            tensor.set_data_from_numpy(values, binary_data=False)
            inputs.append(tensor)
        wanted = [
            client.InferRequestedOutput(name, binary_data=False)
            for name in ("prediction", "probability")
        ]
        found = http.infer("income", inputs, outputs=wanted)
        known = X.assign(size=X["size"].fillna(0.0))
        assert found.as_numpy("prediction").astype(str).tolist() == (
            classifier.predict(known).tolist()
        )
        np.testing.assert_array_equal(
            found.as_numpy("probability"), classifier.predict_proba(known)
        )
        with pytest.raises(Exception, match="city"):
            http.infer("income", inputs[:2], outputs=wanted)


# -- skops ----------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"linear_leaves": True}, {"target_statistics": True}])
def test_skops_keeps_models_with_categories(more) -> None:
    sio = pytest.importorskip("skops.io", reason="needs skops")
    X = rows()
    y = np.nan_to_num(X["size"]) + (X["city"] == "Oslo")
    model = HedgerowRegressor(n_estimators=8, random_state=0, **more).fit(X, y)
    for kept in (model, model.booster_):
        data = sio.dumps(kept)
        names = sio.get_untrusted_types(data=data)
        assert all(name.startswith("hedgerow.") for name in names)
        again = sio.loads(data, trusted=names)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        row = records(1)[0]
        assert again.predict_one(row) == model.predict_one(row)


# -- Optuna ---------------------------------------------------------------------------


class Trial:
    """The part of a trial that the callback uses; prunes after a number of reported scores."""

    def __init__(self, direction: str = "MINIMIZE", most: int = 10**6) -> None:
        self.reported: list[tuple[int, float]] = []
        self.most = most
        self.study = type("Study", (), {"direction": type("D", (), {"name": direction})})

    def report(self, value: float, step: int) -> None:
        self.reported.append((step, value))

    def should_prune(self) -> bool:
        return len(self.reported) >= self.most


def fit_with(callback, **more) -> HedgerowRegressor:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    params = {"n_estimators": 20, "eval_metric": ["rmse", "r2"], "early_stopping": True, **more}
    model = HedgerowRegressor(callbacks=callback, **params)
    return model.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])


def test_each_round_is_reported() -> None:
    from hedgerow.pruning import OptunaPruning

    trial = Trial()
    model = fit_with(OptunaPruning(trial))
    rounds = model.evals_result_["validation"]["rmse"]
    assert trial.reported == list(enumerate(rounds, 1))
    trial = Trial("MAXIMIZE")
    fit_with(OptunaPruning(trial, "r2", every=5))
    assert [step for step, _ in trial.reported][:3] == [5, 10, 15]


@pytest.mark.parametrize(
    ("trial", "metric", "more", "words"),
    [
        (Trial("MAXIMIZE"), None, {}, "minimize"),
        (Trial(), "r2", {}, "maximize"),
        (Trial(), "rmsle", {}, "rmse"),
    ],
)
def test_what_cannot_be_reported(trial, metric, more, words) -> None:
    from hedgerow.pruning import OptunaPruning

    with pytest.raises(ParameterError, match=words):
        fit_with(OptunaPruning(trial, metric), **more)
    with pytest.raises(ParameterError, match="every"):
        OptunaPruning(trial, every=0)


def test_without_validation_rows_nothing_can_be_reported() -> None:
    from hedgerow.pruning import OptunaPruning

    X = np.arange(100.0)[:, None]
    model = HedgerowRegressor(
        n_estimators=3, early_stopping=False, callbacks=OptunaPruning(Trial())
    )
    with pytest.raises(ParameterError, match="X_val"):
        model.fit(X, X[:, 0])


def test_optuna_prunes_trials() -> None:
    optuna = pytest.importorskip("optuna", reason="needs optuna")
    from hedgerow.pruning import OptunaPruning

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial):
        rate = trial.suggest_categorical("learning_rate", [0.3, 0.001])
        model = fit_with(OptunaPruning(trial, "rmse"), learning_rate=rate, patience=50)
        return min(model.evals_result_["validation"]["rmse"])

    pruner = optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=2)
    sampler = optuna.samplers.GridSampler({"learning_rate": [0.3, 0.001]}, seed=0)
    study = optuna.create_study(pruner=pruner, sampler=sampler)
    study.enqueue_trial({"learning_rate": 0.3})
    study.enqueue_trial({"learning_rate": 0.001})
    study.optimize(objective, n_trials=2)
    states = [trial.state.name for trial in study.trials]
    assert states == ["COMPLETE", "PRUNED"]
    assert len(study.trials[1].intermediate_values) < 5


def test_a_pruned_fit_leaves_the_estimator_as_it_was() -> None:
    optuna = pytest.importorskip("optuna", reason="needs optuna")
    from hedgerow.pruning import OptunaPruning

    model = HedgerowRegressor(
        n_estimators=20, early_stopping=True, callbacks=OptunaPruning(Trial(most=4))
    )
    X = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.raises(optuna.TrialPruned, match="round 4"):
        model.fit(X[:200], X[:200, 0], X_val=X[200:], y_val=X[200:, 0])
    with pytest.raises((AttributeError, DataError, ValueError)):
        model.predict(X)
    assert not hasattr(model, "booster_")
