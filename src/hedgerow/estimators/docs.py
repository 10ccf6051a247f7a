"""Parts of docstrings that all boosted estimators share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

TREES = """
n_estimators : int or "auto", default="auto"
    Number of boosting rounds.  A round grows one tree, or with more than two classes one
    tree for each class.  With ``"auto"``, cross-validation or validation rows determine
    the number, and the data determine every other parameter that is ``"auto"``
    (docs/defaults.md).  The other ``"auto"`` parameters have plain defaults in three
    cases: with a number of rounds; with a schedule of learning rates, or
    ``early_stopping`` other than ``"auto"`` or ``"cv"``; and for rankings, rows in files
    and clusters.  The plain defaults are 100 rounds, 31 leaves of 20 rows or more (8
    leaves of 1 row or more below 100 rows), ``reg_lambda=1``, no sampling, and a patience
    of 10.
learning_rate : float > 0, sequence of n_estimators such, callable or "auto", default="auto"
    Factor on the leaf values of every tree.  A sequence has one factor for each round.  A
    callable takes the number of completed rounds, 0 in the first;
    :mod:`hedgerow.schedules` has common schedules.  ``"auto"`` with a number n of rounds
    means 0.1 up to 100 rounds, and 10 / n, but at least 0.02, beyond.
max_leaves : int from 2 to 65535, None or "auto", default="auto"
    Most leaves of a tree; None means no limit.
max_depth : int from 1 to 62, or None, default=None
    Most splits between the root and a leaf; None means no limit, or 6 for symmetric
    trees.  ``max_leaves`` or ``max_depth`` must be set.
min_samples_leaf : int >= 1 or "auto", default="auto"
    Fewest training rows in a leaf, whatever their weights.
min_child_weight : float >= 0, default=1e-3
    Smallest sum of hessians in a leaf.
reg_lambda : float >= 0 or "auto", default="auto"
    L2 penalty on leaf values.
reg_alpha : float >= 0, default=0.0
    L1 penalty on leaf values.
gamma : float >= 0, default=0.0
    Loss reduction that a split must exceed.
max_delta_step : float >= 0, default=0.0
    Largest absolute leaf value before the learning rate; 0 means no limit, unless hessians may
    be nearly 0.  Then the limit is the longest step that surely lowers the loss: 1.8 at a
    learning rate of 1, 14 at 0.3 and 59 at 0.1.  It holds for losses of classes, rankings and
    survival times with ``reg_lambda`` below 1, and for those of log means (``"poisson"``,
    ``"gamma"``, ``"tweedie"``, ``"gamma_dist"``, ``"negative_binomial"``) also with a learning
    rate above 0.3.  From a total weight of 100,000 on (without weights: 100,000 rows), the bound
    of ``reg_lambda`` is the total weight over 100,000 instead of 1.  ``"aft"`` always has the
    limit, times ``aft_scale``, except with the normal distribution.  The limit is at most 16 for
    ``"cox"``, ``"gamma_dist"`` and ``"negative_binomial"`` with such a ``reg_lambda``; for these
    two and ``"poisson"`` with a target far (500 times) above the mean; and for ``"gamma"`` with
    many targets far below it.
subsample : float in (0, 1] or "auto", default="auto"
    Fraction of the rows used in each round; with ``sampling="mvs"`` the expected
    fraction.
sampling : {"uniform", "goss", "mvs"}, default="uniform"
    Method that samples the rows of a round.  ``"uniform"``: with equal probability.
    ``"goss"``: all rows with large gradients and some of the others (Ke et al. 2017).
    ``"mvs"``: with a probability that grows with gradient and hessian, which minimises
    the variance of gains (Ibragimov and Gusev 2019).  With ``"goss"`` and ``"mvs"``,
    sampled rows are weighted to represent all rows; ``min_samples_leaf`` and the row
    counts of nodes refer to the sampled rows.
goss_top_rate : float in [0, 1), default=0.2
    Fraction of the rows with the largest absolute gradients, which
    ``sampling="goss"`` always keeps.  With 0 the sample is the same
    as with ``sampling="uniform"``.
