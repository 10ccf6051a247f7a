"""Models in other servers and tools: FastAPI, BentoML, Triton's client, Optuna."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRegressor
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


@pytest.mark.fast(1)
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
