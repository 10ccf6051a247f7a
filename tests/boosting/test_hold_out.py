"""Validation rows of a stream: the rows with the smallest hashes of each class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.boosting.validation.hold_out import HoldOut, split_rows
from hedgerow.boosting.validation.stopping import VALIDATION_STREAM, hash_rows
from hedgerow.comm.threads import run_ranks
from hedgerow.errors import DataError
from tests.helpers.examples import examples
from tests.reference import naive


def expected_rows(target, fraction, stratify, seed):
    hashes = hash_rows(seed, VALIDATION_STREAM, len(target)).tolist()
    return naive.rows_aside(hashes, target, fraction, stratify)


def chosen_rows(target, fraction, stratify, seed, size, cuts=()):
    """Return the validation rows if ``cuts`` divide the rows between ranks."""
    ends = [0, *cuts, len(target)]

    def one(communicator):
        first, stop = ends[communicator.rank], ends[communicator.rank + 1]
        hold_out = HoldOut(fraction, stratify, seed, first)
        starts = range(first, stop, size)
        for start in starts:
            hold_out.add(target[start : min(start + size, stop)])
        chosen = hold_out.finish(communicator)
        parts = [chosen(start, target[start : min(start + size, stop)]) for start in starts]
        return int(chosen.counts.sum()), np.concatenate([np.zeros(0, dtype=bool), *parts])

    found = run_ranks(len(ends) - 1, one)
    mask = np.concatenate([part for _, part in found])
    assert {count for count, _ in found} == {mask.sum()}
    return np.flatnonzero(mask)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(2, 300),
    st.sampled_from([0.001, 0.1, 0.5, 0.9, 0.999]),
    st.sampled_from([0, 1, 2, 5]),
    st.integers(0, 2**63 - 1),
    st.integers(1, 50),
    st.integers(0, 300),
)
def test_rows_with_the_smallest_hashes(n, fraction, n_classes, seed, size, cut) -> None:
    target = np.random.default_rng(n).integers(0, max(1, n_classes), n).astype(float)
    try:
        expected = expected_rows(target, fraction, n_classes > 0, seed)
    except ValueError:
        with pytest.raises(DataError, match="early stopping holds out rows, but there are only"):
            chosen_rows(target, fraction, n_classes > 0, seed, size)
        return
    kept, aside = split_rows(target, fraction, n_classes > 0, seed)
    assert aside.tolist() == expected
    assert np.array_equal(np.sort(np.concatenate([kept, aside])), np.arange(n))
    for cuts in ((), (min(cut, n),)):
        found = chosen_rows(target, fraction, n_classes > 0, seed, size, cuts)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("stratify", [False, True])
def test_many_rows_and_few_hashes_kept(stratify) -> None:
    n = 400_000
    target = (np.arange(n) % 7 == 0).astype(float)
    hold_out = HoldOut(0.1, stratify, 3)
    for start in range(0, n, 10_000):
        hold_out.add(target[start : start + 10_000])
    kept = sum(len(known.kept) for known in hold_out._classes.values())
    assert kept < 30_000
    chosen = hold_out.finish()
    expected = expected_rows(target, 0.1, stratify, 3)
    assert np.array_equal(np.flatnonzero(chosen(0, target)), expected)
    assert chosen.counts.sum() == len(expected)


def test_a_class_that_one_rank_does_not_have() -> None:
    target = np.array([0.0] * 40 + [1.0] * 30)
    expected = expected_rows(target, 0.3, True, 1)
    assert np.array_equal(chosen_rows(target, 0.3, True, 1, 7, (40, 40)), expected)


def test_too_few_rows() -> None:
    with pytest.raises(DataError, match="only 1 rows"):
        chosen_rows(np.zeros(1), 0.5, False, 0, 1)
    with pytest.raises(DataError, match="only 0 rows"):
        HoldOut(0.5, True, 0).finish()
    with pytest.raises(DataError, match="only 2 rows"):
        chosen_rows(np.array([0.0, 1.0]), 0.5, True, 0, 1)


def test_hashes_of_later_rows() -> None:
    assert np.array_equal(hash_rows(5, 2, 10)[4:], hash_rows(5, 2, 6, 4))
