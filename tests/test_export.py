"""Models in the formats of other libraries: what their programs predict is what ours does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowRegressor, ParameterError

RNG = np.random.default_rng(0)
N = 500
X = RNG.normal(size=(N, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
Z = np.nan_to_num(X)
Y = Z[:, 0] * Z[:, 1] + np.sin(Z[:, 2])
CLASSES = np.digitize(Y, [-0.5, 0.5])
NEEDS = {"lightgbm": "lightgbm", "onnx": "onnxruntime", "treelite": "treelite"}


def models() -> dict[str, Any]:
    """Fitted estimators."""
    colours = np.array(["red", "green", "blue", "grey"])[RNG.integers(0, 4, N)]
    frame = {"a": Z[:, 0], "colour": colours}
    return {
        "regression": (HedgerowRegressor(n_estimators=15).fit(X, Y), X),
        "counts": (HedgerowRegressor(n_estimators=15, objective="poisson").fit(X, np.abs(Y)), X),
        "two": (HedgerowClassifier(n_estimators=15).fit(X, CLASSES > 0), X),
        "three": (HedgerowClassifier(n_estimators=8).fit(X, CLASSES), X),
        "categories": (
            HedgerowRegressor(n_estimators=15, target_statistics=False).fit(
                frame, Y + (colours == "red")
            ),
            frame,
        ),
    }


MODELS = models()


@pytest.mark.parametrize("form", ["lightgbm", "onnx", "treelite", "python", "json"])
@pytest.mark.parametrize("name", list(MODELS))
def test_the_target_predicts_the_same(tmp_path: Path, name: str, form: str) -> None:
    if form in NEEDS:
        pytest.importorskip(NEEDS[form])
    model, table = MODELS[name]
    report = model.export(tmp_path / "model", format=form, check=table)
    assert report.rows_checked == N
    assert report.largest_difference <= 1e-9


@pytest.mark.parametrize("name", ["regression", "two", "three"])
def test_lightgbm_reads_its_text_and_so_do_we(tmp_path: Path, name: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model, table = MODELS[name]
    raw = model.booster_.predict(table, "raw")
    model.export(tmp_path / "model.txt", format="lightgbm")
    theirs = lightgbm.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_allclose(theirs.predict(table, raw_score=True), raw, rtol=0, atol=1e-13)
    ours = hedgerow.load(tmp_path / "model.txt")
    np.testing.assert_allclose(ours.predict(table, "raw"), raw, rtol=0, atol=1e-13)


def test_xgboost_holds_float32_and_says_so(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    model, table = MODELS["regression"]
    with pytest.raises(ParameterError, match="approximate=True"):
        model.export(tmp_path / "model.json", format="xgboost")
    model.export(tmp_path / "model.json", format="xgboost", approximate=True)
    theirs = xgboost.Booster(model_file=tmp_path / "model.json")
    found = theirs.predict(xgboost.DMatrix(table.astype(np.float32)), output_margin=True)
    ours = model.booster_.predict(table.astype(np.float32), "raw")
    assert np.median(np.abs(found - ours)) < 1e-5


def test_json_is_json_and_python_is_python(tmp_path: Path) -> None:
    model, _ = MODELS["two"]
    model.export(tmp_path / "model.json", format="json")
    assert json.loads((tmp_path / "model.json").read_text())
    model.export(tmp_path / "model.py", format="python")
    compile((tmp_path / "model.py").read_text(), "model.py", "exec")


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    model, _ = MODELS["two"]
    with pytest.raises(ParameterError, match="format must be one of"):
        model.export(tmp_path / "model", format="pmml")
    with pytest.raises(ParameterError, match="names no format"):
        model.export(tmp_path / "model")
    linear = HedgerowRegressor(n_estimators=5, linear_leaves=True).fit(X, Y + 3 * Z[:, 3])
    if linear.booster_.model.forest.slopes is not None:
        with pytest.raises(ParameterError, match="line"):
            linear.export(tmp_path / "model.onnx", format="onnx")