goss_other_rate : float in (0, 1], default=0.1
    Fraction of all rows that ``sampling="goss"`` draws from the others; each of them
    represents ``(1 - goss_top_rate) / goss_other_rate`` rows.
colsample_bytree, colsample_bylevel, colsample_bynode : float in (0, 1], default=1.0
    Fraction of the features that a tree, a level or a node may use.  The fractions
    multiply: levels sample from the features of the tree, nodes from the features of the level.
    ``colsample_bynode`` may be ``"auto"``, its default.
max_bins : int from 2 to 255, or "auto", default="auto"
    Most bins for the values or categories of a feature; missing values have an extra bin.
    ``"auto"`` is 255, or 63 if the recipe for few rows applies (docs/defaults.md).
grow_policy : {"leafwise", "depthwise", "symmetric"} or "auto", default="auto"
    Order of splits.  ``"leafwise"`` splits the leaf with the largest gain first,
    ``"depthwise"`` the leaf closest to the root.  ``"symmetric"`` splits all nodes of a
    level by the same condition (docs/symmetric.md); ``max_depth`` then sets the size, and
    ``max_leaves`` has no effect.  ``"auto"`` is symmetric if a recipe applies, for
    squared error on 3,000 rows or more of up to 100 columns; otherwise leafwise.
tree_method : {"hist", "approx", "exact"}, default="hist"
    Candidate thresholds of splits.  ``"hist"``: the borders of at most ``max_bins`` bins
    of each feature, chosen once per fit (Ke et al. 2017).  ``"exact"``: all distinct
    values, on presorted columns.  ``"approx"``: quantiles of each column, weighted by
    hessians (Chen and Guestrin 2016).
boosting : {"gbdt", "dart", "rf"}, default="gbdt"
    ``"gbdt"``: each tree corrects the sum of the previous trees.  ``"dart"``: each tree
    corrects that sum without some randomly dropped trees (Rashmi and Gilad-Bachrach
    2015).  ``"rf"``: a random forest, the mean of trees that are grown on different
    samples; ``subsample`` or a ``colsample_...`` must be below 1, and ``learning_rate``
    has no effect.
leaf_estimation : {"auto", "newton", "gradient", "line_search"}, default="auto"
    ``"newton"``: splits and leaf values use first and second derivatives (Friedman,
    Hastie and Tibshirani 2000; Chen and Guestrin 2016).  ``"gradient"``: trees fit the
    negative gradient by least squares, and the value of a leaf is its mean (Friedman
    2001).  ``"line_search"``: trees as with ``"gradient"``, but the value of each leaf
    minimises the loss of its rows; ``reg_lambda`` and ``reg_alpha`` then affect only the
    choice of splits.  ``"auto"``: Newton, or line search for losses without a second
    derivative.
multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
    Trees for several targets, several labels or more than two classes.
    ``"one_output_per_tree"``: a round grows one tree for each output.
    ``"multi_output_tree"``: a round grows one tree, whose leaves hold a value for each
    output and whose splits maximise the sum of the gains.  ``"auto"``:
    ``"multi_output_tree"`` for several targets and labels with ``tree_method="hist"``
    unless there are monotone constraints or linear leaves, or another parameter rules it
    out (docs/several-targets.md), and ``"one_output_per_tree"`` otherwise.
drop_rate, skip_drop : float in [0, 1], default=0.1 and 0.5
    With ``boosting="dart"``: probability that an earlier round is dropped, and
    probability that a round drops none.
max_drop : int >= 1, default=50
    With ``boosting="dart"``: most rounds dropped at once.
num_parallel_tree : int >= 1, default=1
    Trees grown for each output in a round; above 1, boosted random forests as in
    XGBoost.  All trees of a round use the gradients at the scores before the round, and
    each has its own sample of rows and columns; without sampling they are equal.  Each
    adds ``learning_rate / num_parallel_tree`` times its values.  ``boosting="dart"``
    drops complete rounds.
oob_score : bool, default=False
    Evaluate each round, or a random forest, on the rows that ``subsample`` left out
    (``oob_improvement_``, ``oob_score_``).  The evaluation predicts these rows and
    computes their loss in each round.
