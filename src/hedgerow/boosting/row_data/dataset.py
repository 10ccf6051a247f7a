"""The user's rows as input of :func:`hedgerow.train`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeGuard

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import ONLY, Sample
from hedgerow.boosting.row_data.offsets import names_of_offset, take_offset
from hedgerow.boosting.row_data.row_values import (
    ROW_VALUES,
    WEIGHT,
    Given,
    Reading,
    RowValues,
    given_values,
)
from hedgerow.boosting.row_data.targets import Targets, read_event_times, read_targets
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data import AnyTable, Schema, UnknownCategory, read_any
from hedgerow.data.categories.columns import CategoricalFeatures
from hedgerow.data.schema import read_names
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.objectives.catalogue import SURVIVAL
from hedgerow.peers import OF_DATASET, advised

if TYPE_CHECKING:
    from hedgerow.boosting.external.file_dataset import FileDataset
    from hedgerow.data.sources.batches import BatchFunction
    from hedgerow.data.sources.paths import PathLike


class Dataset:
    """A table with the target, weights and other values of its rows.

    Nothing is copied or checked before it is used.

    Parameters
    ----------
    X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        Numbers, dates, text or categories; NaN, null and ``None`` are missing
        values, infinities are values.  One row may be a dict.
    y : array-like of shape (n_rows,) or (n_rows, n_targets), optional
        Target: numbers for regression, class indices 0, 1, ... for
        classification.  Needed for training.  Two or more columns are several targets,
        or 0/1 labels (docs/several-targets.md).
    weight : array-like of shape (n_rows,), optional
        Non-negative; a row of weight 0 counts as absent.  Rankings also take one weight per
        query, in order of first occurrence.
    offset : str, list of str, or array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Known part of the raw score: trees learn the remainder.  Names are columns of X,
        which then are not features; the model remembers them and adds them to its
        predictions.  Numbers are not part of the model: pass them again to ``predict``.
        The base score is the best constant in addition to the offset.
    qid : array-like of shape (n_rows,), optional
        For rankings: the query of each row, numbers or text.  Rows of a query compete
        with each other and need not be adjacent.
    groups : array-like of shape (n_rows,), optional
        All rows of a group are held out for validation, or none.
    time : array-like of shape (n_rows,), optional
        Number or date of each row: later rows are held out for validation.
    feature_names : sequence of str, optional
        For tables without column names.
    categorical_features : "auto", list of names or positions, bool mask, or None, default="auto"
        Columns of categories, whose values have no order.  ``"auto"``: text and
        the categorical types of the frame library.  Numeric columns become categories
        if they are listed.  Validation tables use the choice of the training table.
    unknown_category : {"missing", "error"}, default="missing"
        Treatment of a category that no training row has: a missing value, or an error.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import Dataset
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> Dataset(X, y=[0.0, 1.0, 2.0], feature_names=["height", "width"]).feature_names
    ('height', 'width')
    """

    reads_batches: ClassVar[bool] = False
    communicator: Communicator = Alone()
    """Of the ranks that have other rows; rows in memory are all rows."""

    @advised(OF_DATASET)
    def __init__(
        self,
        X: Any,
        y: Any = None,
        weight: Any = None,
        offset: Any = None,
        *,
        qid: Any = None,
        groups: Any = None,
        time: Any = None,
        feature_names: Sequence[str] | None = None,
        categorical_features: CategoricalFeatures = "auto",
        unknown_category: UnknownCategory = "missing",
    ) -> None:
        self.X = X
        self.y = y
        self.weight = weight
        self.offset = offset
        self.qid = qid
        self.groups = groups
        self.time = time
        self.categorical_features = categorical_features
        self.unknown_category = unknown_category
        self.given_names = read_names(feature_names)

    def __repr__(self) -> str:
        # The table may be unread, so the text shows only what its container knows at no cost.
        shape = getattr(self.X, "shape", None)
        size = f" of shape {tuple(shape)}" if isinstance(shape, tuple) else ""
        given = {"y": self.y, **self.given}
        present = [name for name, value in given.items() if value is not None]
        return f"<Dataset: {type(self.X).__name__}{size}; {', '.join(present) or 'no target'}>"

    @staticmethod
    def from_files(
        paths: PathLike | Sequence[PathLike],
        target: str | Sequence[str] | None = None,
        *,
        weight: str | None = None,
        offset: str | Sequence[str] | None = None,
        qid: str | None = None,
        groups: str | None = None,
        time: str | None = None,
        drop: Sequence[str] = (),
        features: Sequence[str] | None = None,
        categorical_features: CategoricalFeatures = "auto",
        unknown_category: UnknownCategory = "missing",
        cache_dir: PathLike | Sequence[PathLike] | None = None,
        memory_limit: int | str | None = None,
    ) -> FileDataset:
        r"""Return a dataset of rows in files, read in batches: a table may be larger than memory.

        The model has the same bytes as one trained on the same table in memory
        (``docs/out-of-core.md``).  Options that external memory does not support train on the
        rows in memory, if ``memory_limit`` allows.  Needs pyarrow
        (``pip install 'hedgerow[files]'``).

        Parameters
        ----------
        paths : path, pattern, or sequence of these
            Parquet, Arrow or Feather, CSV or TSV (also ``.gz``); a folder
            means all files in it, and folders named ``key=value`` add a column.
            Rows are ordered by path, and within a folder by file name.
        target : str or sequence of str, optional
            Name of the column to predict, or of several.
        weight : str, optional
            Column of weights; a row of weight 0 counts as absent.
        offset : str or sequence of str, optional
            Columns that hold known parts of the raw score, one for each output.
        qid, groups, time : str, optional
            Columns of queries, groups and times, as for :class:`Dataset`.
        drop : sequence of str, default=()
            Columns to ignore.
        features : sequence of str, optional
            Columns to use, in this order; default: all others, as ordered in the first file.
        categorical_features, unknown_category
            As for :class:`Dataset`.
        cache_dir : path or sequence of paths, optional
            Folders for binned rows, about one byte a value; with several disks, one folder on
            each.  Missing folders are created.  Default: the system's folder for temporary
            files.
        memory_limit : int or str, optional
            Memory in bytes for reading and chunks, as a number or text such as
            ``"2 GB"``.  Default: half of the available memory.

        Returns
        -------
        Dataset
            For :func:`hedgerow.train`.

        Raises
        ------
        ParameterError, DataError, StorageError
            For defects that show without reading rows; the fit finds the others.
            No file may change before the fit ends.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from hedgerow import Dataset
        >>> path = pathlib.Path(tempfile.mkdtemp(), "people.csv")
        >>> _ = path.write_text("age,city,income\n31,Ulm,1.5\n45,Bonn,2.5\n")
        >>> Dataset.from_files(path, target="income").feature_names
        ('age', 'city')
        """
        from hedgerow.boosting.external.file_dataset import FileDataset, cache_folders
        from hedgerow.data.sources.base import make_roles
        from hedgerow.data.sources.opening import open_files

        return FileDataset(
            open_files(paths, make_roles(target, drop, features, given_values(locals()))),
            categorical_features=categorical_features,
            unknown_category=unknown_category,
            cache_dir=cache_folders(cache_dir),
            memory_limit=memory_limit,
        )

    @staticmethod
    def from_batches(
        batches: BatchFunction,
        target: str | Sequence[str] | None = None,
        *,
        weight: str | None = None,
        offset: str | Sequence[str] | None = None,
        qid: str | None = None,
        groups: str | None = None,
        time: str | None = None,
        drop: Sequence[str] = (),
        features: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        categorical_features: CategoricalFeatures = "auto",
        unknown_category: UnknownCategory = "missing",
        cache_dir: PathLike | Sequence[PathLike] | None = None,
        memory_limit: int | str | None = None,
    ) -> FileDataset:
        """Return a dataset of rows that a function yields in batches; see :meth:`from_files`.

        Parameters
        ----------
        batches : callable
            Takes no arguments; returns, on every call, a new iterator over the same
            batches in the same order, or an object with ``__arrow_c_stream__`` (a
            DuckDB relation, a Polars frame, a record batch reader).  A batch is a
            pandas, polars or Arrow frame, a dict of arrays, or a tuple
            ``(X, y)`` or ``(X, y, weight)`` of arrays, X also sparse or a frame.
            Batches must be much smaller than the memory limit.
        target, weight : str, optional
            Columns of frames; tuples contain target and weight themselves.
        offset, qid, groups, time, drop, features, categorical_features, \
