"""Model files and text of linear leaves with a line per output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow import Booster, Dataset, load, train
from hedgerow.errors import ModelFormatError
from hedgerow.io.validate import check_slopes
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.model.forest import Forest
from tests.io.test_model_file import refused, with_metadata
from tests.model.test_vector_lines import FEW, X, Y, bytes_of


@pytest.fixture(scope="module")
def booster() -> Booster:
    return train(FEW, Dataset(X, Y))


def test_a_file_keeps_the_lines(booster: Booster, tmp_path: Any) -> None:
    path = tmp_path / "m.hedgerow"
    booster.save(path)
    back = load(path)
    assert bytes_of(back) == bytes_of(booster)
    np.testing.assert_array_equal(back.raw_scores(X), booster.raw_scores(X))
    assert b'"schema_version":"9"' in bytes_of(booster)[:4000]
    for other, version in (({"linear_leaves": False}, 3), ({"multi_strategy": "auto"}, 4)):
        written = bytes_of(train({**FEW, **other}, Dataset(X, Y)))[:4000]
        assert f'"schema_version":"{version}"'.encode() in written


@pytest.mark.parametrize("version", ["3", "4", "7", "8"])
def test_earlier_versions_cannot_hold_them(booster: Booster, version: str) -> None:
    refused(with_metadata(bytes_of(booster), schema_version=version))


def spoiled(forest: Forest, **parts: Any) -> Forest:
    slopes = forest.slopes
    assert slopes is not None
    made = {name: np.array(getattr(slopes, name)) for name in Slopes._fields}
    for name, (at, value) in parts.items():
        made[name][at] = value
    return replace(forest, slopes=Slopes(**made))


SPOILED: dict[str, dict[str, Any]] = {
    "terms of an inner node": {"start": (slice(1, -1), -1)},
    "start falls": {"start": (2, 10**6)},
    "column": {"column": (0, 99)},
    "negative column": {"column": (0, -1)},
    "slope": {"slope": (0, np.nan)},
    "center": {"center": (0, np.inf)},
    "bounds": {"low": (0, 1.0)},
    "high": {"high": (-1, np.nan)},
    "no bounds": {"low": (-1, -np.inf), "high": (-1, np.inf)},
}


@pytest.mark.parametrize("parts", SPOILED.values(), ids=SPOILED)
def test_spoiled_lines_are_refused(parts: dict[str, Any], booster: Booster) -> None:
    with pytest.raises(ModelFormatError, match="slope"):
        check_slopes(spoiled(booster.model.forest, **parts))


def test_lines_of_one_output_are_not_those_of_vectors(booster: Booster) -> None:
    """Arrays with one line per node are too short."""
    forest = booster.model.forest
    few = train({**FEW, "n_estimators": 8}, Dataset(X, Y[:, :2])).model.forest
    with pytest.raises(ModelFormatError, match="slope_start must hold"):
        check_slopes(replace(forest, slopes=few.slopes))
