"""The trained model, :class:`Booster`, and :func:`load`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Never, get_args

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.automatic.magnitudes import warn_of_infinite
from hedgerow.boosting.inspect.evaluation import Evaluation
from hedgerow.boosting.inspect.predictions import PredictionForms
from hedgerow.boosting.resume.refit import Refitting
from hedgerow.boosting.row_data.checks import check_offset
from hedgerow.boosting.row_data.classes import (
    classes_of_record,
    true_probabilities,
    weighted_raw,
    weights_of,
)
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.offsets import features_of_rows, offset_columns, offset_of_rows
from hedgerow.convert.exporting import Exports
from hedgerow.convert.reading import load_any, warn_of_classes
from hedgerow.cuda.arrays import gpu_array
from hedgerow.data import SparseTable, read_any
from hedgerow.data.inputs import numbers_for_trees
from hedgerow.data.reading.table import UnseenCounts
from hedgerow.errors import (
    ModelFormatError,
    ParameterError,
    StorageError,
    brief,
    did_you_mean,
    path_repr,
)
from hedgerow.explain.views import ExplainedPredictions
from hedgerow.inspection.background import Inspected
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.io.forms import ModelForms
from hedgerow.io.streaming import StreamedPredictions
from hedgerow.model.model import Model, check_stages, mean_of_trees, trees_of_rounds
from hedgerow.model.monotone import MonotoneChecks
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective, SeveralTargets, objective_of_record, parameters_of
from hedgerow.objectives.catalogue import task_of
from hedgerow.once import once
from hedgerow.params import PredictionKind
from hedgerow.peers import OF_BOOSTER, OF_PREDICT, NamesOfPeers, refuse_arguments
from hedgerow.plot.curves import ModelViews
from hedgerow.plot.views import InspectionPictures
from hedgerow.threads import check_jobs, resolve_threads

if TYPE_CHECKING:
    from hedgerow.model.gpu_scores import GpuScorer

_KINDS: tuple[str, ...] = get_args(PredictionKind)
_FIRST = 0
"""First round.  One row needs so little time that a comparison by identity counts."""

FEW_ROWS = 256
"""Smaller batches use a single thread: counting the processors would take longer."""


class Booster(
    ModelViews,
    ExplainedPredictions,
    InspectionPictures,
    MonotoneChecks,
    StreamedPredictions,
    PredictionForms,
    Refitting,
    Evaluation,
    ModelForms,
    Exports,
    NamesOfPeers,
):
    """A trained model, as returned by :func:`train` and :func:`load`.

    Predictions only change the counts of unseen categories, so threads and forked
    processes may share a booster.  Its pickle holds the bytes of the model file.

    Parameters
    ----------
    model : Model
    classes : ndarray of shape (n_classes,), optional
        Class labels by index, which :meth:`predict` returns.
    """

    _names_of_peers: ClassVar[Mapping[str, str]] = OF_BOOSTER

    def __init__(self, model: Model, classes: AnyArray | None = None) -> None:
        self.model = model
        self._classes = classes
        self._schema = model.schema
        self._objective = objective_of(model)
        self._predictor = Predictor(model.forest, model.split_schema.kinds)
        self._unseen = UnseenCounts()

    def __getstate__(self) -> dict[str, Any]:
        """Return the bytes of the model file and the class labels."""
        return {"file": model_to_bytes(self.model), "classes": self._classes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Booster.__init__(self, model_from_bytes(state["file"])[0], state["classes"])

    def __repr__(self) -> str:
        known = parameters_of(self._objective).values()
        parameters = "".join(f" {value}" for value in known if value is not None)
        return (
            f"<Booster: {self.num_trees} trees, {self.num_features} features, "
            f"objective {self.objective!r}{parameters}>"
        )

    @property
    def objective(self) -> str:
        """Name of the loss that the model was trained with."""
        return self.model.objective

    @property
    def num_trees(self) -> int:
        """Number of trees: ``num_rounds`` times the number of trees in a round."""
        return self.model.forest.n_trees

    @property
    def num_rounds(self) -> int:
        """Number of boosting rounds in the model."""
        return self.model.forest.n_rounds

    @property
    def num_features(self) -> int:
        """Number of feature columns that a table for prediction must have."""
        return self._schema.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of training."""
        return self._schema.names

    @property
    def offset_columns(self) -> tuple[str, ...]:
        """Columns of a table that are added to the raw scores; they are not features."""
        return offset_columns(self.model)

    @property
    def classes(self) -> AnyArray | None:
        """Class labels by index, like ``classes_`` of the classifier.

        None for regression, for several labels per row, and for models of :func:`train`,
        whose classes are indices.
        """
        return self._classes

    @property
    def target_names(self) -> tuple[str, ...] | None:
        """Names of several targets or labels; None for a single target."""
        known = self._objective
        return known.names if isinstance(known, SeveralTargets) else None

    def predict(
        self,
        X: Any,
        kind: PredictionKind = "value",
        *,
        first_round: int = 0,
        n_rounds: int | None = None,
        n_jobs: int | None = None,
        offset: Any = None,
        **others: Never,
    ) -> npt.NDArray[Any]:
        """Predict values, raw scores, probabilities or leaves.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
            The columns of a frame are matched by name if the training table had column
            names.
        kind : {"value", "raw", "probability", "leaf"}, default="value"
            ``"value"``: the predicted target; for classification the most probable class,
            as a label if the booster has ``classes``, else as an index.  ``"raw"``: base
            score plus the sum of the trees.  ``"probability"``: probability of each class.
            ``"leaf"``: node that the row reaches in each tree.
        first_round : int, default=0
            First round to use.  The base score is always included.
        n_rounds : int, optional
            Number of rounds to use, from ``first_round`` on; by default all.  A random
            forest averages the selected trees.  Not available for DART.
        n_jobs : int, optional
            Most threads to use; by default all available processors.
        offset : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Added to the raw scores.  Models with ``offset_columns`` read them from X.

        Returns
        -------
        ndarray
            ``"value"``: float64, int64 or the type of ``classes``, shape (n_rows,), or
            (n_rows, n_levels) for several quantiles.  ``"raw"``: float64, shape (n_rows,)
            or (n_rows, n_outputs).  ``"probability"``: float64, shape (n_rows, n_classes).
            ``"leaf"``: int32, shape (n_rows, n_trees).

        Raises
        ------
        ParameterError
            If ``kind`` is unknown or this model does not support it.
        DataError, DataTypeError
            If X does not have the columns of the model.
        """
        if others:
            refuse_arguments(Booster.predict, others, OF_PREDICT)
        self._check_kind(kind)
        if kind == "leaf":
            if offset is not None:
                raise ParameterError("offset has no effect on leaves: leave it out.")
            first, stop = trees_of_rounds(self.model, first_round, n_rounds)
            return self.leaves(X, n_jobs=n_jobs)[:, first:stop]
        raw = self.raw_scores(
            X, first_round=first_round, n_rounds=n_rounds, n_jobs=n_jobs, offset=offset
        )
        return self._prediction(raw, kind)

    def staged_predict(
        self,
        X: Any,
        kind: PredictionKind = "value",
        *,
        n_jobs: int | None = None,
        offset: Any = None,
    ) -> Iterator[npt.NDArray[Any]]:
        """Yield the predictions after each round.

        Parameters are those of :meth:`predict`; ``kind="leaf"`` is not available.
        """
        self._check_kind(kind)
        check_stages(self.model)
        if kind == "leaf":
            raise ParameterError(
                "kind='leaf' is not available in staged_predict, because a leaf belongs to one "
                "tree: use predict(X, kind='leaf')."
            )
        stages = self.staged_raw_scores(X, n_jobs=n_jobs, offset=offset)
        return (self._prediction(raw, kind) for raw in stages)

    def raw_scores(
        self,
        X: Any,
        *,
        first_round: int = _FIRST,
        n_rounds: int | None = None,
        n_jobs: int | None = None,
        reader: str = "Booster",
        offset: Any = None,
    ) -> FloatArray:
        """Return raw scores, shape (n_outputs, n_rows); errors refer to ``reader``."""
        some_rounds = n_rounds is not None or first_round is not _FIRST
        if type(X) is np.ndarray and not some_rounds and X.ndim == 2 and len(X) == 1:
            row = self._single.of_table(X) if offset is None else None
            if row is not None:
                return row
        X, row_offset = offset_of_rows(self.model, X, offset)
        first, stop = 0, self.num_trees
        if some_rounds:
            first, stop = trees_of_rounds(self.model, first_round, n_rounds)
        raw = self._raw_on_gpu(X, first, stop)
        if raw is None:
            raw = self._predictor.raw_scores(*self._inputs(X, n_jobs, reader), first, stop)
        raw = mean_of_trees(self.model, raw, stop - first)
        added = check_offset(row_offset, raw.shape[1], len(raw))
        return raw if added is None else raw + added

    def staged_raw_scores(
        self, X: Any, *, n_jobs: int | None = None, reader: str = "Booster", offset: Any = None
    ) -> Iterator[FloatArray]:
        """Yield the raw scores, shape (n_outputs, n_rows), after each round."""
        check_stages(self.model)
        X, row_offset = offset_of_rows(self.model, X, offset)
        values, threads = self._inputs(X, n_jobs, reader)
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        added = check_offset(row_offset, n_rows, self.model.forest.n_outputs)
        per_round = self.model.forest.trees_per_round
        stages = (
            mean_of_trees(self.model, raw, per_round * number)
            for number, raw in enumerate(self._predictor.staged(values, threads), 1)
        )
        return stages if added is None else (raw + added for raw in stages)

    @once
    def _gpu_scorer(self) -> GpuScorer:
        from hedgerow.model.gpu_scores import GpuScorer

        return GpuScorer(self.model, self._predictor.tables)

    def _raw_on_gpu(self, X: Any, first_tree: int, stop_tree: int) -> FloatArray | None:
        """Return raw scores of a table on a GPU, computed there; None if not possible."""
        table = gpu_array(X)
        if table is None or not self._gpu_scorer.covers(table):
            return None
        # The scores have the bits of those that the processor computes from a copy.
        found = self._gpu_scorer.scores(table, first_tree, stop_tree)
        if found is None:
            return None
        self._unseen.add(found.unseen)
        return found.raw

    def link(self, raw: FloatArray) -> FloatArray:
        """Convert raw scores, shape (n_outputs, n_rows), to values or probabilities."""
        values = self._objective.predict(raw)
        warn_of_infinite(self.model, raw, values)
        if weights_of(self.model) is None:
            return values
        return true_probabilities(self.model, values)

    def leaves(
        self, X: Any, *, n_jobs: int | None = None, reader: str = "Booster"
    ) -> npt.NDArray[np.int32]:
        """Return the node that each row reaches in each tree, shape (n_rows, n_trees)."""
        X = features_of_rows(self.model, X)
        return self._predictor.leaves(*self._inputs(X, n_jobs, reader))

    def _inputs(
        self, X: Any, n_jobs: int | None, reader: str
    ) -> tuple[AnyArray | SparseTable, int]:
        """Return the inputs of the trees for each row, and the number of threads."""
        table = read_any(X, self._schema, reader=reader)
        self._unseen.add(table.unseen)
        n_threads = self._threads(table.n_rows, n_jobs)
        return numbers_for_trees(table, self.model.inputs, n_threads), n_threads

    @property
    def unseen_categories(self) -> dict[str, int]:
        """Number of predicted rows with a category that no training row had, by column.

        A rising count is a sign of data drift; :meth:`reset_unseen_categories` starts again.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> booster = train(None, Dataset({"colour": ["red", "blue"]}, [1.0, 0.0]))
        >>> booster.predict({"colour": "green"}).shape, booster.unseen_categories
        ((1,), {'colour': 1})
        """
        return self._unseen.totals()

    def reset_unseen_categories(self) -> None:
        """Set the counts of unseen categories to 0."""
        self._unseen.reset()

    def _threads(self, n_rows: int, n_jobs: int | None) -> int:
        if n_rows >= FEW_ROWS:
            return resolve_threads(n_jobs)
        check_jobs(n_jobs)
        return 1

    def _check_kind(self, kind: str) -> None:
        if not isinstance(kind, str) or kind not in _KINDS:  # this is faster than a function
            raise ParameterError(
                f"kind must be one of {', '.join(map(repr, _KINDS))}; got {brief(kind)}."
                f"{did_you_mean(kind, _KINDS)}"
            )
        if kind == "probability" and task_of(self._objective) == "regression":
            raise ParameterError(
                f"kind='probability' needs a classifier; the objective is {self.objective!r}: "
                "use kind='value'."
            )

    def _prediction(self, raw: FloatArray, kind: str) -> npt.NDArray[Any]:
        """Return the result of :meth:`from_raw`, with class labels if they are known."""
        found = self.from_raw(raw, kind)
        return self._classes[found] if kind == "value" and self._classes is not None else found

    def from_raw(self, raw: FloatArray, kind: str) -> npt.NDArray[Any]:
        """Convert raw scores, shape (n_outputs, n_rows), to predictions; classes as indices."""
        if kind == "raw":
            return raw[0] if len(raw) == 1 else np.ascontiguousarray(raw.T)
        if kind == "probability" or task_of(self._objective) == "regression":
            return self.link(raw)
        if isinstance(self._objective, SeveralTargets):
            return np.ascontiguousarray((raw > 0.0).T).astype(np.int64)
        decisive = weighted_raw(self.model, raw)
        if len(decisive) == 1:
            return (decisive[0] > 0.0).astype(np.int64)
        return decisive.argmax(axis=0)

    def _inspected(self) -> Inspected:
        return Inspected(self.model, self._classes, self.target_names)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Booster:
        """Read a model file; see :func:`hedgerow.load`."""
        return load(path)


