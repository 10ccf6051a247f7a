"""Methods use the attributes of a single fit, also while another thread fits the estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
)

N = 240
FEW: dict[str, Any] = {"n_estimators": 5, "learning_rate": 0.3, "early_stopping": False}


class RefittedOnReading:
    """A table; while it is first read, another thread ends a fit of the estimator."""

    def __init__(self, X: np.ndarray, refit: Callable[[], None]) -> None:
        self.X, self.refit, self.shape = X, refit, X.shape

    def __len__(self) -> int:
        return len(self.X)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.refit()
        return self.X.astype(dtype or self.X.dtype)


def rows() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(N, 3))
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


def few_words(y: np.ndarray) -> np.ndarray:
    return np.array(["no", "yes"])[(y > 0).astype(int)]


def many_words(y: np.ndarray) -> np.ndarray:
    return np.array(["high", "low", "middle"])[y]


def indicators(y: np.ndarray) -> np.ndarray:
    return np.stack([y > 0, y > 1], axis=1).astype(int)


def numbers(y: np.ndarray) -> np.ndarray:
    return y.astype(float)


def two_numbers(y: np.ndarray) -> np.ndarray:
    return (y > 0).astype(float)


def pairs(y: np.ndarray) -> np.ndarray:
    return np.stack([y, -y], axis=1).astype(float)


def reversed_grades(y: np.ndarray) -> np.ndarray:
    return 2 - y


CLASSES = ("predict", "predict_proba", "decision_function")
STAGES = ("staged_predict", "staged_predict_proba", "staged_decision_function")
Target = Callable[[np.ndarray], np.ndarray]
CASES: list[tuple[Any, tuple[str, ...], Target, Target]] = [
    (HedgerowClassifier(**FEW), CLASSES + STAGES, many_words, few_words),
    (HedgerowClassifier(**FEW), CLASSES + STAGES, few_words, many_words),
    (HedgerowClassifier(**FEW), CLASSES + STAGES, indicators, few_words),
    (HedgerowRegressor(**FEW), ("predict", "staged_predict"), numbers, pairs),
    (HedgerowRegressor(**FEW), ("predict", "staged_predict"), pairs, numbers),
    (CARTClassifier(), ("predict", "predict_proba", "apply"), many_words, few_words),
    (CARTRegressor(), ("predict", "decision_path"), numbers, two_numbers),
    (HedgerowRanker(**FEW), ("predict",), numbers, reversed_grades),
    (HedgerowClassifier(**FEW), ("score",), indicators, few_words),
    (HedgerowClassifier(**FEW), ("score",), few_words, indicators),
    (HedgerowRegressor(**FEW), ("score",), pairs, numbers),
    (HedgerowRegressor(**FEW), ("score",), numbers, pairs),
]


def plain(found: Any) -> Any:
    """Return results of any kind as nested lists."""
    if isinstance(found, float):
        return found
    if hasattr(found, "toarray"):
        found = found.toarray()
    if isinstance(found, np.ndarray):
        return found.tolist()
    return [plain(part) for part in found]


@pytest.mark.parametrize(("estimator", "methods", "before", "after"), CASES)
def test_results_belong_to_one_fit(estimator, methods, before, after) -> None:
    X, y = rows()
    queries = {"qid": np.arange(N) // 8} if isinstance(estimator, HedgerowRanker) else {}
    for method in methods:
        model = estimator.fit(X, before(y), **queries)
        target = (before(y),) if method == "score" else ()
        expected = plain(getattr(model, method)(X, *target))

        def refit(model=model) -> None:
            model.fit(X, after(y), **queries)

        found = plain(getattr(model, method)(RefittedOnReading(X, refit), *target))
        assert found == expected, (method, before.__name__)
        if not target:
            assert plain(getattr(model, method)(X)) != expected  # the estimator has been refitted


def test_stages_belong_to_one_fit() -> None:
    X, y = rows()
    for model, before, after in (
        (HedgerowClassifier(**FEW), many_words, few_words),
        (HedgerowRegressor(**FEW, objective="poisson"), numbers, pairs),
    ):
        expected = plain(model.fit(X, before(y)).staged_predict(X))
        stages = model.staged_predict(X)
        found = [plain(next(stages))]
        model.set_params(objective="auto").fit(X, after(y))
        assert [*found, *plain(stages)] == expected
