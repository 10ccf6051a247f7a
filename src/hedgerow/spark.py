"""Estimators of Spark ML: the same model as on one machine, trained and applied on a cluster.

Install ``hedgerow[spark]`` where the driver and the executors run Python; there is no jar::

    from hedgerow.spark import SparkHedgerowClassifier

    classifier = SparkHedgerowClassifier(features_col=["age", "city"], num_workers=8)
    model = classifier.fit(rows)
    model.transform(rows)          adds prediction, rawPrediction and probability
    model.booster, model.to_estimator()

Training is one barrier stage.  Each of its ``num_workers`` tasks reads one partition as Arrow
batches and becomes a rank (:mod:`hedgerow.comm.connections`); the driver receives only the model.
Give each task its cores with ``spark.task.cpus``.  If an executor is lost, Spark starts
the stage again, which gives the same bytes.  docs/spark.md has more.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from hedgerow.arrays import AnyArray
from hedgerow.booster import Booster
from hedgerow.comm.connections import DEFAULT_TIMEOUT, TOKEN_BYTES, Listener, joined
from hedgerow.distributed.tables import Columns, estimator_of, features_of, fit_tables
from hedgerow.distributed.work import check_for_clusters
from hedgerow.errors import (
    CommunicationError,
    DataError,
    DataTypeError,
    HedgerowError,
    ParameterError,
    did_you_mean,
)
from hedgerow.estimators import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.classifier import classes_of_raw, decision_of_raw

try:
    from pyspark import BarrierTaskContext
    from pyspark.ml import Estimator, Model, util
    from pyspark.ml.functions import array_to_vector, vector_to_array
    from pyspark.ml.linalg import VectorUDT
    from pyspark.ml.param import Param, Params, TypeConverters, shared
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DoubleType, StringType, StructField, StructType
except ImportError as error:
    raise ImportError(
        f"training on Spark needs pyspark 3.5 or later: pip install 'hedgerow[spark]' ({error})"
    ) from error

__all__ = [
    "SparkHedgerowClassificationModel",
    "SparkHedgerowClassifier",
    "SparkHedgerowRanker",
    "SparkHedgerowRankerModel",
    "SparkHedgerowRegressionModel",
    "SparkHedgerowRegressor",
]

logger = logging.getLogger("hedgerow")

_NOT_ON_CLUSTERS = frozenset({"callbacks", "progress", "warm_start"})
_CAMEL = {
    "features_col": "featuresCol",
    "label_col": "labelCol",
    "weight_col": "weightCol",
    "validation_indicator_col": "validationIndicatorCol",
    "prediction_col": "predictionCol",
    "probability_col": "probabilityCol",
    "raw_prediction_col": "rawPredictionCol",
}
_ROW_VALUES = {"weight": "weightCol", "offset": "offset_col", "qid": "qid_col"}
_TEMPORARY, _OFFSET = "__hedgerow_prediction", "__hedgerow_offset"
_LEAST_SKEW = 1.5
"""A rank with this many times its share of the rows is worth a warning."""


class _Shared(shared.HasFeaturesCol, shared.HasLabelCol, shared.HasPredictionCol):
    """Parameters of estimators and models: columns, and those of the local estimator."""

    _local_class: ClassVar[type[HedgerowEstimator]]

    features_cols = Param(
        Params._dummy(), "features_cols", "columns of features", TypeConverters.toListString
    )
    offset_col = Param(
        Params._dummy(), "offset_col", "column of initial raw scores", TypeConverters.toString
    )

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "_local_class" in vars(cls):
            for name in _names_of(cls._local_class):
                about = f"parameter of {cls._local_class.__name__}"
                setattr(cls, name, Param(Params._dummy(), name, about))

    def _column(self, name: str) -> str | None:
        """Return the value of a parameter that names a column, if it is set."""
        found = self.hasParam(name) and self.isDefined(name) and self.getOrDefault(name)
        return str(found) if found else None

    def _feature_names(self) -> tuple[str, ...]:
        several = self.isDefined("features_cols")
        return tuple(self.getOrDefault("features_cols")) if several else (self.getFeaturesCol(),)

    def _features(self, dataset: Any) -> list[Any]:
        """Return the columns of features for Arrow: one of lists, or several."""
        if self.isDefined("features_cols"):
            return [F.col(name) for name in self._feature_names()]
        (name,) = self._feature_names()
        column, kind = F.col(name), dataset.schema[name].dataType
        if isinstance(kind, VectorUDT):
            return [vector_to_array(column).alias(name)]
        if isinstance(kind, ArrayType):
            return [column.cast("array<double>").alias(name)]
        raise DataTypeError(
            f"features_col {name!r} must be a vector or an array of numbers, got "
            f"{kind.simpleString()}: give a list of columns for other types."
        )


def _names_of(local: type[HedgerowEstimator]) -> list[str]:
    return [name for name in local._get_param_names() if name not in _NOT_ON_CLUSTERS]


class _HedgerowModel(_Shared, Model, util.MLReadable, util.MLWritable):
    """A model that ``fit`` of a Spark estimator returns.

    Parameters
    ----------
    content : bytes
        The model file of the fitted estimator.
    """

    def __init__(self, content: bytes = b"") -> None:
        super().__init__()
        self._content = content

    @property
    def booster(self) -> Booster:
        """The trained model, for predictions and explanations on one machine."""
        found: Booster = self.to_estimator().booster_
        return found

    def to_estimator(self) -> Any:
        """Return the fitted estimator for tables in memory, such as ``HedgerowClassifier``."""
        return estimator_of(self._local_class, self._content)

    def write(self) -> util.MLWriter:
        """Return a writer: ``model.write().overwrite().save(path)``."""
        return _Writer(self)

    @classmethod
    def read(cls) -> util.MLReader:
        """Return a reader: ``load(path)`` is short for ``read().load(path)``."""
        return _ModelReader(cls)

    def _outputs(self, local: Any) -> dict[str, Any]:
        """Return the types of the columns that predictions add, by name."""
        booster = local.booster_
        several = isinstance(booster.model.training.get("quantile"), list)
        kind = ArrayType(DoubleType()) if several or booster.target_names else DoubleType()
        return {self.getOrDefault("predictionCol"): kind}

    @staticmethod
    def _predict(local: Any, X: Any, offset: Any) -> list[AnyArray]:
        """Return the values of these columns."""
        return [local.predict(X, offset=offset)]

    def _transform(self, dataset: Any) -> Any:
        offset = self._column("offset_col")
        given = [F.col(offset).cast("double").alias(_OFFSET)] if offset else []
        outputs = self._outputs(self.to_estimator())
        fields = [StructField(f"_{k}", kind) for k, kind in enumerate(outputs.values())]
        names = [*self._feature_names(), *([_OFFSET] if offset else [])]
        predict = _predictor(type(self), self._content, names, StructType(fields))
        found = dataset.withColumn(_TEMPORARY, predict(*self._features(dataset), *given))
        vectors = {self._column("rawPredictionCol"), self._column("probabilityCol")}
        for k, name in enumerate(outputs):
            column = F.col(f"{_TEMPORARY}._{k}")
            found = found.withColumn(name, array_to_vector(column) if name in vectors else column)
        return found.drop(_TEMPORARY)


def _predictor(
    kind: type[_HedgerowModel], content: bytes, names: list[str], returned: StructType
) -> Any:
    """Return the function of Spark that predicts from columns with these names, in batches."""
    features = [name for name in names if name != _OFFSET]

    def predicted(batches: Iterator[Any]) -> Iterator[list[AnyArray]]:
        local = estimator_of(kind._local_class, content)
        local.n_jobs = 1  # Spark runs a task on each core
        for given in batches:
            columns = given if isinstance(given, tuple) else (given,)
            table = pa.Table.from_arrays(
                [one if isinstance(one, pa.Array) else pa.array(one) for one in columns], names
            )
            offset = table[_OFFSET].to_numpy() if _OFFSET in names else None
            yield kind._predict(local, features_of(table, features), offset)

    if hasattr(F, "arrow_udf"):  # from pyspark 4.1

        def by_arrow(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
            for columns in predicted(batches):
                arrays = [_arrow(one) for one in columns]
                yield pa.StructArray.from_arrays(arrays, names=returned.fieldNames())

        return F.arrow_udf(by_arrow, returned)

    def by_pandas(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        for columns in predicted(batches):
            yield pd.DataFrame(
                {
                    name: list(one) if one.ndim == 2 else one
                    for name, one in zip(returned.fieldNames(), columns, strict=True)
                }
            )

    return F.pandas_udf(by_pandas, returned)


def _arrow(values: AnyArray) -> Any:
    if values.ndim == 1:
        return pa.array(values)
    starts = pa.array(np.arange(len(values) + 1, dtype=np.int32) * values.shape[1])
    return pa.ListArray.from_arrays(starts, pa.array(np.ascontiguousarray(values).reshape(-1)))


class _Writer(util.MLWriter):
    """Writes parameters and, of models, the file of the fitted estimator."""

    def __init__(self, saved: _Shared) -> None:
        super().__init__()
        self._saved = saved

    def _handleOverwrite(self, path: str) -> None:
        """Leave it to the writers of both parts, which need no JVM, as clients of Connect."""

    def saveImpl(self, path: str) -> None:
        """Save both parts in folders of their own."""
        spark, mode = self.sparkSession, "overwrite" if self.shouldOverwrite else "error"
        about = util.DefaultParamsWriter._get_metadata_to_save(self._saved, spark)
        rows = spark.createDataFrame([(about,)], "value string").coalesce(1)
        rows.write.mode(mode).text(os.path.join(path, "metadata"))
        if isinstance(self._saved, _HedgerowModel):
            rows = spark.createDataFrame([(bytearray(self._saved._content),)], "content binary")
            rows.write.mode(mode).option("compression", "none").parquet(os.path.join(path, "model"))


class _ModelReader(util.MLReader):
    def __init__(self, kind: type[_HedgerowModel]) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        """Load a model that its writer saved."""
        spark = self.sparkSession
        about = util.DefaultParamsReader.loadMetadata(path, getattr(spark, "sparkContext", spark))
        row = spark.read.parquet(os.path.join(path, "model")).first()
        model = self._kind(bytes(row["content"]))
        model._resetUid(about["uid"])
        util.DefaultParamsReader.getAndSetParams(model, about)
        return model


class _HedgerowEstimator(
    _Shared, shared.HasWeightCol, shared.HasValidationIndicatorCol,
    Estimator, util.DefaultParamsReadable, util.MLWritable,
):  # fmt: skip
    """Base class of the estimators."""

    _model_class: ClassVar[type[_HedgerowModel]]

    num_workers = Param(
        Params._dummy(), "num_workers", "tasks that train together", TypeConverters.toInt
    )
    force_repartition = Param(
        Params._dummy(), "force_repartition", "divide the rows anew", TypeConverters.toBoolean
    )
    memory_limit = Param(
        Params._dummy(), "memory_limit", "bytes for binned rows in each task; others go to disk"
    )
    timeout = Param(
        Params._dummy(), "timeout", "seconds that a task waits for another", TypeConverters.toFloat
    )

    def __init__(self, **given: Any) -> None:
        super().__init__()
        local = self._local_class().get_params(deep=False)
        self._setDefault(
            num_workers=1, force_repartition=False, memory_limit=None, timeout=DEFAULT_TIMEOUT,
            **{name: local[name] for name in _names_of(self._local_class)},
        )  # fmt: skip
        self.setParams(**given)

    def setParams(self, **given: Any) -> Any:
        """Set parameters by the names of the constructor."""
        for name, value in given.items():
            if name == "features_col" and not isinstance(value, str):
                self._set(features_cols=list(value))
                continue
            own = _CAMEL.get(name, name)
            if not self.hasParam(own):
                known = [*_CAMEL, *(param.name for param in self.params)]
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {name!r}.{did_you_mean(name, known)}"
                )
            if value is not None or own not in _CAMEL.values():
                self._set(**{own: value})
        return self

    def write(self) -> util.MLWriter:
        """Return a writer: ``classifier.write().overwrite().save(path)``."""
        return _Writer(self)

    def to_local(self) -> HedgerowEstimator:
        """Return the local estimator with the same parameters, not fitted."""
        return self._local_class(
            **{name: self.getOrDefault(name) for name in _names_of(self._local_class)}
        )

    def _fit(self, dataset: Any) -> _HedgerowModel:
        local = self.to_local()
        check_for_clusters(local)
        local._check_objective()
        columns, rows = self._selected(dataset)
        spark = dataset.sparkSession
        run = _rank_of_task(
            local, columns, os.urandom(TOKEN_BYTES), int(_setting(spark, "spark.task.cpus", "1")),
            self.getOrDefault("memory_limit"), self.getOrDefault("timeout"),
        )  # fmt: skip
        schema = "content binary, problem string, n_rows long"
        # Spark starts a barrier stage again only if another stage follows.
        found = rows.mapInArrow(run, schema, barrier=True).repartition(1).collect()
        if not found:
            raise DataError("there are no rows.")
        problems = [row["problem"] for row in found if row["problem"]]
        if problems:
            # The rank with the problem, rather than those that it told.
            kind, text = json.loads(min(problems, key=lambda one: "gave up: " in one))
            raise {one.__name__: one for one in (DataError, DataTypeError, ParameterError)}.get(
                kind, HedgerowError
            )(text)
        lengths = [row["n_rows"] for row in found]
        if max(lengths) * len(lengths) > _LEAST_SKEW * sum(lengths):
            logger.warning(
                "the rows are divided unevenly between the tasks (%s): all wait for the largest. "
                "force_repartition=True divides them anew.", ", ".join(map(str, lengths)),
            )  # fmt: skip
        content = next(bytes(row["content"]) for row in found if row["content"])
        return self._copyValues(self._model_class(content))

    def _selected(self, dataset: Any) -> tuple[Columns, Any]:
        """Return the needed columns, divided into one partition for each task."""
        names = [self._column("labelCol"), self._column("validationIndicatorCol")]
        given = {value: self._column(param) for value, param in _ROW_VALUES.items()}
        others = [name for name in (*names, *given.values()) if name]
        features, feature_names = self._features(dataset), self._feature_names()
        for name in (*feature_names, *others):
            if name not in dataset.columns:
                raise DataError(
                    f"there is no column {name!r} in the data frame."
                    f"{did_you_mean(name, dataset.columns)}"
                )
        aside = [F.col(name).alias(f"__hedgerow_{name}") for name in dict.fromkeys(others)]
        rows = dataset.select(*features, *aside)
        n_workers = self.getOrDefault("num_workers")
        if n_workers < 1:
            raise ParameterError(f"num_workers must be at least 1; got {n_workers}.")
        if self.getOrDefault("force_repartition") or _n_partitions(rows) != n_workers:
            query = [F.col(f"__hedgerow_{given['qid']}")] if given["qid"] else []
            rows = rows.repartition(n_workers, *query)
        named = {value: f"__hedgerow_{name}" for value, name in given.items() if name}
        valid = f"__hedgerow_{names[1]}" if names[1] else None
        return Columns(feature_names, f"__hedgerow_{names[0]}", named, valid), rows


def _n_partitions(rows: Any) -> int | None:
    """Return the number of partitions; None if no barrier stage can read them."""
    # Those of ``coalesce``, ``union`` and ``limit`` come from other numbers of partitions in the
    # same stage: Spark 4 ends its session for such a barrier stage.
    try:
        pending = [rows._jdf.queryExecution().toRdd()]
    except Exception:  # Spark Connect, which does not tell: it has several errors
        return None
    n_partitions = int(pending[0].getNumPartitions())
    while pending:
        one = pending.pop()
        if one.getNumPartitions() != n_partitions:
            return None
        found = one.dependencies()
        before = [found.apply(k) for k in range(found.size())]
        pending += [one.rdd() for one in before if "Shuffle" not in one.getClass().getName()]
    return n_partitions


def _setting(spark: Any, name: str, otherwise: str) -> str:
    try:
        return str(spark.conf.get(name, otherwise))
    except Exception:  # some settings are hidden from Connect
        return otherwise


def _rank_of_task(
    local: HedgerowEstimator,
    columns: Columns,
    token: bytes,
    n_threads: int,
    memory_limit: int | None,
    timeout: float,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that each task of the barrier stage calls with its Arrow batches."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = BarrierTaskContext.get()
        rank = context.partitionId()
        own = [batch for batch in batches if batch.num_rows]
        host = context.getTaskInfos()[rank].address.rpartition(":")[0]
        listener = Listener(host)
        table = pa.Table.from_batches(own) if own else None
        # Each attempt of the stage has its own token, so no rank of an older one takes part.
        ends = context.allGather(json.dumps([listener.address, secrets.token_hex(16)]))
        own_token = hmac.digest(token, "".join(ends).encode(), "sha256")
        addresses = [json.loads(end)[0] for end in ends]
        content, problem = b"", None
        try:
            with joined(listener, own_token, rank, addresses, timeout=timeout) as ranks:
                content = fit_tables(
                    local, ranks, table, columns, n_threads=n_threads, memory_limit=memory_limit
                )
        except HedgerowError as error:
            # Spark starts the stage again for an exception: not for wrong data or parameters.
            if isinstance(error, CommunicationError) and "gave up: " not in str(error):
                raise
            problem = json.dumps([type(error).__name__, str(error)])
        n_rows = 0 if table is None else table.num_rows
        yield pa.RecordBatch.from_pydict(
            {"content": [content], "problem": [problem], "n_rows": [n_rows]},
            pa.schema([("content", pa.binary()), ("problem", pa.string()), ("n_rows", pa.int64())]),
        )

    return run


class _Classes(shared.HasProbabilityCol, shared.HasRawPredictionCol):
    """Columns of classifiers and of their models."""


class SparkHedgerowClassificationModel(_HedgerowModel, _Classes):
    """A classifier that :class:`SparkHedgerowClassifier` has fitted.

    ``transform`` adds the class (a number, or text if the labels are text), raw scores and
    probabilities as vectors in the order of ``to_estimator().classes_``.
    """

    _local_class = HedgerowClassifier

    def _outputs(self, local: Any) -> dict[str, Any]:
        is_text = local.classes_.dtype.kind in "OU"
        return {
            self.getOrDefault("predictionCol"): StringType() if is_text else DoubleType(),
            self.getOrDefault("rawPredictionCol"): ArrayType(DoubleType()),
            self.getOrDefault("probabilityCol"): ArrayType(DoubleType()),
        }

    @staticmethod
    def _predict(local: Any, X: Any, offset: Any) -> list[AnyArray]:
        booster = local._fitted_booster(X)
        found = local._raw(booster, X, offset)  # once for all columns
        classes, raw = classes_of_raw(booster, found), decision_of_raw(booster, found)
        is_text = classes.dtype.kind in "OU"
        return [
            classes.astype(object if is_text else np.float64),
            np.column_stack((-raw, raw)) if raw.ndim == 1 else raw,
            booster.link(found),
        ]


class SparkHedgerowRegressionModel(_HedgerowModel):
    """A regressor that :class:`SparkHedgerowRegressor` has fitted.

    ``transform`` adds the prediction, or an array of them for several quantiles.
    """

    _local_class = HedgerowRegressor


class SparkHedgerowRankerModel(_HedgerowModel):
    """A ranker that :class:`SparkHedgerowRanker` has fitted; ``transform`` adds the score."""

    _local_class = HedgerowRanker


class SparkHedgerowClassifier(_HedgerowEstimator, _Classes):
    """Gradient-boosted decision trees for classification, trained on Spark.

    The model has the bytes of :class:`hedgerow.HedgerowClassifier` fitted to the same rows in the
    order of the partitions.

    Parameters
    ----------
    features_col : str or list of str, default="features"
        A column of vectors or of arrays of numbers, or several columns; columns of text are
        categories.
    label_col : str, default="label"
        Column of the targets.
    weight_col, offset_col : str, optional
        Columns of weights and of initial raw scores.
    validation_indicator_col : str, optional
        Column of booleans: True for rows that are for early stopping, not for training.
    prediction_col, raw_prediction_col, probability_col : str
        Columns that ``transform`` adds.
    num_workers : int, default=1
        Tasks that train together, one for each partition.
    force_repartition : bool, default=False
        Divide the rows anew even if there are as many partitions as tasks.
    memory_limit : int, optional
        Bytes for binned rows in each task; others go to disk.  By default 4 GB.
    timeout : float, default=300
        Seconds that a task waits for another one.
    **given
        Parameters of the local estimator, which are also parameters of Spark, for example for
        ``ParamGridBuilder``; without ``callbacks``, ``progress`` and ``warm_start``.

    Examples
    --------
    >>> from hedgerow.spark import SparkHedgerowClassifier
    >>> classifier = SparkHedgerowClassifier(num_workers=8, max_leaves=63)  # doctest: +SKIP
    >>> model = classifier.fit(spark.read.parquet("rows"))                # doctest: +SKIP
    >>> model.transform(rows).select("prediction", "probability")         # doctest: +SKIP
    """

    _local_class = HedgerowClassifier
    _model_class = SparkHedgerowClassificationModel


class SparkHedgerowRegressor(_HedgerowEstimator):
    """Gradient-boosted decision trees for regression, trained on Spark.

    The model has the bytes of :class:`hedgerow.HedgerowRegressor` fitted to the same rows in the
    order of the partitions.

    Parameters
    ----------
    **given
        Those of :class:`SparkHedgerowClassifier`, with parameters of the local regressor and
        without the columns of raw scores and probabilities.
    """

    _local_class = HedgerowRegressor
    _model_class = SparkHedgerowRegressionModel


class SparkHedgerowRanker(_HedgerowEstimator):
    """Gradient-boosted decision trees for ranking, trained on Spark.

    The model has the bytes of :class:`hedgerow.HedgerowRanker` fitted to the same rows in the
    order of the partitions, wherever the rows of a query are.

    Parameters
    ----------
    qid_col : str
        Column of queries: numbers or text.
    **given
        Those of :class:`SparkHedgerowRegressor`, with parameters of the local ranker.
    """

    _local_class = HedgerowRanker
    _model_class = SparkHedgerowRankerModel

    qid_col = Param(Params._dummy(), "qid_col", "column of queries", TypeConverters.toString)