def objective_of(model: Model) -> Objective:
    """Return the objective of a model, with its parameters."""
    return objective_of_record(model.objective, model.forest.n_outputs, model.training)


def initial_model(init_model: Any) -> tuple[Model, Any]:
    """Return the model that the parameter ``init_model`` refers to."""
    if isinstance(init_model, Booster):
        return init_model.model, init_model
    if isinstance(init_model, str | os.PathLike):
        try:
            return load_any(init_model)[:2]
        except OSError as error:
            raise StorageError(
                f"init_model names the file {path_repr(init_model)}, which cannot be read "
                f"({error.strerror or error}): give the path of a model file, a Booster or a "
                "fitted estimator."
            ) from error
    booster = getattr(init_model, "booster_", None)
    if isinstance(booster, Booster):
        return booster.model, init_model
    is_estimator = hasattr(init_model, "get_params")
    state = "an estimator of another library, or not fitted" if is_estimator else brief(init_model)
    raise ParameterError(
        "init_model must be a Booster, a fitted estimator or the path of a model file; "
        f"got {state}."
    )


def load(path: str | os.PathLike[str]) -> Booster:
    """Read a model file.  It is safe to load files from untrusted sources: no code runs.

    Parameters
    ----------
    path : str or path-like
        File written by :meth:`Booster.save` or by the ``save`` method of an estimator.
        Use the ``load`` method of an estimator class to get an estimator.

    Returns
    -------
    Booster
        A booster with the same predictions as the saved one, including class labels if
        they are in the file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ModelFormatError
        If it is not a valid model file.

    Warns
    -----
    HedgerowWarning
        If it is a classifier of LightGBM or XGBoost, whose boosters predict probabilities:
        :meth:`Booster.predict_proba` does.
    """
    model, record, is_foreign = load_any(path)
    try:
        booster = Booster(model, classes_of_record(objective_of(model), record))
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from None
    if is_foreign:
        warn_of_classes(model)
    return booster


__all__ = ["Booster", "Dataset", "PredictionKind", "load"]
