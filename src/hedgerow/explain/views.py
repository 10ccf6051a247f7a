"""Explanations as methods of a booster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.argument_types import BATCH_ROWS, check_batch_rows, check_bool
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.checks import check_offset
from hedgerow.boosting.row_data.offsets import features_of_rows, offset_of_rows
from hedgerow.data.external.memory import memory_bytes, shown_bytes
from hedgerow.data.sparse import SparseTable
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.explain.explanation import Explanation
from hedgerow.explain.outputs import Outputs, forest_of_outputs, names_of_outputs, read_outputs
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.forest import without_vectors
from hedgerow.once import once

if TYPE_CHECKING:
    from hedgerow.explain.explainer import Explainer

SMALL = 1 << 26
"""Limit in bytes up to which values are computed without a check of the free memory."""


def check_memory(shape: tuple[int, ...], limit: int | float | str | None) -> None:
    """Raise ``DataError`` if values take more memory than allowed."""
    needed = 8 * int(np.prod(shape, dtype=np.float64))
    if limit is None and needed <= SMALL:
        return
    allowed = memory_bytes(limit)
    if needed > allowed:
        raise DataError(
            f"values of shape {shape} take {shown_bytes(needed)}, more than the limit of "
            f"{shown_bytes(allowed)}: explain fewer rows at a time (explain_batches, or the "
            "command hedgerow explain), name some outputs, or raise memory_limit."
        )


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of the data at the start of errors."""
    try:
        yield
    except (DataError, DataTypeError) as error:
        raise type(error)(f"{name}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The options of an explanation, except rows and background.

    ``offset`` is float64 (n_outputs, n_rows).  Without ``output_names`` the values have no axis
    for outputs.  The other fields are those of :class:`Explanation` and
    :meth:`ExplainedPredictions.explain`.
    """

    data: Any
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    interactions: bool
    n_threads: int
    memory_limit: int | float | str | None
    offset: FloatArray | None = None


def explain_rows(
    explainer: Explainer,
    values: AnyArray | SparseTable,
    background: AnyArray | SparseTable | None,
    request: Request,
) -> Explanation:
    """Explain the inputs of the trees of rows; without a background, training rows replace it."""
    if request.interactions and background is not None:
        raise ParameterError(
            "interactions=True needs the path-dependent values: leave out the background, or "
            "explain single columns with it."
        )
    n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
    n_columns = len(request.feature_names)
    pairs = (n_columns,) if request.interactions else ()
    check_memory((n_rows, n_columns, *pairs, explainer.n_outputs), request.memory_limit)
    from hedgerow.explain.background import BackgroundExplainer

    if background is None:
        found = explainer.values(values, request.n_threads, pairs=request.interactions)
        base = explainer.base_values
    else:
        one = BackgroundExplainer(explainer, background, isinstance(values, SparseTable))
        found, base = one.values(values, request.n_threads), one.base_values
    if request.offset is not None:
        base = base + request.offset.T
    several = len(request.output_names) > 0
    return Explanation(
        found if several else found[..., 0],
        base if several else base[..., 0],
        request.data,
        request.feature_names,
        request.output_names,
        request.interactions,
    )


class ExplainedPredictions(BoosterPart):
    """Explanations of a :class:`hedgerow.Booster`."""

    @once
    def _explainers(self) -> dict[tuple[int, ...] | None, Explainer]:
        """Explainers of some outputs, created on first use."""
        return {}

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the raw scores: classes, targets, levels or parameters; none for one score."""
        return names_of_outputs(self.model, self._objective, self._classes)

    def explain(
        self,
        X: Any,
        *,
        background: Any = None,
        interactions: bool = False,
        outputs: Outputs = None,
        n_jobs: int | None = None,
        offset: Any = None,
        memory_limit: int | float | str | None = None,
        reader: str = "Booster",
    ) -> Explanation:
        """Compute Shapley values: the contribution of each column to the raw score of each row.

        The contribution is the change in the expected raw score when the column becomes known,
        averaged over all orders of the columns.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        background : same as X, optional
            Rows that supply the values of unknown columns (interventional).  By default, splits on
            unknown columns are followed in proportion to the training rows
            (path-dependent).
        interactions : bool, default=False
            Divide each value into the column's own part and its interactions with other columns;
            only without a background.
        outputs : int, str, or sequence of these, optional
            Numbers or names of the raw scores to explain, for a model with several
            (:attr:`output_names`); default: all.  A single output outside a list has no axis in
            the result.
        n_jobs : int, optional
            Maximum number of threads; default: all available ones.
        offset : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Added to the base value of each row, because it is part of the raw score.
        memory_limit : int, float or str, optional
            Limit on the memory of the values, in bytes or text such as ``"2 GB"``; default: half of
            the available memory.
        reader : str, default="Booster"
            Name in error messages.

        Returns
        -------
        Explanation
            Its values and base values add up to ``predict(X, kind="raw")``.

        Raises
        ------
        ParameterError
            For an unknown output, for interactions with a background, and for linear leaves with
            more than ten columns.
        DataError, DataTypeError
            If X, the background or the offset do not fit the model, the background has no
            rows, or the values do not fit into memory.

        Notes
        -----
        In binary classification the raw score is the log-odds of the second class.  A category
        without training rows is a separate value.  A target statistic belongs to its column; a
        statistic of two columns belongs half to each.  In a linear leaf, an unknown column is at
        its center.

        Sources: Lundberg et al. 2020 (both kinds of values, interactions).  The algorithm:
        :mod:`hedgerow.kernels.shapley.tree_walk`.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> X, y = [[0.0, 5.0], [0.0, 6.0], [1.0, 5.0], [1.0, 6.0]] * 10, [0.0, 0.0, 2.0, 2.0] * 10
        >>> booster = train({"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0,
        ...                  "min_samples_leaf": 1}, Dataset(X, y))
        >>> found = booster.explain(X[:3])
        >>> found.values.tolist(), float(found.base_values)
        ([[-1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], 1.0)
        """
        names = self.output_names
        chosen, single = read_outputs(outputs, names)
        features, given = offset_of_rows(self.model, X, offset)
        values, n_threads = self._inputs(features, n_jobs, reader)
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        others = None
        if background is not None:
            with named("background"):
                rows = features_of_rows(self.model, background)
                others, _ = self._inputs(rows, n_jobs, reader)
        added = check_offset(given, n_rows, self.model.forest.n_outputs)
        if added is not None and chosen is not None:
            added = added[list(chosen)]
        request = Request(
            data=X,
            feature_names=self.model.schema.names,
            output_names=() if single else tuple(names[k] for k in chosen or range(len(names))),
            interactions=check_bool(interactions, "interactions"),
            n_threads=n_threads,
            memory_limit=memory_limit,
            offset=added,
        )
        return explain_rows(self._explainer(chosen), values, others, request)

    def _explained(self, X: Any, n_jobs: int | None) -> Explanation:
        """Return Shapley values of rows, for importances."""
        return self.explain(X, n_jobs=n_jobs)

    def explain_batches(
        self,
        batches: Any,
        *,
        background: Any = None,
        interactions: bool = False,
        outputs: Outputs = None,
        n_jobs: int | None = None,
        batch_rows: int = BATCH_ROWS,
        memory_limit: int | float | str | None = None,
    ) -> Iterator[Explanation]:
        """Explain tables one after the other, each when its values are requested.

        Parameters
        ----------
        batches : iterable of tables, or object with ``__arrow_c_stream__``
            As for :meth:`predict_batches`.
        background, interactions, outputs, n_jobs, memory_limit
            As for :meth:`explain`; the limit applies to one batch.
        batch_rows : int, default=65_536
            Maximum number of rows per batch of an Arrow stream.

        Returns
        -------
        iterator of Explanation
            The concatenated values equal the values of all rows at once, to the last bit.

        Raises
        ------
        ParameterError, DataError, DataTypeError
            As for :meth:`explain`; the message has the number of the table, counted from 0.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0])
        >>> booster = train({"n_estimators": 1, "min_samples_leaf": 1}, data)
        >>> parts = booster.explain_batches([[[1.0], [2.0]], [[4.0]]])
        >>> [len(part) for part in parts]
        [2, 1]
        """
        check_batch_rows(batch_rows)
        from hedgerow.io.streaming import as_batches  # estimators have no such method

        for number, table in enumerate(as_batches(batches, int(batch_rows))):
            with named(f"batch {number}"):
                found = self.explain(
                    table,
                    background=background,
                    interactions=interactions,
                    outputs=outputs,
                    n_jobs=n_jobs,
                    memory_limit=memory_limit,
                )
            yield found

    def _explainer(self, chosen: tuple[int, ...] | None) -> Explainer:
        """Return the explainer of some outputs, kept for the next rows."""
        found = self._explainers.get(chosen)
        if found is None:
            from hedgerow.explain.explainer import Explainer

            model = self.model
            # Each set of terms is a leaf of the game, whose value is that of one output.
            lines = model.forest.slopes is not None
            forest = without_vectors(model.forest) if lines else model.forest
            forest = forest if chosen is None else forest_of_outputs(forest, chosen)
            found = Explainer(
                forest,
                model.split_schema.kinds,
                None if model.inputs is None else model.inputs.sources,
                model.schema.n_features,
                backs_off=model.schema.unknown == "backoff",
            )
            self._explainers[chosen] = found
        return found
