"""The base class of CARTClassifier and CARTRegressor: parameters, data, use of the tree."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from hedgerow.argument_types import is_one_of, listed
from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.boosting.row_data.checks import check_weight
from hedgerow.cart.search import Least
from hedgerow.cart.split_table import split_table
from hedgerow.cart.state import CartRules
from hedgerow.cart.training import CRITERIA, UNLIMITED, CartSample, pruning_states, train_tree
from hedgerow.cart.tree import CartTree, forest_of
from hedgerow.data import AnyTable, Schema, SparseTable, Table, read_any
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.errors import ParameterError, brief, did_you_mean, shown_name
from hedgerow.estimators.common import NamedArguments, of_one_fit, seed_of, warn_about_names
from hedgerow.estimators.explaining import Explanations
from hedgerow.inspection.background import Inspected
from hedgerow.model.model import Model
from hedgerow.params import Interval
from hedgerow.plot.views import InspectionPictures
from hedgerow.threads import resolve_threads

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from scipy.sparse import csr_matrix

    from hedgerow.booster import Booster
    from hedgerow.plot.labels import Division, Labelled

MaxFeatures: TypeAlias = "int | float | Literal['sqrt', 'log2'] | None"

_NOT_NEGATIVE = Interval(0.0, math.inf, high_open=True)
_RANGES = {
    "min_weight_fraction_leaf": Interval(0.0, 0.5),
    "min_impurity_decrease": _NOT_NEGATIVE,
    "ccp_alpha": _NOT_NEGATIVE,
}


@dataclass(kw_only=True, eq=False, repr=False)
class CartEstimator(Explanations, NamedArguments, BaseEstimator, InspectionPictures):
    """Base of :class:`CARTClassifier` and :class:`CARTRegressor`.

    Parameters
    ----------
    max_depth : int >= 1 or None, default=None
        Most splits between the root and a leaf; None means no limit.
    min_samples_split : int >= 2 or float in (0, 1], default=2
        Fewest rows of a node that is split; a float is a fraction of all rows.
    min_samples_leaf : int >= 1 or float in (0, 1), default=1
        Fewest rows of a leaf; a float is a fraction of all rows.
    min_weight_fraction_leaf : float from 0 to 0.5, default=0.0
        Smallest weight of a leaf, as a fraction of the total weight.
    max_features : int >= 1, float in (0, 1], "sqrt", "log2" or None, default=None
        Number or fraction of random features that a node evaluates; None means all.
    random_state : int, RandomState or None, default=None
        Seed of the random features; None means 0.
    max_leaf_nodes : int >= 2 or None, default=None
        Most leaves; with a limit, the node with the largest decrease is split first.
    min_impurity_decrease : float >= 0, default=0.0
        Smallest ``share * (node - share_left * left - share_right * right)`` of a split, with
        impurities, the fraction of all rows in the node, and those of its rows in the children.
    ccp_alpha : float >= 0, default=0.0
        Cost-complexity pruning removes branches with at most this improvement per leaf.
    n_jobs : int or None, default=None
        Number of threads; the tree does not depend on it.  None: all available, -1: all.

    Attributes
    ----------
    n_features_in_, n_outputs_ : int
        Number of features, and of columns of y.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns, if X was a frame with column names.
    max_features_ : int
        Number of features evaluated at each node.
    tree_ : hedgerow.cart.tree.CartTree
        The fitted tree.
    """

    tree_: CartTree = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: npt.NDArray[np.object_] = field(init=False)
    max_features_: int = field(init=False)

    _criteria: ClassVar[tuple[str, ...]]
    _fitted: ClassVar[tuple[str, ...]] = (
        *("tree_", "n_features_in_", "feature_names_in_", "max_features_"),
        *("classes_", "n_classes_"),
    )

    criterion: str = "gini"
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: MaxFeatures = None
    random_state: int | np.random.RandomState | None = None
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    ccp_alpha: float = 0.0
    categorical_features: Sequence[int | str] | None = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # -- parameters ----------------------------------------------------------

    def _rules(self, table: Table, sample: CartSample, n_classes: int) -> CartRules:
        """Validate the parameters and resolve them; ``sample`` are the rows of positive weight."""
        if not is_one_of(self.criterion, self._criteria):
            hint = did_you_mean(self.criterion, self._criteria)
            raise ParameterError(
                f"criterion of a {type(self).__name__} must be one of "
                f"{', '.join(map(repr, self._criteria))}; got {brief(self.criterion)}.{hint}"
            )
        for name, allowed in _RANGES.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(f"{name} must be {allowed}; got {brief(getattr(self, name))}.")
        least_leaf = self._rows("min_samples_leaf", 1, table.n_rows)
        least_split = max(2, self._rows("min_samples_split", 2, table.n_rows))
        depth, most_leaves = self._limit("max_depth", 1), self._limit("max_leaf_nodes", 2)
        weight = sample.weight
        total = float(sample.table.n_rows) if weight is None else float(weight.sum())
        lightest = np.float64(float(self.min_weight_fraction_leaf) * total)
        return CartRules(
            criterion=np.int64(CRITERIA[self.criterion]),
            n_classes=np.int64(n_classes),
            max_depth=np.int64(depth or UNLIMITED),
            max_leaf_nodes=np.int64(most_leaves or UNLIMITED),
            best_first=np.int64(most_leaves is not None),
            min_samples_split=np.int64(max(least_split, 2 * least_leaf)),
            min_weight_leaf=lightest,
            min_impurity_decrease=np.float64(self.min_impurity_decrease),
            max_features=np.int64(self._n_features(table.n_features)),
            seed=np.uint64(seed_of(self.random_state)),
            large=np.int64(0),
            least=Least(np.int64(least_leaf), lightest),
        )

    def _limit(self, name: str, low: int) -> int | None:
        value = getattr(self, name)
        allowed = Interval(low, UNLIMITED, integer=True)
        if value is not None and value not in allowed:
            raise ParameterError(f"{name} must be {allowed}, or None; got {brief(value)}.")
        return None if value is None else int(value)

    def _rows(self, name: str, low: int, n_rows: int) -> int:
        """Return a parameter that is a number or a fraction of rows as a number of rows."""
        value = getattr(self, name)
        share = Interval(0.0, 1.0, low_open=True, high_open=low == 1)
        if value in Interval(low, UNLIMITED, integer=True):
            return int(value)
        if isinstance(value, numbers.Integral) or value not in share:
            raise ParameterError(
                f"{name} must be an integer of at least {low}, or {share} (a fraction of the "
                f"rows); got {brief(value)}."
            )
        return math.ceil(value * n_rows)

    def _n_features(self, n_features: int) -> int:
        value = self.max_features
        if value is None:
            return n_features
        if isinstance(value, str):
            if value == "sqrt":
                return max(1, math.isqrt(n_features))
            if value == "log2":
                return max(1, int(math.log2(n_features)))
        elif value in Interval(1, n_features, integer=True):
            return int(value)
        elif not isinstance(value, numbers.Integral) and value in Interval(0.0, 1.0, low_open=True):
            return max(1, int(value * n_features))
        raise ParameterError(
            f"max_features must be 'sqrt', 'log2', None, an integer from 1 to the number of "
            f"features ({n_features}), or a number greater than 0 and at most 1 (a "
            f"fraction of them); got {brief(value)}."
        )

    def _categorical(self, schema: Schema) -> AnyArray:
        """Return 1 for each categorical column and 0 for the others."""
        chosen = np.zeros(schema.n_features, dtype=np.uint8)
        if self.categorical_features is None:
            return chosen
        given = listed(self.categorical_features)
        if given is None:
            raise ParameterError(
                "categorical_features must be a list of column indices or names, or None; "
                f"got {brief(self.categorical_features)}."
            )
        for column in given:
            if isinstance(column, str) and schema.named and column in schema.names:
                chosen[schema.names.index(column)] = 1
            elif isinstance(column, numbers.Integral) and not isinstance(column, bool | np.bool_):
                if not 0 <= int(column) < schema.n_features:
                    raise ParameterError(
                        f"categorical_features names column {brief(column)}, but X has columns 0 "
                        f"to {schema.n_features - 1}."
                    )
                chosen[int(column)] = 1
            else:
                hint = did_you_mean(column, schema.names if schema.named else ())
                raise ParameterError(
                    f"categorical_features names {brief(column)}, which is not a column of X: use "
                    f"column indices, or names if X is a frame with column names.{hint}"
                )
        return chosen

    # -- training ------------------------------------------------------------

    def _adopt(self, sample: CartSample, n_classes: int, **more: Any) -> Self:
        """Train a tree, and set all fitted attributes in one assignment."""
        schema, kept_rows = sample.table.schema, sample.without_zero_weights()
        rules = self._rules(sample.table, kept_rows, n_classes)
        categorical, n_threads = self._categorical(schema), resolve_threads(self.n_jobs)
        tree = train_tree(kept_rows, rules, categorical, float(self.ccp_alpha), n_threads)
        fitted: dict[str, Any] = {
            "tree_": tree,
            "n_features_in_": schema.n_features,
            "max_features_": int(rules.max_features),
            **more,
        }
        if schema.named:
            fitted["feature_names_in_"] = np.array(schema.names, dtype=object)
        kept = {name: value for name, value in vars(self).items() if name not in self._fitted}
        self.__dict__ = kept | fitted
        return self

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Bunch:
        """Return the values of ``ccp_alpha`` at which the pruned tree changes.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        sklearn.utils.Bunch
            ``ccp_alphas``: the values, ascending from 0; ``impurities``: total impurity of
            the leaves of the tree that each value gives.
        """
        from sklearn.base import clone

        unpruned = clone(self).set_params(ccp_alpha=0.0).fit(X, y, sample_weight)
        alphas, risks, _ = pruning_states(unpruned.tree_, np.inf)
        return Bunch(ccp_alphas=alphas, impurities=risks)

    # -- use -----------------------------------------------------------------

    def _read(self, X: Any) -> Table:
        check_is_fitted(self, "tree_")
        schema = self.tree_.schema
        if type(X) is not np.ndarray or schema.named:
            warn_about_names(X, schema, type(self).__name__, stacklevel=5)
        return dense_table(read_any(X, schema, reader=type(self).__name__))

    @of_one_fit
    def apply(self, X: Any) -> IntArray:
        """Return the leaf that each row reaches.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)

        Returns
        -------
        ndarray of int64, shape (n_rows,)
            Index of the node in ``tree_``.
        """
        return self._leaves(X)

    def _leaves(self, X: Any) -> IntArray:
        table = self._read(X)  # raises before a fit
        return self.tree_.apply(table, resolve_threads(self.n_jobs))

    @of_one_fit
    def decision_path(self, X: Any) -> csr_matrix:
        """Return the nodes on the path of each row.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of int64, shape (n_rows, n_nodes)
            1 where a node is on the path of the row, including the root and the leaf.
        """
        from scipy.sparse import csr_matrix

        leaf, tree = self._leaves(X), self.tree_
        paths: list[list[int]] = [[0]] * tree.node_count
        for node in np.flatnonzero(tree.feature >= 0).tolist():  # parents come first
            for child in (int(tree.children_left[node]), int(tree.children_right[node])):
                paths[child] = [*paths[node], child]
        listed = [paths[node] for node in leaf.tolist()]
        start = np.concatenate([[0], np.cumsum([len(path) for path in listed])])
        column = np.concatenate(listed).astype(np.int64)
        shape = (len(leaf), tree.node_count)
        return csr_matrix((np.ones(len(column), dtype=np.int64), column, start), shape=shape)

    def get_depth(self) -> int:
        """Return the number of splits on the longest path from the root to a leaf."""
        check_is_fitted(self, "tree_")
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        check_is_fitted(self, "tree_")
        return self.tree_.n_leaves

    @property
    def feature_importances_(self) -> FloatArray:
        """Fraction of the total impurity decrease due to splits of each feature.

        The shape is (n_features,), and the sum is 1, or 0 if there is no split.
        """
        check_is_fitted(self, "tree_")
        return self.tree_.feature_importances()

    @of_one_fit
    def split_table(
        self,
        node: int,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        outer: bool = False,
        backend: FrameLibrary = "pandas",
    ) -> Any:
        """Return every candidate cut of every feature at a node, with its score.

        Parameters
        ----------
        node : int
            Index of the node in ``tree_``; 0 is the root.
        X, y, sample_weight
            Rows, as for :meth:`fit`.  Only rows that reach the node are used.
        outer : bool, default=False
            Include the cuts below the lowest and above the highest value, which divide
            nothing.
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None returns a dict of lists.

        Returns
        -------
        data frame, one row per cut
            ``feature`` (name of the column), ``kind`` (``"<="``, or ``"=="`` for one
            category against all others), ``cut`` (threshold or category), ``missing_left``,
            ``n_left``, ``n_right``, ``score`` (mean impurity of the children, weighted by
            their fractions of the rows) and ``decrease`` (impurity of the node minus the
            score).  A threshold is the middle of two neighbouring values, rounded down for
            64-bit integers, or infinity if it separates present from missing values.

        Raises
        ------
        ParameterError
            If the tree has no such node.
        DataError
            If no row reaches the node.
        """
        table = self._read(X)
        if node not in Interval(0, self.tree_.node_count - 1, integer=True):
            raise ParameterError(
                f"node must be an integer from 0 to {self.tree_.node_count - 1}; got {brief(node)}."
            )
        target, n_classes = self._target(y, table.n_rows)
        sample = CartSample(table, target, self._weight(sample_weight, target, table.n_rows))
        reached = self.tree_.apply(table, resolve_threads(self.n_jobs))
        columns = split_table(
            self.tree_, int(node), sample, reached, self.criterion, n_classes,
            self._categorical(table.schema), outer,
        )  # fmt: skip
        return make_frame(columns, backend)

    @abstractmethod
    def _target(self, y: Any, n_rows: int) -> tuple[FloatArray, int]:
        """Return the targets as numbers, and the number of classes (0 in regression)."""

    def _weight(self, weight: Any, target: FloatArray, n_rows: int) -> FloatArray | None:
        """Return the row weights, multiplied by class weights if there are any."""
        return check_weight(weight, n_rows)

    # -- explanations --------------------------------------------------------

    def _fitted_booster(self, X: Any) -> Booster:
        booster = self._booster()
        warn_about_names(X, booster.model.schema, type(self).__name__, stacklevel=3)
        return booster

    @of_one_fit
    def _booster(self) -> Booster:
        """Return the tree as a model whose raw scores are predictions or probabilities."""
        from hedgerow.booster import Booster

        check_is_fitted(self, "tree_")
        classes = getattr(self, "classes_", None)
        if classes is None or len(classes) < 3:
            columns, targets = [self.tree_.value.shape[1] - 1], {}
        else:
            columns = list(range(len(classes)))
            targets = {"targets": {"names": list(map(str, classes.tolist())), "named": True}}
        forest, schema = forest_of(self.tree_, columns)
        return Booster(Model(forest, schema, "squared_error", targets))

    def _inspected(self) -> Inspected:
        found = self._booster()
        return Inspected(found.model, getattr(self, "classes_", None), found.target_names)

    # -- views ---------------------------------------------------------------

    @of_one_fit
    def to_text(self, max_depth: int | None = None) -> str:
        """Draw the tree with characters (:func:`hedgerow.plot.tree_text`).

        A leaf of a classifier shows its most frequent class and the fraction of this class.
        """
        from hedgerow.plot import tree_text

        return tree_text(self.drawing(), max_depth=max_depth, schema=self.tree_.schema)

    @of_one_fit
    def to_rules(self) -> list[str]:
        """Write the tree as rules, one for each leaf (:func:`hedgerow.plot.tree_rules`).

        ``or missing`` marks a condition that missing values meet, ``or other`` one that
        categories without training rows meet.
        """
        from hedgerow.plot import tree_rules

        return tree_rules(self.drawing(), schema=self.tree_.schema)

    @of_one_fit
    def plot_tree(self, ax: Axes | None = None, *, max_depth: int | None = None) -> Axes:
        """Draw the tree with matplotlib (:func:`hedgerow.plot.plot_tree`)."""
        from hedgerow.plot import plot_tree

        return plot_tree(self.drawing(), ax=ax, max_depth=max_depth, schema=self.tree_.schema)

    def drawing(self) -> Labelled:
        """Return the tree with texts for its leaves and its categorical splits."""
        from hedgerow.plot.labels import Labelled

        check_is_fitted(self, "tree_")
        tree = self.tree_
        words, classes = None, getattr(self, "classes_", None)
        if classes is not None:
            best = tree.value.argmax(axis=1)
            words = [
                f"{shown_name(str(classes[k]))} {share:.3g}"
                for k, share in zip(best, tree.value.max(axis=1), strict=True)
            ]
        return Labelled(tree.forest([tree.value.shape[1] - 1]), words, _divisions(tree))


def dense_table(table: AnyTable) -> Table:
    """Return the table in dense form, because whole columns are sorted."""
    if not isinstance(table, SparseTable):
        return table
    return Table(table.dense(np.arange(table.n_features)), table.schema)


def _divisions(tree: CartTree) -> dict[int, Division]:
    """Return the categorical splits; categories without training rows go to the larger child."""
    from hedgerow.plot.labels import Division

    nodes = np.flatnonzero(tree.is_categorical)
    sides = {node: tree.categories(node) for node in nodes.tolist()}
    divisions: dict[int, Division] = {}
    for feature in distinct(tree.feature[nodes]).tolist():
        here = nodes[tree.feature[nodes] == feature].tolist()
        levels = distinct(np.concatenate([side for node in here for side in sides[node]]))
        for node in here:
            left, right = tree.children_left[node], tree.children_right[node]
            larger_left = bool(tree.n_node_samples[left] > tree.n_node_samples[right])
            listed, others = sides[node][0], sides[node][1]
            goes_left = ~np.isin(levels, others) if larger_left else np.isin(levels, listed)
            divisions[node] = Division(
                levels.tolist(), goes_left, "left" if larger_left else "right"
            )
    return divisions
