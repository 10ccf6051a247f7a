"""The softmax loss has the bits of plain NumPy, independently of the other rows."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.objectives.classes import Softmax


def naive(target: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Sum over the classes in order."""
    top = raw.max(axis=0)
    total = np.zeros(len(target))
    for row in np.exp(raw - top):
        total += row
    return top + np.log(total) - raw[target.astype(int), np.arange(len(target))]


@pytest.mark.parametrize("n_rows", [1, 7, 300])
@pytest.mark.parametrize("n_classes", [3, 8])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e3])
def test_losses_have_the_bits_of_the_naive_ones(n_rows: int, n_classes: int, scale: float) -> None:
    rng = np.random.default_rng(n_rows + n_classes)
    raw = scale * rng.normal(size=(n_classes, n_rows))
    target = rng.integers(0, n_classes, n_rows).astype(float)
    found = Softmax(n_outputs=n_classes).losses(target, raw)
    assert found.tobytes() == naive(target, raw).tobytes()


def test_losses_change_nothing_and_read_any_array() -> None:
    rng = np.random.default_rng(0)
    raw, target = rng.normal(size=(20, 4)).T, rng.integers(0, 4, 40)[::2]
    raw.flags.writeable = False
    before = raw.tobytes()
    found = Softmax(n_outputs=4).losses(target, raw)
    assert raw.tobytes() == before
    assert found.tobytes() == naive(target, raw).tobytes()


@pytest.mark.parametrize("worst", [np.nan, np.inf])
def test_a_score_that_is_no_number_shows_in_the_loss(worst: float) -> None:
    raw = np.zeros((3, 2))
    raw[1, 1] = worst
    found = Softmax().losses(np.zeros(2), raw)
    assert found[0] == np.log(3.0)
    assert not found[1] < np.inf
