"""Views of the trees of a model as methods of a booster: frames, text, pictures, importance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hedgerow.arrays import FloatArray
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.importance import ImportanceKind, feature_importance
from hedgerow.notebook import html_table, most_used
from hedgerow.peer_arguments import OF_IMPORTANCE, advised

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TreeViews(BoosterPart):
    """Mixin of the booster that shows trees as tables, text and pictures."""

    def _repr_html_(self) -> str:
        # Notebooks show this text instead of the repr.
        facts = {
            "objective": self.model.objective,
            "rounds": f"{self.model.forest.n_rounds:,}",
            "trees": f"{self.model.forest.n_trees:,}",
            "columns": f"{self._schema.n_features:,}",
            "most used": most_used(self._schema.names, feature_importance(self.model, "split")),
        }
        return html_table(type(self).__name__, facts)

    def split_table(
        self,
        tree: int,
        node: int,
        dataset: Dataset,
        backend: FrameLibrary = "pandas",
    ) -> Any:
        """Return every candidate split of a node, a cut or a set of levels, with its gain.

        Parameters
        ----------
        tree, node : int
            As in :meth:`to_frame`; the node may be a leaf.
        dataset : Dataset
            The rows that the model was trained on, with ``y``.  If the rows are exactly those
            of the training (none held out for early stopping, none sampled), the best allowed
            candidate is the split of the node.  ``tree_method="approx"`` considers some of the
            candidates only.
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None for a dict of
            lists.

        Returns
        -------
        data frame
            One row for each feature, cut or set, and side of missing values, with the columns
            of :func:`hedgerow.boosting.inspect.split_table.split_table`.

        Raises
        ------
        ParameterError
            If there is no such tree or node, or the trees were rescaled (DART).
        DataError
            If the rows do not fit the model.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0])
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "reg_lambda": 0.0}
        >>> table = train(params, data).split_table(0, 0, data)
        >>> table["threshold"].tolist(), table["gain"].tolist()
        ([1.5, 3.0], [0.75, 3.0])
        """
        from hedgerow.boosting.inspect.split_table import split_table

        table = dataset.table(self._schema)
        target = dataset.target(table.n_rows, self.model.objective)
        sample = dataset.sample(table, target, self._objective.n_outputs)
        return make_frame(split_table(self.model, self._objective, sample, tree, node), backend)

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return all nodes of all trees as a data frame, one row for each node.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None for a dict of
            lists.

        Returns
        -------
        data frame
            Columns of :func:`hedgerow.plot.forest_frame`; levels of mixed types are text in
            libraries with typed columns.
        """
        from hedgerow.plot import forest_frame

        columns = {
            name: column if isinstance(column, list) else column.tolist()
            for name, column in forest_frame(self.model).items()
        }
        return make_frame(columns, backend)

    def to_text(self, tree: int = 0, max_depth: int | None = None) -> str:
        """Draw one tree as text, one line per node; see :func:`hedgerow.plot.tree_text`.

        Parameters
        ----------
        tree : int, default=0
            Number of the tree; negative numbers count from the end.
        max_depth : int, optional
            Deeper splits are summarised.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "early_stopping": False}
        >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
        >>> booster.to_text().splitlines()[0]
        'tree 0 of 1: 2 leaves, 3 nodes, depth 1'
        """
        from hedgerow.plot import tree_text

        return tree_text(self.model, tree, max_depth)

    def to_rules(self, tree: int = 0) -> list[str]:
        """Write one tree as rules, one per leaf; see :func:`hedgerow.plot.tree_rules`.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "early_stopping": False}
        >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
        >>> for rule in booster.to_rules():
        ...     print(rule.partition(" -> ")[0])
        (x0 <= 3.0 or missing)
        x0 > 3.0
        """
        from hedgerow.plot import tree_rules

        return tree_rules(self.model, tree)

    def to_dot(self, tree: int = 0, max_depth: int | None = None) -> str:
        """Write one tree in the language of Graphviz; see :func:`hedgerow.plot.tree_dot`.

        The parameters are those of :meth:`to_text`.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "early_stopping": False}
        >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
        >>> booster.to_dot().splitlines()[0]
        'digraph tree {'
        """
        from hedgerow.plot import tree_dot

        return tree_dot(self.model, tree, max_depth)

    def plot_tree(
        self, tree: int = 0, ax: Axes | None = None, *, max_depth: int | None = None
    ) -> Axes:
        """Draw one tree with matplotlib; see :func:`hedgerow.plot.plot_tree`.

        ``ax`` holds the axes to draw on; the default is a new figure of the size that the tree
        needs.  The other parameters are those of :meth:`to_text`.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "early_stopping": False}
        >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
        >>> booster.plot_tree(max_depth=3).figure.savefig("tree.png")  # doctest: +SKIP
        >>> booster.plot_tree().get_title(loc="left")
        'tree 0 of 1'
        """
        from hedgerow.plot import plot_tree

        return plot_tree(self.model, tree, ax, max_depth=max_depth)

    @advised(OF_IMPORTANCE)
    def feature_importance(self, kind: ImportanceKind = "gain") -> FloatArray:
        """Return the importance of each feature, summed over all splits.

        The importance of a target statistic of two columns is divided equally between them.

        Parameters
        ----------
        kind : {"gain", "split", "cover"}, default="gain"
            ``"gain"``: loss reduction.  ``"split"``: number of splits.  ``"cover"``: sum of
            hessians of the rows in the split nodes.

        Returns
        -------
        float64, shape (n_features,)
        """
        return feature_importance(self.model, kind)