zero_as_missing : bool, default=False
    Treat the number 0 as missing, in training and prediction.  In a sparse table this
    includes the zeros that are not stored.
bundle_features : bool or "auto", default="auto"
    Let features that are rarely or never nonzero in the same row, such as indicators of
    one category, share a histogram column: exclusive feature bundling (Ke et al. 2017).
    ``"auto"`` bundles if this saves a quarter of the columns or more.  Without conflicts
    the bytes of the model do not depend on this parameter.
categorical_features : "auto", list of names or positions, bool mask, or None, default="auto"
    Columns of categories, whose values have no order.  ``"auto"`` selects text columns and
    columns of the frame library's categorical types.  A selected column of numbers is
    read as categories; text in a column that is not selected is an error.  Categories are
    identified by their values, never by the codes of a library.
unknown_category : {"missing", "backoff", "error"}, default="missing"
    Treatment of a category that no training row has, in predictions: as a missing value,
    as a separate category, or as an error.  ``booster_.unseen_categories`` counts such rows.
max_cat_to_onehot : int in 1 .. 254 or "auto", default="auto"
    Split a category column with at most this many levels in a node by one level against
    all others, and a column with more levels by a set of levels.  ``"auto"`` is 4, or 254
    if cross-validation prefers it.
max_cat_threshold : int in 1 .. 254, default=32
    Most levels in the smaller set of a split.
cat_smooth : float >= 0 or "auto", default="auto"
    Levels with fewer rows than this in a node are merged.  The levels are then sorted by
    ``G / (H + cat_smooth)``, which moves rare levels to the middle.  ``"auto"`` is 1 if a
    recipe applies to less than 10,000 rows, otherwise 10.
cat_l2 : float >= 0 or "auto", default="auto"
    Added to ``reg_lambda`` when sets of levels are compared.  ``"auto"`` is 1 if a recipe
    applies to less than 10,000 rows, otherwise 10.
min_data_per_group : int >= 1 or "auto", default="auto"
    Fewest rows by which a candidate set of levels must exceed the previous one, and
    fewest rows of the remaining levels.  ``"auto"`` is 1 if a recipe applies to less than
    10,000 rows, otherwise 100.
target_statistics : bool or "auto", default="auto"
    Replace category columns by the mean target of their levels.  In training, the mean of
    each row is taken over the rows before it in a random order, so no row sees its own
    target (Prokhorenkova et al. 2018).  ``"auto"`` selects columns of more than 254
    levels, whose sets of levels would fit noise; True selects columns of more than two.
    With several targets each has its own means, and ``"auto"`` selects none.
    Not available for more than ten classes or targets.  Small data are repeated four times with
    different orders, and ``subsample`` draws from all copies.  A row of weight 2 is not
    exactly equivalent to two rows.
linear_leaves : bool or "auto", default="auto"
    With True, a leaf adds a linear function of the numeric columns split last on its
    path, at most three (docs/linear-leaves.md).  ``"auto"`` uses linear leaves if a recipe
    applies, for squared error on 100 rows or more.  Not available for sparse tables,
    monotone columns, and line search.  In vector leaves each output has a function.
linear_lambda : float >= 0, default=1.0
    Penalty on the slopes of linear leaves.  In a leaf of n rows, a single slope is
    ``n / (n + linear_lambda)`` times the least-squares slope, whatever the scale of the
    column.
feature_crosses : list of (column, column, operation), None or "auto", default="auto"
    Products, differences and ratios of two numeric columns that trees may split like
    columns, for example ``[("weight", "height", "ratio")]``; the operation is
    ``"product"``, ``"difference"`` or ``"ratio"``.  A cross is missing if a value is
    missing or a ratio divides by zero.  ``"auto"`` on 100 to 10,000 rows: if a recipe
    applies, cross-validation also tries all crosses of the four numeric columns with the
    largest gains, and takes them if they are better by two standard errors.  Shapley
    values and importances belong to the columns.  None: no crosses.  Not available for
    sparse tables, categories and monotone columns; models with crosses cannot be
    exported to formats of other libraries.
