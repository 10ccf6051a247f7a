"""The base class of the estimators: parameters, reading of data, prediction, files.

Methods import the training code when they need it.  A process that only imports an
estimator, or loads one to predict, skips some 80 modules and half of the import time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from hedgerow import params as allowed
from hedgerow.argument_types import check_bool
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.classes import n_classes_of
from hedgerow.boosting.row_data.targets import Targets, targets_of_rows
from hedgerow.data import UnknownCategory
from hedgerow.data.categories.columns import CategoricalFeatures
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.estimators.common import check_arguments, seed_of, snapshot, warn_about_names
from hedgerow.estimators.explaining import Explanations
from hedgerow.estimators.labels import classes_of_labels
from hedgerow.estimators.model_files import ModelFiles
from hedgerow.estimators.reports import FittedReports
from hedgerow.objectives.catalogue import CUSTOM
from hedgerow.params import (
    ADVANCED_NAMES,
    BOOST_PARAMETER_NAMES,
    CHECKPOINT_SECONDS,
    BoostParams,
    PredictionKind,
    boost_params,
    read_advanced,
)
from hedgerow.peers import OF_ESTIMATORS, NamesOfPeers, objective_hint
from hedgerow.plot.views import InspectionPictures
from hedgerow.schedules import LearningRate

if TYPE_CHECKING:
    from hedgerow.booster import Booster
    from hedgerow.boosting.external.file_dataset import FileDataset
    from hedgerow.boosting.loop.callbacks import Callback
    from hedgerow.boosting.loop.setup.job import Job, KnownTargets, LossSpec
    from hedgerow.boosting.resume.continuing import Start
    from hedgerow.boosting.row_data.dataset import Dataset
    from hedgerow.boosting.validation.stopping import StoppingParams
    from hedgerow.inspection.background import Inspected
    from hedgerow.metrics import MetricChoice
    from hedgerow.model.model import Model
    from hedgerow.objectives import Objective

OwnObjective: TypeAlias = "str | Callable[..., Any] | Objective"
Auto: TypeAlias = "Literal['auto']"

_FITTED = (
    "booster_",
    "n_features_in_",
    "feature_names_in_",
    "n_iter_",
    "best_iteration_",
    "evals_result_",
    "stopped_by_",
    "classes_",
)


@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowEstimator(ModelFiles, FittedReports, Explanations, InspectionPictures, NamesOfPeers):
    """Base of the boosted classifier, regressor and ranker.

    Parameters
    ----------
    Rounds:
    n_estimators : int >= 1 or "auto", default="auto"
        Number of rounds; a round grows one tree, or one for each class or target.  ``"auto"``:
        validation rows or cross-validation choose it, and the data every other ``"auto"``
        (docs/defaults.md), which otherwise has its plain value (docs/parameters.md).
    learning_rate : float > 0, sequence of n_estimators such, callable or "auto", default="auto"
        Factor on leaf values; a callable takes the number of completed rounds
        (:mod:`hedgerow.schedules`).  ``"auto"`` with n given rounds: 10 / n, from 0.02 to 0.1.
    boosting : {"gbdt", "dart", "rf"}, default="gbdt"
        A tree corrects the sum of those before (``"gbdt"``), or the sum without some randomly
        dropped rounds (``"dart"``), or is part of a random forest, their mean (``"rf"``).
    drop_rate : float in [0, 1], default=0.1
        Probability that ``"dart"`` drops an earlier round.
    skip_drop : float in [0, 1], default=0.5
        Probability that a round of ``"dart"`` drops none.
    max_drop : int >= 1, default=50
        Most rounds that ``"dart"`` drops at once.
    num_parallel_tree : int >= 1, default=1
        Trees of each output in a round, on different samples; the round adds their mean.

    Trees:
    max_leaves : int from 2 to 65535, None or "auto", default="auto"
        Most leaves of a tree; None: no limit, and ``max_depth`` must be set.
    max_depth : int from 1 to 62, or None, default=None
        Most splits between the root and a leaf; None: no limit, or 6 for symmetric trees.
    grow_policy : {"leafwise", "depthwise", "symmetric"} or "auto", default="auto"
        Split the leaf of the largest gain first, the one closest to the root, or all nodes of a
        level alike (docs/symmetric.md).  ``"auto"``: leafwise or symmetric, as the data favour.
    tree_method : {"hist", "approx", "exact"}, default="hist"
        Candidate cuts: borders of bins, quantiles weighted by hessians, or all distinct values.
    max_bins : int from 2 to 255 or "auto", default="auto"
        Most bins of a feature with ``"hist"``.  ``"auto"``: 255, or 63 for few rows.
    leaf_estimation : {"auto", "newton", "gradient", "line_search"}, default="auto"
        Splits and values by second derivatives, by means of negative gradients, or by these and
        the values of least loss.  ``"auto"``: Newton, or line search without second derivatives.
    multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
        Whether each class, target or label has its own trees, or leaves hold a value for each.
        ``"auto"``: shared trees for targets and labels where possible (docs/several-targets.md).
    linear_leaves : bool or "auto", default="auto"
        Add linear functions to leaves.  ``"auto"``: if the data favour it (docs/linear-leaves.md).
    linear_lambda : float >= 0, default=1.0
        Penalty on slopes: one slope of n rows is ``n / (n + linear_lambda)`` of least squares.

    Leaves:
    min_samples_leaf : int >= 1 or "auto", default="auto"
        Fewest training rows in a leaf, whatever their weights.
    min_child_weight : float >= 0, default=0.001
        Smallest sum of hessians in a leaf.
    reg_lambda : float >= 0 or "auto", default="auto"
        L2 penalty on leaf values.
    reg_alpha : float >= 0, default=0.0
        L1 penalty on leaf values.
    gamma : float >= 0, default=0.0
        Loss reduction that a split must exceed.
    max_delta_step : float >= 0, default=0.0
        Largest absolute leaf value before the rate; 0: in most cases no limit (docs/parameters.md).

    Sampling:
    subsample : float in (0, 1] or "auto", default="auto"
        Fraction of the rows that a round uses; with ``sampling="mvs"`` the expected fraction.
    sampling : {"uniform", "goss", "mvs"}, default="uniform"
        Rows of a round: with equal probability; all with large gradients and some others; or with a
        probability that grows with gradient and hessian (docs/sampling.md).
    goss_top_rate : float in [0, 1), default=0.2
        Fraction of the rows, with the largest gradients, that ``"goss"`` keeps.
    goss_other_rate : float in (0, 1], default=0.1
        Fraction of all rows that ``"goss"`` draws from the others, and weights to represent them.
    colsample_bytree, colsample_bylevel : float in (0, 1], default=1.0
        Fraction of the features that a tree may use, and of these that each of its levels may use.
    colsample_bynode : float in (0, 1] or "auto", default="auto"
        Fraction of the features of a level that a node may use.
    feature_weights : dict or sequence of weights of the columns, or None, default=None
        Weights >= 0 in column sampling; 0: never drawn; a column that a dict leaves out has 1.
    oob_score : bool, default=False
        Score each round, or a random forest, on the rows that ``subsample`` left out.

    Columns:
    zero_as_missing : bool, default=False
        Treat the number 0 as missing, and so the zeros that a sparse table does not store.
    bundle_features : bool or "auto", default="auto"
        Let features that are rarely nonzero in the same row share a histogram column.  ``"auto"``:
        if this saves a quarter of the columns (docs/sparse.md).
    max_bins_by_feature : dict or sequence of numbers of the columns, or None, default=None
        Most bins of each column, from 2 to 255, instead of ``max_bins``.
    feature_crosses : list of (column, column, operation), None or "auto", default="auto"
        Pairs of numeric columns to add as ``"product"``, ``"difference"`` or ``"ratio"``.
        ``"auto"``: those that cross-validation favours, if any (docs/defaults.md).

    Categories:
    categorical_features : "auto", list of names or positions, bool mask, or None, default="auto"
        Columns of categories.  ``"auto"``: text and categorical types (docs/categories.md).
    unknown_category : {"missing", "error"}, default="missing"
        Treat a category that no training row has as missing, or as an error.
    max_cat_to_onehot : int from 1 to 254 or "auto", default="auto"
        Most levels in a node for splits of one level against the others; more are split by sets.
        ``"auto"``: 4, or 254 if cross-validation favours it.
    max_cat_threshold : int from 1 to 254, default=32
        Most levels in the smaller set of a split.
    cat_smooth : float >= 0 or "auto", default="auto"
        Levels of fewer rows in a node are merged.  ``"auto"``: 10, or 1 for few rows.
    cat_l2 : float >= 0 or "auto", default="auto"
        Added to ``reg_lambda`` where sets are compared.  ``"auto"``: 10, or 1 for few rows.
    min_data_per_group : int >= 1 or "auto", default="auto"
        Fewest rows between candidate sets.  ``"auto"``: 100, or 1 for few rows.
    target_statistics : bool or "auto", default="auto"
        Replace categories by their mean target over earlier rows: with True in columns of more
        than two levels, with ``"auto"`` of more than 254 (docs/categories.md).

    Constraints:
    monotone_constraints : dict or sequence of directions of the columns, or None, default=None
        As a column grows, predictions never fall (1, ``"increasing"``), never rise (-1,
        ``"decreasing"``), or do either (0) (docs/constraints.md).
    interaction_constraints : list of lists, "pairwise", "no_interactions" or None, default=None
        Lists of columns that may split a branch together; columns in no list form another.
        ``"pairwise"`` allows any two columns in a branch, ``"no_interactions"`` only one.
    monotone_penalty : float >= 0, default=0.0
        Reduce gains of monotone columns near the root; 2: no such splits in the first two levels.
    feature_penalties : dict or sequence of factors of the columns, or None, default=None
        Factors >= 0 on the gains of splits; a column with factor 0 is never used.
    extra_trees : bool or "auto", default="auto"
        Evaluate only one random cut of each column in each node.  ``"auto"``: if
        cross-validation favours it (docs/defaults.md).
    path_smooth : float >= 0, default=0.0
        Number of rows for which the value of the parent counts in the value of a node.

    Stopping:
    early_stopping : bool, "auto" or "cv", default="auto"
        Stop after ``patience`` rounds without improvement and keep the best.  True: on ``X_val``,
        or else on rows held out; ``"cv"``: folds find the number of rounds.  ``"auto"``: on
        ``X_val``, or else by folds if ``n_estimators`` is ``"auto"``, or else not at all
        (docs/training-control.md).
    folds : int, splitter or iterable of (train, test), default=None
        Folds of early stopping: their number, a splitter of scikit-learn such as
        ``TimeSeriesSplit()``, or row numbers.  None: drawn at random (docs/training-control.md).
    blend : bool, int, "auto" or list of dict, default="auto"
        Kinds of trees in one model, each with a weight.  If folds compare kinds: True, at most
        three of them; a number, at most so many; ``"auto"``, as True below 10,000 rows (several
        classes: 100,000); rankings have one.  A list has the parameters and the ``weight`` of each
        kind (docs/defaults.md).
    validation_fraction : float in (0, 1), default=0.1
        Fraction of the rows that early stopping holds out; for classification, by class.
    patience : int >= 1 or "auto", default="auto"
        Rounds in a row without improvement that end training.  ``"auto"``: 10 for plain trees.
    min_delta : float >= 0, default=0.0
        Smallest change of the score that counts as an improvement (exclusive).
    time_budget : float > 0 or None, default=None
        Seconds that the fit may take; the first round always runs (docs/training-control.md).
    warm_start : bool, default=False
        Continue the fitted model in the next ``fit``, up to a total of ``n_estimators`` rounds.

    Running:
    train_scores : bool, default=False
        Also score the training rows after each round, as ``evals_result_["train"]``.
    callbacks : callable, sequence of callables, or None, default=None
        Called after each :class:`hedgerow.boosting.loop.callbacks.Round`; True stops training.
    progress : bool, default=False
        Show a progress bar in a notebook, or if standard error is a terminal.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where trees are grown; the model does not depend on it.  ``"auto"``: see docs/gpu.md.
    n_jobs : int or None, default=None
        Number of threads; the model does not depend on it.  None: all available, -1: all.
    random_state : int, RandomState or None, default=None
        Seed of sampling, rounding and validation rows; None means 0.
    advanced : dict or None, default=None
        Parameters for experiments (docs/parameters.md): ``"sketch"`` (``"global"`` or ``"local"``),
        ``"sketch_eps"`` (0.03; in (0, 1)), ``"bundle_order"`` (``"count"`` or ``"degree"``),
        ``"bundle_conflicts"`` (``"sum"`` or ``"max"``), ``"max_conflict_rate"`` (0; in [0, 1)) and
        ``"statistics_order"`` (2 or 1), with the defaults first.

    Attributes
    ----------
    n_features_in_, n_iter_ : int
        Number of features, and of rounds in the model.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns, if X was a frame with column names.
    best_iteration_ : int or None
        Round of the best score, or number that folds chose; None without early stopping.
    stopped_by_ : str
        ``"rounds"``, ``"early_stopping"``, ``"callback"``, ``"time_budget"`` or ``"interrupt"``.
    evals_result_ : dict
        Learning curves: ``evals_result_["validation"]["loss"][i]`` is the score after round i + 1;
        also ``"train"``, ``"out_of_bag"``, ``"cv"`` and the names of validation sets.
    booster_ : hedgerow.Booster
        The trained model.
    """

    _names_of_peers: ClassVar[Mapping[str, str]] = OF_ESTIMATORS

    booster_: Booster = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: npt.NDArray[np.object_] = field(init=False)
    n_iter_: int = field(init=False)
    best_iteration_: int | None = field(init=False)
    evals_result_: dict[str, dict[str, list[float]]] = field(init=False)
    stopped_by_: str | None = field(init=False)

    _objectives: ClassVar[tuple[str, ...]]
    _default_objective: ClassVar[str]
    _loss_parameters: ClassVar[tuple[str, ...]]
    _ranks: ClassVar[bool] = False

    n_estimators: int | Auto = "auto"
    learning_rate: LearningRate | Auto = "auto"
    max_leaves: int | Auto | None = "auto"
    max_depth: int | None = None
    min_samples_leaf: int | Auto = "auto"
    min_child_weight: float = 1e-3
    reg_lambda: float | Auto = "auto"
    reg_alpha: float = 0.0
    gamma: float = 0.0
    max_delta_step: float = 0.0
    subsample: float | Auto = "auto"
    sampling: allowed.Sampling = "uniform"
    goss_top_rate: float = 0.2
    goss_other_rate: float = 0.1
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    colsample_bynode: float | Auto = "auto"
    max_bins: int | Auto = "auto"
    grow_policy: allowed.GrowPolicy | Auto = "auto"
    tree_method: allowed.TreeMethod = "hist"
    boosting: allowed.Boosting = "gbdt"
    leaf_estimation: allowed.LeafEstimation = "auto"
    multi_strategy: allowed.MultiStrategy = "auto"
    drop_rate: float = 0.1
    skip_drop: float = 0.5
    max_drop: int = 50
    num_parallel_tree: int = 1
    oob_score: bool = False
    zero_as_missing: bool = False
    bundle_features: bool | Literal["auto"] = "auto"
    categorical_features: CategoricalFeatures = "auto"
    unknown_category: UnknownCategory = "missing"
    max_cat_to_onehot: int | Auto = "auto"
    max_cat_threshold: int = 32
    cat_smooth: float | Auto = "auto"
    cat_l2: float | Auto = "auto"
    min_data_per_group: int | Auto = "auto"
    target_statistics: allowed.TargetStatistics = "auto"
    linear_leaves: bool | Auto = "auto"
    linear_lambda: float = 1.0
    feature_crosses: allowed.FeatureCrosses = "auto"
    monotone_constraints: allowed.MonotoneConstraints = None
    interaction_constraints: allowed.InteractionConstraints = None
    monotone_penalty: float = 0.0
    feature_penalties: allowed.ByFeature = None
    feature_weights: allowed.ByFeature = None
    extra_trees: bool | Auto = "auto"
    path_smooth: float = 0.0
    max_bins_by_feature: allowed.ByFeature = None
    advanced: Mapping[str, object] | None = None
    objective: OwnObjective = "auto"
    eval_metric: MetricChoice = None
    early_stopping: bool | Literal["auto", "cv"] = "auto"
    folds: Any = None
    blend: bool | int | Auto | Sequence[Mapping[str, Any]] = "auto"
    validation_fraction: float = 0.1
    patience: int | Auto = "auto"
    min_delta: float = 0.0
    train_scores: bool = False
    time_budget: float | None = None
    warm_start: bool = False
    device: allowed.Device = "cpu"
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    callbacks: Callback | Sequence[Callback] | None = None
    progress: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.dict = True
        tags.target_tags.required = True
        return tags

    # -- training ------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        offset: Any = None,
        offset_val: Any = None,
        groups: Any = None,
        time: Any = None,
        init_model: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = CHECKPOINT_SECONDS,
        **others: Never,
    ) -> Self:
        """Train on X and y.

        A fit that fails, or that an interrupt ends in its first round, leaves the estimator
        unchanged.  A later interrupt ends training and keeps the completed rounds.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
            Numbers, dates, text or categories; NaN, null and ``None`` are missing (docs/data.md).
            A Dataset of files holds y and all other values of rows (docs/out-of-core.md).
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Of a classifier: labels, which are text, integers, booleans, or floats that are
            integers; two or more columns of 0 and 1 are several labels of each row.  Of a
            regressor: finite numbers; two or more columns are several targets
            (docs/several-targets.md).  ``"cox"`` and ``"aft"`` take times: numbers, negative for
            censored rows, or a frame, structured array or dict with ``event`` (1 or True if it
            happened) and ``time``, or for ``"aft"`` ``lower`` and ``upper``, the ends of an
            interval (docs/objectives.md).
        sample_weight : array-like of shape (n_rows,), optional
            Weights >= 0; a row of weight 0 is ignored.
        X_val, y_val : like X and y, optional
            Validation rows for learning curves and early stopping; a dict without ``y_val``, as
            in ``{"new": (X, y), "old": Dataset(X, y)}``, holds named sets; the first stops.
        sample_weight_val, offset_val : array-like, optional
            Weights and offset of the validation rows.
        offset : str, list of str, or array-like (n_rows,) or (n_rows, n_outputs), optional
            Initial raw score of each row: an array, which ``predict`` then needs as well, or
            names of columns of X, which are then not features.
        groups : array-like of shape (n_rows,), optional
            Group labels; early stopping holds out complete groups only.
        time : array-like of shape (n_rows,), optional
            Number or date of each row, for models of later rows: early stopping holds out the
            latest rows, and folds test later rows beside random ones (docs/cross-fitting.md).
        init_model : Booster, fitted estimator, or path of a model file, optional
            Model to whose trees ``n_estimators`` rounds are added (docs/continue.md).
        checkpoint : str or path-like, optional
            Folder for completed rounds, from which the same call resumes (docs/checkpoint.md).
        checkpoint_every : float >= 0, default=10.0
            Seconds between two writes of the checkpoint; 0 writes after every round.

        Returns
        -------
        self

        Raises
        ------
        DataError, DataTypeError, ParameterError
            For invalid data or parameters; the message names the column, row or parameter.
        StorageError
            If the checkpoint folder or the file of ``init_model`` cannot be used.

        Warns
        -----
        InterruptedFitWarning
            If an interrupt (Ctrl-C) ended the fit after its first round.
        """
        return self._fit_rows(locals())

    def _params(self) -> BoostParams:
        """Return the validated parameters of tree growing and boosting."""
        values = read_advanced(self.advanced, self._get_param_names())
        direct = {*BOOST_PARAMETER_NAMES} - {"seed", *ADVANCED_NAMES}
        values |= {name: self._plain(name) for name in BOOST_PARAMETER_NAMES if name in direct}
        params = boost_params({**values, "seed": seed_of(self.random_state)})
        is_fixed = self.boosting != "gbdt" or "learning_rate" not in self._automatic()
        if self._may_continue() or is_fixed:
            return params
        from hedgerow.boosting.automatic.recipe import rate_of_rounds

        return replace(params, learning_rate=rate_of_rounds(params.n_estimators))

    def _may_continue(self) -> bool:
        """Return ``warm_start``; raise ``ParameterError`` unless it is a boolean."""
        return check_bool(self.warm_start, "warm_start")

    def _automatic(self) -> frozenset[str]:
        """Return the names of the parameters that are set to ``"auto"``."""
        from hedgerow.boosting.automatic.defaults import AUTO
        from hedgerow.boosting.automatic.recipe import AUTOMATIC

        strings = {name for name in AUTOMATIC if isinstance(getattr(self, name), str)}
        return frozenset(name for name in strings if getattr(self, name) == AUTO)

    def _plain(self, name: str) -> Any:
        """Return a parameter; ``"auto"`` becomes the default used before the data are known."""
        from hedgerow.boosting.automatic.defaults import AUTO
        from hedgerow.boosting.automatic.recipe import AUTOMATIC, plain_values

        value = getattr(self, name)
        if name not in AUTOMATIC or not isinstance(value, str):
            return value
        plain = plain_values()[name]
        if value != AUTO and not isinstance(plain, str):
            known = "True, False" if isinstance(plain, bool) else "a number"
            known = "a list of (column, column, operation), None" if plain is None else known
            raise ParameterError(f"{name} must be {known} or 'auto'; got {brief(value)}.")
        return plain if value == AUTO else value

    def _stopping(self) -> StoppingParams:
        from hedgerow.boosting.automatic.blending import check_blend
        from hedgerow.boosting.validation.stopping import StoppingParams

        check_blend(self.blend)
        return StoppingParams(
            self.early_stopping,
            self.validation_fraction,
            self._plain("patience"),
            self.min_delta,
            self.time_budget,
            blend=self.blend,
            train_scores=self.train_scores,
        )

    def _check_objective(self) -> None:
        if not isinstance(self.objective, str):
            from hedgerow.objectives.own import check_form  # names need no such loss

            check_form(self.objective)
            return  # a custom objective is called later, with the targets
        if self.objective == CUSTOM:
            raise ParameterError(
                "this estimator was read from a file, which holds no code: set objective to the "
                "function again to train it."
            )
        if self.objective not in ("auto", *self._objectives):
            known = ", ".join(map(repr, ("auto", *self._objectives)))
            raise ParameterError(
                f"objective of a {type(self).__name__} must be one of {known}; "
                f"got {brief(self.objective)}.{objective_hint(self.objective, self._objectives)}"
            )

    def _loss_values(self) -> dict[str, Any]:
        """Return the parameters of the loss; None means not set."""
        return {name: getattr(self, name) for name in self._loss_parameters}

    def _loss_spec(self, classes: AnyArray | None = None) -> LossSpec:
        """Return the loss; ``classes`` are the labels of a classifier with one for each row."""
        from hedgerow.boosting.loop.setup.job import LossSpec

        self._check_objective()
        chosen = self._default_objective if self.objective == "auto" else self.objective
        return LossSpec(chosen, self._loss_values(), has_queries=self._ranks)

    def _start(self, init_model: Any) -> tuple[Start | None, Any]:
        """Return the model to continue and the object that holds its classes."""
        from hedgerow.boosting.resume.continuing import Start

        fitted = self._may_continue() and "booster_" in self.__dict__
        if init_model is None:
            if not fitted:
                return None, None
            known = snapshot(self)
            return Start(known.booster_.model, total=True, name="the fitted model"), known
        if fitted:
            raise ParameterError(
                "init_model and warm_start=True both name a model to continue: leave init_model "
                "out, or set warm_start=False."
            )
        from hedgerow.booster import initial_model

        model, source = initial_model(init_model)
        return Start(model), source

    def _job(self, arguments: Mapping[str, Any], start: Start | None = None) -> Job:
        """Return the rows among the arguments of ``fit`` or a similar function."""
        from hedgerow.boosting.loop.setup.job import Job, called_in_fit
        from hedgerow.boosting.row_data.dataset import (
            Dataset,
            named_valid,
            reads_batches,
            validation_sets,
        )
        from hedgerow.boosting.row_data.offsets import check_offset_columns
        from hedgerow.boosting.row_data.row_values import ROW_VALUES, given_values

        X = arguments["X"]
        if reads_batches(X):
            for name in ("y", *(value.of_fit for value in ROW_VALUES)):
                for given in (name, f"{name}_val"):
                    if arguments.get(given) is not None:
                        raise DataError(
                            f"{given} is given, but X is a Dataset of files, which names the "
                            f"columns of all values of its rows: use {given}=None."
                        )
            sets = dict(named_valid(arguments.get("X_val")))
            for name, rows in sets.items():
                if not isinstance(rows, Dataset):
                    raise DataTypeError(
                        f"the validation rows {name!r} in X_val must be a Dataset, as X is; got a "
                        f"{type(rows).__name__}: make one, Dataset(X, y), or Dataset.from_files."
                    )
                sets[name] = self._of_files(rows) if reads_batches(rows) else rows
            return Job(self._of_files(X), sets, start, called_in_fit, type(self).__name__)
        if isinstance(X, Dataset):
            raise DataTypeError(
                "X must be a table here; got a Dataset: give its X and y (fit also takes those of "
                "Dataset.from_files and from_batches, with y=None)."
            )
        rows = Dataset(
            X,
            arguments["y"],
            categorical_features=self.categorical_features,
            unknown_category=self.unknown_category,
            **given_values(arguments),
        )
        X_val, y_val = arguments.get("X_val"), arguments.get("y_val")
        sets = validation_sets(X_val, y_val, given_values(arguments, "_val"))
        for other in sets.values():
            check_offset_columns(rows.offset_names, other.offset)
        return Job(rows, sets, start, called_in_fit, type(self).__name__)

    def _of_files(self, rows: FileDataset) -> FileDataset:
        """Return rows of files with the options of the estimator, or else their own."""
        chosen: dict[str, Any] = {}
        if not (isinstance(asked := self.categorical_features, str) and asked == "auto"):
            chosen["categorical_features"] = asked
        if self.unknown_category != "missing":
            chosen["unknown_category"] = self.unknown_category
        labels = is_classifier(self) and rows.n_targets == 1
        return rows.for_one_use(reads_labels=labels, **chosen)

    def _read_targets(
        self, job: Job, n_rows: int, weight: FloatArray | None, source: Any = None
    ) -> KnownTargets:
        """Read the training targets and make the loss; ``source`` has the classes of a model."""
        return self._loss_spec().read(job, n_rows, weight, self._targets_of)

    def _targets_of(
        self, rows: Dataset, n_rows: int, name: str, like: Targets | None = None
    ) -> Targets:
        """Read the targets of rows; ``like`` are the training targets, if these are others."""
        raise NotImplementedError

    def _fit_rows(self, arguments: Mapping[str, Any]) -> Self:
        """Train on the rows among the arguments of ``fit``."""
        if others := arguments["others"]:
            check_arguments(type(self).fit, others, self)
        from hedgerow.boosting.automatic.defaults import choose
        from hedgerow.boosting.loop.driver import FitOptions
        from hedgerow.boosting.loop.fit import fit
        from hedgerow.io.checkpoint_folder import checkpoint_at

        params, stopping = self._params(), self._stopping()
        kept = checkpoint_at(arguments["checkpoint"], arguments["checkpoint_every"])
        self._check_objective()
        start, source = self._start(arguments["init_model"])
        job, automatic = self._job(arguments, start), self._automatic()
        # Folds cannot choose the number of rounds of a model that is or will be continued.
        continued = start is not None or self._may_continue()
        if continued and "learning_rate" in automatic:  # it must not depend on the rounds
            params = replace(params, learning_rate=self._plain("learning_rate"))
        options = FitOptions(
            stopping, self.eval_metric, self.callbacks, self.progress, self.n_jobs, kept, self.folds
        )
        read_targets = partial(self._read_targets, source=source)
        chosen = partial(choose, params, stopping, automatic, is_recorded=kept is not None,
                         goes_on=continued)  # fmt: skip
        with job.opened(kept) as own:
            spec = own.read(read_targets, params, options)
            model = fit(spec, params, options, choose=None if spec.in_chunks else chosen)
        if spec.classes is None:
            return self._adopt(model)
        named = classes_of_labels(model)  # by the model to continue, or by y
        return self._adopt(model, classes_=spec.classes if named is None else named)

    def _adopt(self, model: Model, **more: Any) -> Self:
        """Set the fitted attributes from a trained model, all in one assignment."""
        from hedgerow.booster import Booster, objective_of

        classes = more.get("classes_") if n_classes_of(objective_of(model)) else None
        booster = Booster(model, classes)
        fitted: dict[str, Any] = {
            "booster_": booster,
            "n_features_in_": booster.num_features,
            "n_iter_": booster.num_rounds,
            "best_iteration_": booster.best_iteration,
            "evals_result_": booster.evals_result,
            "stopped_by_": booster.stopped_by,
            **more,
        }
        if model.schema.named:
            fitted["feature_names_in_"] = np.array(booster.feature_names, dtype=object)
        kept = {name: value for name, value in vars(self).items() if name not in _FITTED}
        self.__dict__ = kept | fitted
        return self

    # -- prediction ----------------------------------------------------------

    def _inspected(self) -> Inspected:
        from hedgerow.inspection.background import Inspected

        check_is_fitted(self)
        booster = self.booster_
        return Inspected(booster.model, booster.classes, booster.target_names)

    def predict_one(self, row: Any, kind: PredictionKind = "value") -> Any:
        """Predict one row without the overhead of a table.

        See :meth:`hedgerow.Booster.predict_one`.

        Parameters
        ----------
        row : dict, list, tuple or array of shape (n_features,)
        kind : {"value", "raw", "probability", "leaf"}, default="value"
            As for :meth:`hedgerow.Booster.predict`.

        Returns
        -------
        float, int, label, or ndarray of one axis

        Examples
        --------
        >>> from hedgerow import HedgerowRegressor
        >>> model = HedgerowRegressor(n_estimators=20).fit([[k % 5] for k in range(50)], range(50))
        >>> bool(model.predict_one([3.0]) == model.predict([[3.0]])[0])
        True
        """
        booster: Booster | None = self.__dict__.get("booster_")
        if booster is None:
            check_is_fitted(self)  # raises
            booster = self.booster_
        return booster.predict_one(row, kind)

    def _fitted_booster(self, X: Any) -> Booster:
        """Return the booster, after those checks of scikit-learn that the booster lacks."""
        booster: Booster | None = self.__dict__.get("booster_")
        if booster is None:
            check_is_fitted(self)  # raises unless another fitted attribute exists
            booster = self.booster_
        schema = booster.model.schema
        if type(X) is not np.ndarray or schema.named:
            warn_about_names(X, schema, type(self).__name__, stacklevel=3)
        return booster

    def _raw(self, booster: Booster, X: Any, offset: Any) -> FloatArray:
        reader = type(self).__name__
        return booster.raw_scores(X, n_jobs=self.n_jobs, reader=reader, offset=offset)

    def _known_targets(self, booster: Booster, y: Any, n_rows: int) -> FloatArray:
        """Return targets of other rows, in the order of the model's."""
        from hedgerow.booster import objective_of

        return targets_of_rows(objective_of(booster.model), y, n_rows)

    def _staged_raw(self, booster: Booster, X: Any, offset: Any) -> Iterator[FloatArray]:
        reader = type(self).__name__
        return booster.staged_raw_scores(X, n_jobs=self.n_jobs, reader=reader, offset=offset)

    def apply(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)

        Returns
        -------
        ndarray of int32, shape (n_rows, n_trees)
            Index of the node in its tree.  With more than two classes, the trees of
            a round are adjacent columns in the order of ``classes_``.
        """
        booster = self._fitted_booster(X)
        return booster.leaves(X, n_jobs=self.n_jobs, reader=type(self).__name__)
