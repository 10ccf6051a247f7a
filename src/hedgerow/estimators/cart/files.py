"""Files of single trees."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hedgerow.boosting.row_data.classes import labels_from_record, labels_to_record
from hedgerow.errors import ModelFormatError
from hedgerow.estimators.model_files import params_of_record, to_json
from hedgerow.estimators.snapshots import of_one_fit
from hedgerow.io.training_record import is_count
from hedgerow.model.cart_tree import CartTree


class CartFiles(BaseEstimator):
    """Mixin of the single trees that writes and reads files."""

    tree_: CartTree
    n_outputs_: int
    max_features_: int
    n_jobs: int | None

    @of_one_fit
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file, which is safe to load (docs/trees.md).

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced atomically.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        DataTypeError
            If a file cannot hold a parameter (a RandomState, for example).
        OSError
            If the file cannot be written.  An existing file then stays intact.

        Examples
        --------
        >>> import os, tempfile
        >>> from hedgerow import CARTRegressor
        >>> model = CARTRegressor(max_depth=1).fit([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "tree.hedgerow")
        ...     model.save(path)
        ...     CARTRegressor.load(path).predict([[5.0]]).tolist()
        [3.0]
        """
        from hedgerow.io.cart_file import save_tree

        check_is_fitted(self, "tree_")
        save_tree(self.tree_, path, self._to_record())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator written by :meth:`save`; untrusted files are safe to load.

        Raises
        ------
        ModelFormatError
            If the file is damaged, or does not hold an estimator of this class.
        OSError
            If the file cannot be read.
        """
        from hedgerow.io.cart_file import load_tree

        tree, record = load_tree(path)
        try:
            return cls._from_record(tree, record)
        except ModelFormatError as error:
            raise ModelFormatError(f"{os.fspath(path)}: {error}") from None

    def _to_record(self) -> dict[str, Any]:
        params = {k: to_json(k, v) for k, v in self.get_params(deep=False).items()}
        record = {
            "class": type(self).__name__,
            "params": params,
            "max_features": int(self.max_features_),
            "n_outputs": int(self.n_outputs_),
        }
        classes = vars(self).get("classes_")
        if classes is not None:
            listed = classes if self.n_outputs_ > 1 else [classes]
            record["classes"] = [labels_to_record(each) for each in listed]
        return record

    @classmethod
    def _from_record(cls, tree: CartTree, record: Mapping[str, Any]) -> Self:
        params = params_of_record(cls, record, "tree")
        n_outputs, max_features = record.get("n_outputs"), record.get("max_features")
        if not (is_count(n_outputs) and is_count(max_features) and n_outputs and max_features):
            raise ModelFormatError(
                "the record of the estimator lacks n_outputs or max_features, which must be "
                "positive integers."
            )
        found = cls(**params)
        found.tree_, found.n_features_in_ = tree, tree.n_features
        found.n_outputs_, found.max_features_ = n_outputs, max_features
        if tree.schema.named:
            found.feature_names_in_ = np.array(tree.schema.names, dtype=object)
        found._adopt_classes(record.get("classes"))
        return found

    def _adopt_classes(self, records: Any) -> None:
        """Set the classes from a file's record, checked against the values of the tree."""
        n_values = self.tree_.value.shape[1]
        if not isinstance(self, ClassifierMixin):
            if records is not None or n_values != self.n_outputs_:
                raise ModelFormatError("the values of the nodes do not fit the outputs.")
            return
        if not isinstance(records, list) or len(records) != self.n_outputs_:
            raise ModelFormatError(
                f"the record of the estimator must list the classes of {self.n_outputs_} outputs."
            )
        counts = [_count_of(record) for record in records]
        if sum(counts) != n_values:
            raise ModelFormatError("the values of the nodes do not fit the classes.")
        classes = [labels_from_record(r, n) for r, n in zip(records, counts, strict=True)]
        one = self.n_outputs_ == 1
        self.classes_: Any = classes[0] if one else classes
        self.n_classes_: Any = counts[0] if one else counts


def _count_of(record: Any) -> int:
    """Return the number of labels in a record."""
    values = record.get("values") if isinstance(record, Mapping) else None
    if not isinstance(values, list) or not values:
        raise ModelFormatError("the record of the classes is malformed.")
    return len(values)
