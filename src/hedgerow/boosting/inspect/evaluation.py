"""Evaluation of a booster: scores of its model on labelled rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import cast

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.classes import CodedLabels, column_of, indices_of
from hedgerow.boosting.row_data.dataset import Dataset, reads_batches
from hedgerow.boosting.row_data.targets import in_order
from hedgerow.errors import DataTypeError
from hedgerow.metrics import MetricChoice
from hedgerow.model.booster_part import BoosterPart
from hedgerow.objectives import Objective
from hedgerow.threads import resolve_threads


class LabelledRows(BoosterPart):
    """Base class of boosters that read rows with targets."""

    def _labelled(self, rows: Dataset, called: Callable[[str], str] = str) -> Sample:
        """Return rows; targets are class indices if the booster knows the classes."""
        objective, table, y = self._objective, rows.table(self._schema), rows.y
        if self._classes is not None and y is not None:
            labels = y if isinstance(y, CodedLabels) else column_of(y, "y")
            target = indices_of(labels, self._classes, "y", "the model")
        else:
            target = in_order(objective, rows.targets(table.n_rows, objective.name))
        return rows.sample(table, target, objective.n_outputs, called)


class Evaluation(LabelledRows):
    """Base class of boosters: evaluation on rows."""

    @abstractmethod
    def link(self, raw: FloatArray) -> FloatArray:
        """Convert raw scores, shape (n_outputs, n_rows), to values or probabilities."""

    def eval(
        self, dataset: Dataset, metric: MetricChoice = None, *, n_jobs: int | None = None
    ) -> dict[str, float]:
        """Evaluate the model on rows with a target.

        Parameters
        ----------
        dataset : Dataset
            With ``y``: labels if the booster knows ``classes``, else as for :func:`train`;
            also with ``weight``, ``offset`` and ``qid``.  Rows in files and batches
            (``Dataset.from_files``) are read in batches, and their scores and targets
            stay in memory.
        metric : str, callable or sequence of these, optional
            As ``eval_metric`` of :func:`train`; None: the loss.
        n_jobs : int, optional
            Largest number of threads; default: all available ones.

        Returns
        -------
        dict from str to float
            Scores by name of the metric.

        Raises
        ------
        DataError, DataTypeError
            If the rows do not fit the model, or have no target.
        ParameterError
            For a metric that is unknown or does not suit the model.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0])
        >>> booster = train({"n_estimators": 2, "min_samples_leaf": 2}, data)
        >>> booster.eval(data, ["mae", "mse"])
        {'mae': 1.3333333333333333, 'mse': 2.0}
        """
        if not isinstance(dataset, Dataset):
            raise DataTypeError(
                f"eval takes a Dataset, which holds rows and their targets; got a "
                f"{type(dataset).__name__}: make one, Dataset(X, y)."
            )
        from hedgerow.boosting.row_data.queries import bound_metrics
        from hedgerow.metrics import evaluate, make_metrics

        threads = resolve_threads(n_jobs)
        metrics = make_metrics(metric, self._objective)
        if reads_batches(dataset):
            with closing(dataset.for_one_use(reads_labels=self._classes is not None)) as own:
                own.survey(classes=self._classes)
                sample, raw = self._scored(own, threads)
        else:
            if self.offset_columns and dataset.offset is None:
                dataset = dataset.having(offset=list(self.offset_columns))
            sample, raw = self._scored(dataset, threads)
        bound = bound_metrics(metrics, sample, self._objective)
        # Metrics see probabilities free of class weights.
        linked = cast(Objective, SimpleNamespace(predict=self.link))
        with sample.naming_rows():
            self._objective.check_target(sample.target)
            return evaluate(bound, linked, sample.target, raw, sample.weight)

    def _scored(self, dataset: Dataset, n_threads: int) -> tuple[Sample, FloatArray]:
        """Return rows and their raw scores; those of files are read block by block."""
        from hedgerow.boosting.loop.driver import raw_of_rows

        sample = self._labelled(dataset).without_zero_weights()
        return sample, raw_of_rows(self._predictor, sample, self.model.inputs, n_threads)