monotone_constraints : dict of column to direction, sequence of n_features directions, or None
    1 or ``"increasing"``: predictions never fall as the column grows.  -1 or
    ``"decreasing"``: they never rise.  0: no constraint.  The constraints hold for every
    loss, every ``boosting``, and each of several targets; ``verify_monotone`` proves them.
    Not available for categories, more than two classes, or vector leaves.
interaction_constraints : list of lists of columns, "pairwise", "no_interactions" or None
    Groups of columns that may interact: the columns that split one branch of a tree must
    belong to the same list.  Columns in no list form another group.  ``"pairwise"``
    allows any two columns in a branch, ``"no_interactions"`` only one.
monotone_penalty : float >= 0, default=0.0
    Discourage splits of monotone columns near the root, because their bounds restrict the
    whole tree.  At depth ``d`` (0: the root) their gain is multiplied by
    ``1 - monotone_penalty / 2**d`` for a penalty of at most 1, and by
    ``1 - 2**(monotone_penalty - 1 - d)``, at least 0, beyond.  A penalty of 2 forbids
    them in the first two levels.
feature_penalties : dict of column to factor, sequence of n_features factors, or None
    Factors >= 0 on the gains of splits; a column with factor 0 is never used.
feature_weights : dict of column to weight, sequence of n_features weights, or None
    Weights of the columns for column sampling (``colsample_...`` below 1).  A column with
    twice the weight is drawn twice as readily, one of weight 0 never.  Columns that a
    dict leaves out have weight 1.
extra_trees : bool, default=False
    Evaluate only one random threshold of each column in each node, between its smallest
    and largest value there (Geurts et al. 2006).  The trees differ more and fit less
    noise.  For a category column one random partition is evaluated.  In symmetric
    trees, one threshold of each column in each level.
path_smooth : float >= 0, default=0.0
    Shrink the value ``w`` of a leaf of ``n`` rows towards the value ``v`` of its parent,
    which counts as ``path_smooth`` rows: ``(n w + path_smooth v) / (n + path_smooth)``.
forced_splits : dict, path of a JSON file, or None
    First splits of each tree, in LightGBM's format: ``{"feature": name or position,
    "threshold": number, "left": {...}, "right": {...}}``, where ``left`` and ``right``
    are optional.  Rows up to the threshold go left.  A forced split that has no gain in a
    tree, or whose column was not sampled, is replaced by the best split.  Not available
    for categories.
max_bins_by_feature : dict of column to int, sequence of n_features ints, or None
    Most bins of each column, from 2 to 255, instead of ``max_bins``.
forced_bins : dict of column to ascending numbers, or None
    Cuts that a column has whatever the data; its other cuts are chosen between these.
advanced : dict or None, default=None
    Parameters for experiments, by name, such as ``{"sketch": "local"}``; other
    parameters keep their defaults.

    - ``"sketch"``, ``"global"`` (default) or ``"local"``: whether
      ``tree_method="approx"`` proposes quantiles once per tree or again at every node.
    - ``"sketch_eps"``, float in (0, 1), default 0.03: largest fraction of the weight
      between two quantiles of ``tree_method="approx"``; each feature has about
      ``1 / sketch_eps`` of them.
    - ``"bundle_order"``, ``"count"`` (default) or ``"degree"``: which features are
      bundled first, those with the most nonzero rows, or those with the most rows in
      conflict with other features (the degree in the conflict graph).
    - ``"max_conflict_rate"``, float in [0, 1), default 0: conflicts allowed in a bundle,
      as a fraction of the rows.  In a row with a conflict, training uses the feature that
      comes later in the bundle and treats the other as 0; prediction uses the values of
      both.
    - ``"bundle_conflicts"``, ``"sum"`` (default) or ``"max"``: whether
      ``max_conflict_rate`` above 0 limits the sum of the conflicts that the members add
      to a bundle, or the largest number that one member adds.
    - ``"statistics_order"``, 1 or 2 (default): with 2, target statistics include the mean
      target of pairs of levels if at least one of the two columns is replaced.