unknown_category, cache_dir, memory_limit
            As for :meth:`from_files`.
        feature_names : sequence of str, optional
            For batches without column names.

        Returns
        -------
        Dataset

        Examples
        --------
        >>> import numpy as np
        >>> from hedgerow import Dataset
        >>> def batches():
        ...     for seed in range(3):
        ...         X = np.random.default_rng(seed).normal(size=(100, 2))
        ...         yield X, X[:, 0]
        >>> data = Dataset.from_batches(batches, feature_names=["height", "width"])
        >>> data.feature_names
        ('height', 'width')
        """
        from hedgerow.boosting.external.file_dataset import FileDataset, cache_folders
        from hedgerow.data.sources.base import make_roles
        from hedgerow.data.sources.batches import FunctionPart
        from hedgerow.data.sources.opening import Source

        return FileDataset(
            Source(
                (FunctionPart(batches),), make_roles(target, drop, features, given_values(locals()))
            ),
            feature_names=feature_names,
            categorical_features=categorical_features,
            unknown_category=unknown_category,
            cache_dir=cache_folders(cache_dir),
            memory_limit=memory_limit,
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns; ``x0``, ``x1``, ... for columns without names."""
        return self.table().schema.names

    @property
    def given(self) -> dict[str, Any]:
        """What the user gave for each row, by argument."""
        return {value.name: getattr(self, value.name) for value in ROW_VALUES}

    @property
    def offset_names(self) -> tuple[str, ...]:
        """Columns of X that hold the offset; empty if the offset is an array."""
        return names_of_offset(self.offset)

    def having(self, **changes: Any) -> Dataset:
        """Return the same rows with another target, or another value."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    def table(
        self,
        schema: Schema | None = None,
        zero_missing: bool = False,
        *,
        more_levels: bool = False,
        reader: str = "Booster",
    ) -> AnyTable:
        """Parse X, with the given schema of a training table, if any.

        With ``more_levels``, ``schema`` is that of a model to continue, and unknown levels
        are added to it.
        """
        X, names = self.X, self.offset_names
        if names:
            X, _ = take_offset(X, names)
        if schema is not None:
            return read_any(X, schema, reader=reader, more_levels=more_levels)
        return read_any(
            X,
            reader=reader,
            zero_missing=zero_missing,
            categorical=self.categorical_features,
            unknown=self.unknown_category,
            names=self.given_names,
        )

    def targets(
        self, n_rows: int, objective: object = None, like: Targets | None = None, name: str = "y"
    ) -> Targets:
        """Parse y, with the names of its columns if it has several; messages call it ``name``.

        ``like``: the targets of the training rows, if these rows are validation rows.
        """
        if self.y is None:
            raise DataError("training needs a target: give y to the Dataset.")
        if isinstance(objective, str) and objective in SURVIVAL:
            return read_event_times(self.y, n_rows, objective, name, like, self.communicator)
        return read_targets(self.y, n_rows, name)

    def row_weight(self, n_rows: int, called: Callable[[str], str] = str) -> FloatArray | None:
        """Return one weight for each row; weights of queries are expanded to their rows.

        ``called`` returns the name of an argument in messages.
        """
        return WEIGHT.of(Reading(self.given, n_rows, 1, called))

    def sample(
        self,
        table: AnyTable,
        target: FloatArray,
        n_outputs: int,
        called: Callable[[str], str] = str,
    ) -> Sample:
        """Combine table and target with the values of the rows."""
        given, names = self.given, names_of_offset(self.offset)
        if names:
            given["offset"] = take_offset(self.X, names)[1]
            if len(names) != n_outputs:
                raise DataError(
                    f"offset names {len(names)} column(s), but the model has {n_outputs} raw "
                    "score(s) for each row: name one for each."
                )
        reading = Reading(given, table.n_rows, n_outputs, called)
        values = RowValues(**{value.field: value.of(reading) for value in ROW_VALUES})
        return Sample(table, target, **values.present)


# -- sets of validation rows ------------------------------------------------------------------

TRAINING = "train"

ValidRows: TypeAlias = "Dataset | Mapping[str, Dataset] | None"
"""Validation rows: none, one set, or several by name; the first set decides early stopping."""
_TAKEN = (TRAINING, "out_of_bag", "cv")
"""Names that the history reserves for other rows."""


def validation_sets(X_val: Any, y_val: Any, given: Given) -> dict[str, Dataset]:
    """Return the sets of validation rows in the arguments of ``fit``, by name."""
    of_fit = {value.name: f"{value.of_fit}_val" for value in ROW_VALUES}
    beside = [of_fit[name] for name, value in given.items() if value is not None]
    if X_val is None:
        if y_val is not None:
            raise DataError("y_val is given without X_val: give both or neither.")
        for name in beside:
            raise DataError(f"{name} is given without X_val and y_val.")
        return {}
    if y_val is not None:
        return {ONLY: Dataset(X_val, y_val, **given)}
    are_sets = isinstance(X_val, Mapping) and all(
        isinstance(rows, Dataset) or (isinstance(rows, tuple) and len(rows) in (2, 3))
        for rows in X_val.values()
    )
    if not are_sets or not X_val:
        raise DataError(
            "X_val is given without y_val: give both or neither, or several sets by name, "
            "X_val={'new': (X, y), 'old': (X, y, weight)}; a Dataset holds offset and qid, too."
        )
    for name in beside:
        raise DataError(
            f"{name} is given, but each of several sets of validation rows has its own: "
            "X_val={'new': Dataset(X, y, weight=..., offset=..., qid=...)}."
        )
    check_set_names(X_val)
    return {
        name: rows if isinstance(rows, Dataset) else Dataset(*rows) for name, rows in X_val.items()
    }


def reads_batches(rows: object) -> TypeGuard[FileDataset]:
    """Return whether rows are read from files or batches, not held in memory."""
    return isinstance(rows, Dataset) and rows.reads_batches


def named_valid(valid: ValidRows) -> Mapping[str, Dataset]:
    """Return the sets of validation rows by name."""
    if valid is None:
        return {}
    if isinstance(valid, Mapping):
        check_set_names(valid)
        return valid
    return {ONLY: valid}


def check_set_names(sets: Mapping[Any, Any]) -> None:
    """Raise an error unless the names of validation sets are non-empty, unreserved texts."""
    for name in sets:
        if not isinstance(name, str) or not name:
            raise DataTypeError(
                f"names of validation rows must be non-empty text; got {brief(name)}."
            )
        if name in _TAKEN:
            how = " Scores of the training rows: train_scores=True." if name == TRAINING else ""
            raise ParameterError(
                f"validation rows cannot have the name {name!r}: it belongs to the learning curves "
                f"of other rows.{how}"
            )
