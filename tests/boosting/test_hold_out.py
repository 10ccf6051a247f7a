"""Validation rows: the rows with the smallest hashes of each class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.boosting.validation.stopping import VALIDATION_STREAM, rows_aside
from hedgerow.errors import DataError
from hedgerow.kernels.primitives.hashing import hash_range
from tests.helpers.examples import examples
from tests.helpers.ranks import run_ranks
from tests.reference import naive


def expected_rows(target, fraction, stratify, seed):
    hashes = hash_range(seed, VALIDATION_STREAM, 0, len(target)).tolist()
    return naive.rows_aside(hashes, target, fraction, stratify)


def chosen_rows(target, fraction, stratify, seed, cuts=()):
    """Return the validation rows if ``cuts`` divide the rows between ranks."""
    ends = [0, *cuts, len(target)]

    def one(communicator):
        own = target[ends[communicator.rank] : ends[communicator.rank + 1]]
        return rows_aside(own, fraction, stratify, seed, communicator)

    return np.flatnonzero(np.concatenate(run_ranks(len(ends) - 1, one)))


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(2, 300),
    st.sampled_from([0.001, 0.1, 0.5, 0.9, 0.999]),
    st.sampled_from([0, 1, 2, 5]),
    st.integers(0, 2**63 - 1),
    st.integers(0, 300),
)
def test_rows_with_the_smallest_hashes(n, fraction, n_classes, seed, cut) -> None:
    target = np.random.default_rng(n).integers(0, max(1, n_classes), n).astype(float)
    try:
        expected = expected_rows(target, fraction, n_classes > 0, seed)
    except ValueError:
        with pytest.raises(DataError, match="early stopping holds out rows, but there are only"):
            chosen_rows(target, fraction, n_classes > 0, seed)
        return
    for cuts in ((), (min(cut, n),)):
        found = chosen_rows(target, fraction, n_classes > 0, seed, cuts)
        assert np.array_equal(found, expected)


def test_a_class_that_one_rank_does_not_have() -> None:
    target = np.array([0.0] * 40 + [1.0] * 30)
    expected = expected_rows(target, 0.3, True, 1)
    assert np.array_equal(chosen_rows(target, 0.3, True, 1, (40, 40)), expected)


def test_too_few_rows() -> None:
    with pytest.raises(DataError, match="only 1 rows"):
        rows_aside(np.zeros(1), 0.5, False, 0)
    with pytest.raises(DataError, match="only 0 rows"):
        rows_aside(np.zeros(0), 0.5, True, 0)
    with pytest.raises(DataError, match="only 2 rows"):
        rows_aside(np.array([0.0, 1.0]), 0.5, True, 0)


def test_hashes_of_later_rows() -> None:
    assert np.array_equal(hash_range(5, 2, 0, 10)[4:], hash_range(5, 2, 4, 10))
