"""Classes of labels are those of NumPy, for all algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.errors import DataError, DataTypeError
from hedgerow.estimators import labels
from hedgerow.estimators.labels import encode, read_labels

KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4"]


@st.composite
def close_integers(draw: st.DrawFn) -> np.ndarray:
    """Return integers anywhere in the range of their type, far apart or close."""
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    n_rows = draw(st.integers(2, 40))
    if kind.kind == "b":
        return draw(arrays.arrays(kind, n_rows))
    info = np.iinfo(kind)
    low = draw(st.integers(info.min, info.max))
    width = draw(st.sampled_from([0, 3, 300, 65_535, 65_536, 1 << 62]))
    high = min(info.max, low + width)
    return draw(arrays.arrays(kind, n_rows, elements=st.integers(low, high)))


@given(close_integers())
def test_classes_are_those_that_sorting_finds(values: np.ndarray) -> None:
    assume(len(set(values.tolist())) > 1)
    classes, codes = encode(values, None)
    expected, index = np.unique(values, return_inverse=True)
    assert classes.dtype == expected.dtype
    assert classes.tolist() == expected.tolist()
    assert codes.tolist() == index.tolist()


@given(close_integers(), st.integers(0, 99))
def test_rows_without_weight_define_no_class(values: np.ndarray, seed: int) -> None:
    weight = np.random.default_rng(seed).integers(0, 2, len(values)).astype(float)
    weight[0] = 1.0
    assume(len(set(values[weight > 0].tolist())) > 1)
    classes, codes = encode(values, weight)
    assert classes.tolist() == np.unique(values[weight > 0]).tolist()
    kept = weight > 0
    assert np.array_equal(classes[codes[kept].astype(int)], values[kept])
    assert not codes[~kept].any()


def test_few_integers_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object, **named: object) -> None:
        raise AssertionError("labels were sorted")

    monkeypatch.setattr(labels.np, "unique", refused)
    y = np.array([7, 9, 7, 7, -3, 9] * 10)
    assert encode(read_labels(y, 60, "y", "HedgerowClassifier"), None)[0].tolist() == [-3, 7, 9]


@pytest.mark.parametrize("odd", [float("nan"), True, 1, 1.5])
def test_a_list_of_text_and_others_is_not_all_text(odd: object) -> None:
    """NumPy makes one text of each: a missing label would be the class 'nan'."""
    names = [odd, *["a", "b"] * 10]
    X = np.arange(21.0).reshape(-1, 1)
    for some in (names, tuple(names), np.array(names, dtype=object)):
        with pytest.raises((DataError, DataTypeError), match=r"no label in row 0|mixes labels"):
            HedgerowClassifier(n_estimators=2).fit(X, some)


def test_missing_groups_and_queries_beside_text() -> None:
    names = [float("nan"), *["a"] * 10, *["b"] * 10]
    X, y = np.arange(21.0).reshape(-1, 1), np.arange(21) % 2
    with pytest.raises(DataError, match="groups is missing in 1 of 21 rows"):
        HedgerowRegressor(n_estimators=2).fit(X, y, groups=names)
    with pytest.raises(DataError, match="qid is missing in 1 of 21 rows"):
        HedgerowRanker(n_estimators=2).fit(X, y, qid=names)