"""

TRAINING = """
early_stopping : bool, "auto", "oob" or "cv", default="auto"
    Stop training when the validation score has not improved for ``patience`` rounds, and
    keep the trees up to the best round.  ``"auto"`` uses ``X_val`` if it is passed.
    Otherwise, with an automatic number of rounds, it uses cross-validation, which also
    selects among a few kinds of trees, and then trains on all rows.  Otherwise it holds
    out validation rows if there are more than 10,000 rows.
    ``"oob"``: evaluate each round on the rows that ``subsample`` below 1 leaves out; no
    rows are held out.
    ``"cv"``: find the best number of rounds by five-fold cross-validation, then train that
    many rounds on all rows (docs/cross-fitting.md).  Only for tables in memory.
validation_fraction : float in (0, 1), default=0.1
    Fraction of the rows held out for early stopping if ``X_val`` is not passed; for
    classification, stratified by class.
patience : int >= 1 or "auto", default="auto"
    Number of consecutive rounds without improvement after which training stops.
min_delta : float >= 0, default=0.0
    Smallest change of the score that counts as an improvement (exclusive).
train_scores : bool, default=False
    Also score the training rows after each round, as ``evals_result_["train"]``.  These
    scores decide nothing.  Overfitting shows in a training curve that improves while the
    validation curve gets worse.
time_budget : float > 0 or None, default=None
    Time limit of the fit in seconds.  Training stops before a round that would probably
    exceed the limit; the first round always runs.  The number of rounds depends on the
    machine, but the trees do not.
warm_start : bool, default=False
    Continue from the fitted model when ``fit`` is called again, on the rows that are then
    passed.  ``n_estimators`` is the total number of rounds.
    ``fit(init_model=...)``, in contrast, adds ``n_estimators`` rounds.
device : {"cpu", "cuda", "auto"}, default="cpu"
    Where trees are grown.  ``"cuda"`` is the first NVIDIA GPU; ``"auto"`` is the GPU for 200,000
    rows or more, if there is one and it can grow these trees.  The model does not depend on it.
    A GPU keeps dense bins of all rows in its memory, and grows no exact trees (docs/gpu.md).
n_jobs : int or None, default=None
    Number of threads in training and prediction.  None uses all available processors (or
    ``OMP_NUM_THREADS``), -1 all of them.  The model does not depend on it.
random_state : int, RandomState or None, default=None
    Seed of row and column sampling, of rounding, and of the validation rows.  None means
    0: the same data and parameters give the same model.
callbacks : callable, callback of scikit-learn, or sequence of these, default=None
    A callable is called after every round with a
    :class:`hedgerow.boosting.loop.callbacks.Round`; training stops if it returns True.
    For callbacks of scikit-learn see :mod:`hedgerow.estimators.hooks`.
progress : bool, default=False
    Show a progress bar in a notebook, or if standard error is a terminal.
"""

ATTRIBUTES = """
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of str, shape (n_features,)
    Names of the columns, if X was a frame with column names.
n_iter_ : int
    Number of rounds in the model.
best_iteration_ : int or None
    Round with the best validation (or out-of-bag) score, or the number of rounds that
    cross-validation chose; equal to ``n_iter_``.  None without early stopping.
chosen_params_ : dict
    Values chosen for the parameters that were ``"auto"``.  If cross-validation chose the
    number of rounds, also: ``"folds"``, the number of folds and the number of them that
    were tested; ``"stride"``, the rounds of the model for each round of a fold; and
    ``"tried"``, for each setting compared its score, its rounds in the folds, and its
    differences from the first (docs/defaults.md).
repeat_params_ : dict
    Parameters that repeat the fit without cross-validation:
    ``type(model)(**model.repeat_params_)`` grows the same trees on the same rows
    (docs/defaults.md).
stopped_by_ : str
    Reason why training ended: ``"rounds"``, ``"early_stopping"``, ``"callback"``,
    ``"time_budget"`` or ``"interrupt"``.
evals_result_ : dict
    Learning curves: ``evals_result_["validation"]["loss"][i]`` is the score after round
    i + 1.  Named validation sets have their names as keys, ``train_scores`` adds
    ``"train"``, and ``oob_score`` adds ``"out_of_bag"``.  Without validation rows the
    key is ``"train"`` if there is an ``eval_metric``; otherwise the dict is empty.  With
    ``early_stopping="cv"`` the key is ``"cv"``: the scores of all rows, each predicted by
    the fold that tests it, after each round of the folds (see ``"stride"`` in
    ``chosen_params_``).
