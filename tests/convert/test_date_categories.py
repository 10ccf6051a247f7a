"""Categories that are dates, in other libraries' formats."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow import HedgerowRegressor

lightgbm = pytest.importorskip("lightgbm")


def frame_of(kind: str) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    place = rng.integers(0, 6, 500)
    if kind == "dates":
        days = pd.Timestamp("2024-02-27") + pd.to_timedelta(place, unit="D")
    elif kind == "durations":
        days = pd.to_timedelta(300 + place, unit="D")
    else:
        days = 100 + place
    X = pd.DataFrame({"x": rng.normal(size=500), "day": pd.Categorical(days)})
    return X, np.array([3.0, -1.0, 2.0, 0.0, 5.0, 1.0])[place] + X["x"].to_numpy()


@pytest.mark.parametrize("kind", ["dates", "durations", "numbers"])
def test_lightgbm_gets_dates_as_microseconds(kind: str, tmp_path) -> None:
    X, y = frame_of(kind)
    settings = {"n_estimators": 5, "early_stopping": False, "min_data_per_group": 1}
    model = HedgerowRegressor(**settings).fit(X, y)
    report = model.booster_.export(tmp_path / "model.txt", "lightgbm")
    reported = [note for note in report.notes if "'day'" in note]
    assert len(reported) == (kind != "numbers")
    assert all("microseconds" in note for note in reported)
    moved = X.copy()
    if kind != "numbers":
        unit = "datetime64[us]" if kind == "dates" else "timedelta64[us]"
        whole = X["day"].to_numpy().astype(unit).astype(np.int64)
        moved["day"] = pd.Categorical(whole)
    found = lightgbm.Booster(model_file=tmp_path / "model.txt").predict(moved)
    assert (found == model.predict(X)).all()
