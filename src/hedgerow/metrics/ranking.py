"""Ranking metrics: means over the queries.

======================  ====================================================
``ndcg``, ``ndcg@k``    normalised discounted cumulative gain
``map``, ``map@k``      mean average precision
``mrr``, ``mrr@k``      mean reciprocal rank of the first relevant row
``precision@k``         share of relevant rows among the first k
``recall@k``            share of the relevant rows that are among the first k
``err``, ``err@k``      expected reciprocal rank
``auc``                 share of the pairs with different labels in the right order
======================  ====================================================

Rows with equal predictions have no order: a metric is its mean over all orders of them.
The weight of a query is the mean weight of its rows.  NDCG and average precision of a query
without relevant rows are 1, as in LightGBM and XGBoost; the other metrics are 0.  With a
minus sign at the end (``ndcg-``, ``map@10-``) they are 0, too, as in XGBoost.  ``auc`` ignores
queries whose rows all have the same label.  ``pre@k``
(XGBoost) and ``mean_average_precision`` (LightGBM) are aliases.
Definitions: :mod:`hedgerow.kernels.ranking`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.kernels import ranking as kernel
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.metrics.queries import check_labels, gains_of, query_rows, query_weights

_KINDS = {
    "ndcg": kernel.NDCG,
    "map": kernel.AVERAGE_PRECISION,
    "mrr": kernel.RECIPROCAL_RANK,
    "precision": kernel.PRECISION,
    "recall": kernel.RECALL,
    "err": kernel.EXPECTED_RECIPROCAL_RANK,
    "auc": kernel.AUC,
}
_OTHER_NAMES = {"pre": "precision", "mean_average_precision": "map"}
_NAME = re.compile(
    rf"({'|'.join([*_KINDS, *_OTHER_NAMES])})(?:@([1-9][0-9]{{0,8}}))?(-?)", re.ASCII
)
NAMES = (
    *("ndcg", "ndcg@k", "map", "map@k", "mrr", "mrr@k"),
    *("precision@k", "recall@k", "err", "err@k", "auc"),
)
_ONE_WITHOUT_RELEVANT = ("ndcg", "map")
_ALL = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class RankingMetric:
    """The score of rows in queries."""

    kind: str  # a key of ``_KINDS``
    most: int | None = None  # number of ranks to evaluate; None for all
    label_gain: tuple[float, ...] | None = None  # gains for "ndcg"; None: ``2**label - 1``
    queries: kernel.QueryRows | None = None  # None: all rows are one query
    empty_is_zero: bool = False  # NDCG and average precision of a query without relevant rows

    def of_queries(self, queries: kernel.QueryRows) -> RankingMetric:
        """Return the metric for rows of these queries."""
        return replace(self, queries=queries)

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
    ) -> float:
        """Return the mean over the queries."""
        queries = query_rows(None, len(y_true)) if self.queries is None else self.queries
        found = self.by_query(y_true, prediction, queries)
        weights = query_weights(queries, weight)
        if self.kind != "auc":
            return weighted_mean(found, weights)
        counts = found >= 0.0
        if not counts.any():
            raise DataError(
                f"metric 'auc' compares rows of a query with different labels, but in none of the "
                f"{len(found)} queries there are any: give other validation rows, or use "
                "eval_metric='loss'."
            )
        return weighted_mean(found[counts], None if weights is None else weights[counts])

    def by_query(
        self, y_true: FloatArray, prediction: FloatArray, queries: kernel.QueryRows
    ) -> FloatArray:
        """Return the score of each query; -1 for the AUC of equal labels."""
        gains = self.label_gain if self.kind == "ndcg" else None
        check_labels(y_true, f"metric {self.kind!r}", None if gains is None else len(gains))
        out, gain = np.empty(len(queries.starts) - 1), gains_of(y_true, gains)
        kernel.score_queries(
            _KINDS[self.kind],
            _ALL if self.most is None else self.most,
            queries,
            gain,
            np.ascontiguousarray(prediction, dtype=np.float64),
            float(np.exp2(y_true.max(initial=0.0))),
            kernel.make_space(queries),
            out,
        )
        if self.empty_is_zero:
            out[np.maximum.reduceat(gain[queries.rows], queries.starts[:-1]) <= 0.0] = 0.0
        return out


def ranking_metric(name: str, label_gain: tuple[float, ...] | None = None) -> RankingMetric | None:
    """Return the metric of this name; None if it is not a ranking metric."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    kind, most, minus = found.groups()
    kind = _OTHER_NAMES.get(kind, kind)
    if kind == "auc" and most is not None:
        raise ParameterError(
            f"eval_metric {brief(name)}: 'auc' compares all rows of a query: leave '@{most}' out."
        )
    if kind in ("precision", "recall") and most is None:
        raise ParameterError(f"eval_metric {kind!r} needs the number of ranks: '{kind}@10'.")
    if minus and kind not in _ONE_WITHOUT_RELEVANT:
        why = "is left out" if kind == "auc" else "is 0"
        raise ParameterError(
            f"eval_metric {brief(name)}: {kind!r} of a query without relevant rows {why} in any "
            "case: leave the minus sign out."
        )
    count = None if most is None else int(most)
    return RankingMetric(kind, count, label_gain, empty_is_zero=bool(minus))