oob_improvement_ : ndarray of float64, shape (n_iterations,)
    Reduction of the out-of-bag loss in each round; with ``oob_score`` and
    ``boosting="gbdt"``.
oob_score_ : float
    Accuracy or R2 of out-of-bag predictions, in which each row is predicted by the trees
    that did not see it; with ``oob_score`` and ``boosting="rf"``.
feature_importances_ : ndarray of shape (n_features,)
    Fraction of the total loss reduction due to splits of each feature.
booster_ : hedgerow.Booster
    The trained model.
"""


FIT_TABLE = """
X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
    Numbers, dates, text or categories.  NaN, null and ``None`` are missing values;
    infinities are ordinary values.  Frames may come from pandas, polars, pyarrow and
    others, arrays also from a GPU (docs/gpu.md).  A single row may be a dict.
"""

FIT_OFFSET = """
Initial raw score of each row, to which the trees are added.  Names select columns of
    X (and X_val), which are then not features; the model remembers the names and adds
    these columns to its predictions.  An array must be passed again to ``predict``.
offset_val : array-like, optional
    Offset of the validation rows, if ``offset`` is an array.
"""

FIT_WEIGHTS = """
sample_weight : array-like of shape (n_rows,), optional
    Weights >= 0; a row of weight 0 is ignored.
X_val, y_val : like X and y, optional
    Validation rows for learning curves and early stopping.  A dict without ``y_val``, as in
    ``X_val={"new": (X, y), "old": (X, y, weight)}``, holds several named sets, each with
    its own curves; early stopping uses the first.  A :class:`hedgerow.Dataset` in place
    of a tuple may hold weights and an offset, too.
sample_weight_val : array-like, optional
    Weights of the validation rows.
offset : str, list of str, or array-like of shape (n_rows,) or (n_rows, n_outputs), optional
    <offset>
groups : array-like of shape (n_rows,), optional
    Group labels; early stopping holds out complete groups only.
"""

FIT_CONTINUING = """
init_model : Booster, fitted estimator, or path of a model file, optional
    Model to continue: training adds ``n_estimators`` rounds to its trees
    (docs/continue.md).
checkpoint : str or path-like, optional
    Folder where this fit saves its completed rounds.  If the fit is stopped for any
    reason, the same call resumes from there, and the model has the same bytes as without
    the interruption (docs/checkpoint.md).
checkpoint_every : float >= 0, default=10.0
    Seconds between two writes of the checkpoint; 0 writes after every round.

Returns
-------
self

Raises
------
DataError, ParameterError
    (``ValueError``) for invalid data or parameters; the message names the column, row or
    parameter.
DataTypeError
    (``TypeError``) for columns of mixed or unsupported types.
StorageError
    (``OSError``) if the checkpoint folder cannot be used, or the file of ``init_model`` cannot
    be read.

Warns
-----
InterruptedFitWarning
    If an interrupt (Ctrl-C) ended the fit.
"""

_TEXTS = {
    "<trees>": TREES,
    "<training>": TRAINING,
    "<attributes>": ATTRIBUTES,
    "<table>": FIT_TABLE,
    "<weights>": FIT_WEIGHTS,
    "<offset>": FIT_OFFSET,
    "<continuing>": FIT_CONTINUING,
}


def with_texts(texts: Mapping[str, str]) -> Callable[[_Class], _Class]:
    """Return a decorator that fills in shared parts, by their marks in angle brackets.

    It fills in the docstrings of a class and of its method ``fit``.
    """

    def fill(cls: _Class) -> _Class:
        for documented in (cls, vars(cls)["fit"]):
            if documented.__doc__ is not None:  # None under python -OO
                text = inspect.cleandoc(documented.__doc__)
                for mark, shared in texts.items():
                    text = text.replace(mark, shared.strip("\n"))
                documented.__doc__ = text
        return cls

    return fill


shared_texts = with_texts(_TEXTS)
"""Decorator of the boosted estimators."""
