"""Explanations as methods of a booster."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hedgerow.argument_types import check_bool, listed
from hedgerow.boosting.row_data.checks import check_offset
from hedgerow.boosting.row_data.offsets import features_of_rows, offset_of_rows
from hedgerow.data.external.memory import memory_bytes, shown_bytes
from hedgerow.data.sparse import SparseTable
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief, did_you_mean
from hedgerow.explain.explanation import Explanation
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.forest import Forest
from hedgerow.objectives import SeveralTargets
from hedgerow.once import once

if TYPE_CHECKING:
    from hedgerow.explain.explainer import Explainer

Outputs: TypeAlias = "str | int | Sequence[str | int] | None"
"""Names or numbers of raw scores."""

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
            f"{shown_bytes(allowed)}: explain fewer rows at a time (the command "
            "hedgerow explain does), name some outputs, or raise memory_limit."
        )


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of the data at the start of errors."""
    try:
        yield
    except (DataError, DataTypeError) as error:
        raise type(error)(f"{name}: {error}") from error


class ExplainedPredictions(BoosterPart):
    """Explanations of a :class:`hedgerow.Booster`."""

    @once
    def _explainers(self) -> dict[tuple[int, ...] | None, Explainer]:
        """Explainers of some outputs, created on first use."""
        return {}

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the raw scores: classes, targets, levels or parameters; none for one score."""
        n_outputs, objective = self.model.forest.n_outputs, self._objective
        if n_outputs == 1:
            return ()
        known: Sequence[Any] = range(n_outputs)
        levels = self.model.training.get("quantile")
        if isinstance(objective, SeveralTargets):
            known = objective.names
        elif hasattr(objective, "raw_names"):
            known = objective.raw_names
        elif self._classes is not None and len(self._classes) == n_outputs:
            known = self._classes.tolist()
        elif isinstance(levels, list | tuple) and len(levels) == n_outputs:
            known = levels
        return tuple(map(str, known))

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
        from hedgerow.explain.background import BackgroundExplainer

        names, model = self.output_names, self.model
        chosen, single = read_outputs(outputs, names)
        if check_bool(interactions, "interactions") and background is not None:
            raise ParameterError(
                "interactions=True needs the path-dependent values: leave out the background, or "
                "explain single columns with it."
            )
        features, given = offset_of_rows(model, X, offset)
        values, n_threads = self._inputs(features, n_jobs, reader)
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        added = check_offset(given, n_rows, model.forest.n_outputs)
        explainer, n_columns = self._explainer(chosen), model.schema.n_features
        pairs = (n_columns,) if interactions else ()
        check_memory((n_rows, n_columns, *pairs, explainer.n_outputs), memory_limit)
        if background is None:
            found = explainer.values(values, n_threads, pairs=interactions)
            base = explainer.base_values
        else:
            with named("background"):
                others, _ = self._inputs(features_of_rows(model, background), n_jobs, reader)
            one = BackgroundExplainer(explainer, others, isinstance(values, SparseTable))
            found, base = one.values(values, n_threads), one.base_values
        if added is not None:
            base = base + (added if chosen is None else added[list(chosen)]).T
        shown = () if single else tuple(names[k] for k in chosen or range(len(names)))
        return Explanation(
            found if shown else found[..., 0],
            base if shown else base[..., 0],
            X,
            model.schema.names,
            shown,
            interactions,
        )

    def _explained(self, X: Any, n_jobs: int | None) -> Explanation:
        """Return Shapley values of rows, for importances."""
        return self.explain(X, n_jobs=n_jobs)

    def _explainer(self, chosen: tuple[int, ...] | None) -> Explainer:
        """Return the explainer of some outputs, kept for the next rows."""
        found = self._explainers.get(chosen)
        if found is None:
            from hedgerow.explain.explainer import Explainer

            model = self.model
            forest = model.forest if chosen is None else forest_of_outputs(model.forest, chosen)
            found = Explainer(
                forest,
                model.split_schema.kinds,
                None if model.inputs is None else model.inputs.sources,
                model.schema.n_features,
            )
            self._explainers[chosen] = found
        return found


def read_outputs(outputs: Outputs, names: tuple[str, ...]) -> tuple[tuple[int, ...] | None, bool]:
    """Return the numbers of the requested outputs (None: all), and whether it is one output."""
    if outputs is None:
        return None, False
    single = isinstance(outputs, str | numbers.Integral)
    given = [outputs] if single else listed(outputs)
    if given is None:
        raise ParameterError(
            f"outputs must be a name, a number, a list of these, or None; got {brief(outputs)}."
        )
    if not given:
        raise ParameterError("outputs is empty: name at least one, or leave it out for all.")
    chosen = tuple(_number_of(output, names) for output in given)
    if len(set(chosen)) < len(chosen):
        raise ParameterError(f"outputs contains an output twice: {brief(outputs)}.")
    return (None if not names else chosen), single


def _number_of(output: Any, names: tuple[str, ...]) -> int:
    is_whole = isinstance(output, numbers.Integral) and not isinstance(output, bool)
    if is_whole and 0 <= int(output) < max(1, len(names)):
        return int(output)
    if isinstance(output, str) and output in names:
        return names.index(output)
    if not names:
        raise ParameterError(f"the model has one output, number 0; got outputs={brief(output)}.")
    known = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    raise ParameterError(
        f"outputs must be among {known}, or numbers from 0 to {len(names) - 1}; "
        f"got {brief(output)}.{did_you_mean(output, names)}"
    )


def forest_of_outputs(forest: Forest, chosen: Sequence[int]) -> Forest:
    """Return the model of some raw scores."""
    some = list(chosen)
    if forest.vectors is not None:
        return replace(
            forest,
            vectors=np.ascontiguousarray(forest.vectors[:, some]),
            base_score=forest.base_score[some],
        )
    turns = np.arange(0, forest.n_trees, forest.n_outputs)[:, None]
    trees = (turns + np.array(some)).reshape(-1)
    return forest.some_trees(trees, forest.base_score[some])
