"""Texts that stand in the docstrings of all boosted estimators."""

from __future__ import annotations

import inspect
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

TREES = """
n_estimators : int or "auto", default="auto"
    Boosting rounds: trees, or with more than two classes groups of one
    tree for each class.  ``"auto"``: folds or validation rows find the number, and every
    other ``"auto"`` is chosen by the data (docs/defaults.md), whatever else is given.  With
    a number, ``early_stopping`` other than ``"auto"`` or ``"cv"`` or a schedule of rates,
    and for rankings, rows in files and clusters, rounds are counted and ``"auto"`` is
    plain: 100 rounds, 31 leaves of 20 rows or more (8 of single rows below 100 rows),
    ``reg_lambda=1``, no sampling, and a patience of 10.
learning_rate : float > 0, sequence of n_estimators such, callable or "auto", default="auto"
    Factor on the values of every tree.  A sequence has one for each round; a callable
    takes the rounds done before, 0 for the first; :mod:`hedgerow.schedules` has
    ready ones.  ``"auto"`` with a number of rounds: 0.1, for n above 100 rounds 10 / n, but
    no less than 0.02.
max_leaves : int from 2 to 65535, None or "auto", default="auto"
    Most leaves of a tree; None for no limit.
max_depth : int from 1 to 62, or None, default=None
    Most splits between root and leaf; None for no limit.  One of
    ``max_leaves`` and ``max_depth`` must be set.  Of symmetric trees None means 6.
min_samples_leaf : int >= 1 or "auto", default="auto"
    Fewest training rows in a leaf, whatever their weights.
min_child_weight : float >= 0, default=1e-3
    Smallest sum of hessians in a leaf.
reg_lambda : float >= 0 or "auto", default="auto"
    Penalty on the squares of leaf values.
reg_alpha : float >= 0, default=0.0
    Penalty on the absolute leaf values.
gamma : float >= 0, default=0.0
    Loss reduction that a split must exceed.
max_delta_step : float >= 0, default=0.0
    Largest absolute leaf value before the learning rate; 0 for no limit.
subsample : float in (0, 1] or "auto", default="auto"
    Share of the rows that each round is grown on; with ``sampling="mvs"`` the
    expected share.
sampling : {"uniform", "goss", "mvs"}, default="uniform"
    How these rows are chosen.  ``"uniform"``: all with the same chance.
    ``"goss"``: rows of large gradients for sure, some of the others
    (Ke et al. 2017).  ``"mvs"``: with a chance that grows with gradient and
    hessian, so that gains have the least variance (Ibragimov and Gusev 2019).
    With the latter two a row counts in sums for as many as it stands for;
    ``min_samples_leaf`` and the row counts of nodes are of the sampled rows.
goss_top_rate : float in [0, 1), default=0.2
    For ``sampling="goss"``: share of the rows kept for sure, by absolute gradient.
    With 0 the sample is that of ``sampling="uniform"``.
goss_other_rate : float in (0, 1], default=0.1
    For ``sampling="goss"``: share of all rows that is drawn from the others; each
    stands for ``(1 - goss_top_rate) / goss_other_rate`` rows.
colsample_bytree, colsample_bylevel, colsample_bynode : float in (0, 1], default=1.0
    Share of the features that a tree, a level of it, a node may use; each
    is taken of what the one before has left.  ``colsample_bynode`` may be ``"auto"``,
    its default.
max_bins : int from 2 to 255, or "auto", default="auto"
    Most bins of a feature's values, and of its categories; missing values have one more.
    ``"auto"``: 255, and 63 where the recipe for few rows is taken.
grow_policy : {"leafwise", "depthwise", "symmetric"} or "auto", default="auto"
    Split the leaf with the largest gain first, or the leaf nearest to the
    root, or all nodes of a level by the one cut that is best for all of them
    (docs/symmetric.md; ``max_depth`` is then the size, and ``max_leaves`` has no part).
    ``"auto"``: leafwise; symmetric for squared error on 3,000 rows and more of up to 100
    columns, where a recipe is taken.
tree_method : {"hist", "approx", "exact"}, default="hist"
    Where splits are looked for.  ``"hist"``: between at most ``max_bins`` bins
    of each feature, chosen once a fit (Ke et al. 2017).  ``"exact"``: between
    all values that differ, on columns sorted once.  ``"approx"``: at quantiles
    of each column in which a row weighs its hessian (Chen and Guestrin 2016).
sketch : {"global", "local"}, default="global"
    For ``tree_method="approx"``: propose quantiles once a tree, or anew at
    every node.
sketch_eps : float in (0, 1), default=0.03
    For ``tree_method="approx"``: largest share of the weight between two
    proposals; about ``1 / sketch_eps`` are made for each feature.
boosting : {"gbdt", "dart", "rf"}, default="gbdt"
    ``"gbdt"``: each tree corrects the sum of those before it.  ``"dart"``:
    some of those before it are left out of the sum (Rashmi and
    Gilad-Bachrach 2015).  ``"rf"``: a random forest, the mean of trees
    grown on samples of their own (``subsample`` or ``colsample_...`` must
    be below 1; ``learning_rate`` has no part in it).
leaf_estimation : {"auto", "newton", "gradient", "line_search"}, default="auto"
    ``"newton"``: trees and leaf values from first and second derivatives
    (Friedman, Hastie and Tibshirani 2000; Chen and Guestrin 2016).
    ``"gradient"``: trees fit the negative gradient by least squares, a leaf
    is its mean (Friedman 2001).  ``"line_search"``: the same trees, and each
    leaf takes the step that minimises the loss of its rows; the penalties
    ``reg_lambda`` and ``reg_alpha`` then act on the choice of splits only.
    ``"auto"``: Newton, or line search for losses without second derivative.
multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
    For several targets, labels or more than two classes.  ``"one_output_per_tree"``: a
    round grows a tree for each of them.  ``"multi_output_tree"``: it grows one tree whose
    leaves hold a value for each, by the sum of their gains.  ``"auto"``: the latter for
    several targets and labels, unless another setting does not allow it
    (docs/several-targets.md), the former for classes.
drop_rate, skip_drop : float in [0, 1], default=0.1 and 0.5
    For ``boosting="dart"``: chance of each earlier round to be dropped, and
    share of the rounds in which none is.
max_drop : int >= 1, default=50
    For ``boosting="dart"``: most rounds dropped at once.
num_parallel_tree : int >= 1, default=1
    Trees of each output in a round: above 1, boosted random forests, as in XGBoost.  All
    are grown on the gradients at the scores before the round, each on its own sample of rows
    and columns, and each adds ``learning_rate / num_parallel_tree`` of its step; without
    sampling they are equal.  ``boosting="dart"`` drops whole rounds.
oob_score : bool, default=False
    With ``subsample`` below 1: judge rounds, or a random forest, by the rows that
    they left out (``oob_improvement_``, ``oob_score_``); it costs a walk and a
    loss of these rows each round.
zero_as_missing : bool, default=False
    Take the number 0 for a missing value, in dense tables and in sparse ones,
    where it need not be recorded; in tables for prediction too.
bundle_features : bool or "auto", default="auto"
    Let features that are never, or hardly ever, away from 0 in the same row
    (indicators of one category, for example) share a column of the histogram:
    exclusive feature bundling (Ke et al. 2017).  ``"auto"``: where that saves a
    quarter of the columns or more.  Without conflicts the model is the same
    to the byte, whatever is chosen here.
bundle_order : {"count", "degree"}, default="count"
    Which features are put into bundles first: those with most rows away from 0,
    or those that meet others in most rows (the degree in the graph of conflicts).
bundle_conflicts : {"sum", "max"}, default="sum"
    What ``max_conflict_rate`` (above 0) bounds: the conflicts that the members of a bundle
    bring in, together, or the largest number that one member brings in.
max_conflict_rate : float in [0, 1), default=0.0
    Conflicts allowed in a bundle, as a share of the rows.  In such a row the
    feature that comes later in the bundle counts and the other is taken for 0 in
    training; prediction reads every feature as it is.
categorical_features : "auto", list of names or positions, bool mask, or None, default="auto"
    Columns of categories, whose values have no order.  ``"auto"``: text and the
    categorical types of the frame library.  Columns of numbers become categories if
    they are named; text that is not named is an error.  Values are told apart by what
    they are, never by the codes of a library.
unknown_category : {"missing", "backoff", "error"}, default="missing"
    What a prediction makes of a category that no training row has: a missing value,
    a category of its own, or an error.  How many there were:
    ``booster_.unseen_categories``.
max_cat_to_onehot : int in 1 .. 254 or "auto", default="auto"
    A category column with up to so many levels in a node is split by one level
    against all others; one with more by a set of levels.  ``"auto"``: 4, or 254 if
    the folds speak for that.
max_cat_threshold : int in 1 .. 254, default=32
    Most levels in the smaller set of a split.
cat_smooth : float >= 0, default=10
    Levels with fewer rows in a node are taken together, and the levels are sorted
    by ``G / (H + cat_smooth)``: those of few rows stand in the middle.
cat_l2 : float >= 0, default=10
    Added to ``reg_lambda`` when sets of levels are compared.
min_data_per_group : int >= 1 or "auto", default="auto"
    Rows that a set of levels must have beyond the last one that was tried, and all
    others too.  ``"auto"`` without a choice by size: 100.
target_statistics : bool or "auto", default="auto"
    Replace category columns by the mean target of their levels, which in training
    is taken over the rows before each row in random orders, so that none sees its
    own target (Prokhorenkova et al. 2018).  ``"auto"``: columns of more than 254
    levels, of which sets of levels learn noise; True: of more than two.  Not for
    more than ten classes.  Small data are then trained on four times, with an
    order each; ``subsample`` draws from all of them.  A row of weight 2 is not
    quite the same as two rows.
statistics_order : int in 1 .. 2, default=2
    2: also the mean target of pairs of levels, where at least one of the two
    columns is replaced.
linear_leaves : bool or "auto", default="auto"
    True: a leaf adds to its value a line in the columns of numbers that were split last on
    the way to it, three at most (docs/linear-leaves.md).  ``"auto"``: for squared error on
    100 rows and more, where a recipe is taken.  Not for rows in files, sparse tables,
    monotone columns, line search, and trees with vectors.
linear_lambda : float >= 0, default=1.0
    With ``linear_leaves``: penalty on the slopes.  In a leaf of n rows one slope alone has
    ``n / (n + linear_lambda)`` of that of least squares, whatever the scale of the column.
monotone_constraints : dict of column to direction, sequence of n_features directions, or None
    1 or ``"increasing"``: predictions never fall as the column grows; -1 or
    ``"decreasing"``: they never rise; 0: anything.  Holds for every loss and way of
    boosting, and each of several targets; ``verify_monotone`` proves it.  Not for
    categories, more than two classes, or trees with vectors.
interaction_constraints : list of lists of columns, "pairwise", "no_interactions" or None
    The columns that split one branch of a tree must lie in one of the lists; columns
    in none are one more.  ``"pairwise"``: any two; ``"no_interactions"``: one.
monotone_penalty : float >= 0, default=0.0
    With ``monotone_constraints``: hold back splits of ordered columns near the root, whose
    bounds hold for all of a tree.  Their gain in depth ``d`` (0: the root) is multiplied by
    ``1 - monotone_penalty / 2**d`` up to a penalty of 1, and by
    ``1 - 2**(monotone_penalty - 1 - d)``, at least 0, beyond; so 2 forbids them in the
    first two levels.
feature_penalties : dict of column to factor, sequence of n_features factors, or None
    Factors >= 0 on the gains of splits; 0 leaves a column out.
feature_weights : dict of column to weight, sequence of n_features weights, or None
    Where columns are sampled (``colsample_...`` below 1): a column with twice the weight is
    drawn twice as readily; one of weight 0 never.  Columns not named in a dict have 1.
extra_trees : bool, default=False
    Look at one cut of each column in each node, drawn at random between the smallest and the
    largest value there (Geurts et al. 2006): trees that differ more, and fit noise less.
    Of a column of categories one random division is tried.
path_smooth : float >= 0, default=0.0
    Draw the value of a leaf of ``n`` rows towards that of the node above it, which counts
    as much as ``path_smooth`` rows: ``(n w + path_smooth v) / (n + path_smooth)``.
forced_splits : dict, path of a JSON file, or None
    Splits that each tree begins with, as LightGBM's file has them: ``{"feature": name or
    position, "threshold": number, "left": {...}, "right": {...}}``, the last two where
    wanted.  Rows up to the threshold go left.  One that has no gain in a tree, or whose
    column was not drawn for it, is left to the search.  Not for categories.
max_bins_by_feature : dict of column to int, sequence of n_features ints, or None
    From 2 to 255, instead of ``max_bins``.
forced_bins : dict of column to ascending numbers, or None
    Cuts that a column has whatever the data; its other bins are chosen between them.
"""

TRAINING = """
early_stopping : bool, "auto", "oob" or "cv", default="auto"
    End the fit when the score on validation rows has not improved for
    ``patience`` rounds, and keep the trees up to the best round.
    ``"auto"``: by ``X_val`` if that is given; with an automatic number of rounds by
    folds, which also choose between a few kinds of trees, and all rows are trained on;
    otherwise by rows set aside, if there are more
    than 10,000.
    ``"oob"``: judge by the rows that each round leaves out (``subsample``
    below 1); no row is set aside.
    ``"cv"``: find the best number of rounds by fits of five folds of the rows,
    and train on all rows for as many (docs/cross-fitting.md); for tables in memory.
validation_fraction : float in (0, 1), default=0.1
    Share of the rows that early stopping sets aside where ``X_val`` is not
    given; for classification the same share of each class.
patience : int >= 1 or "auto", default="auto"
    Rounds in a row without improvement after which the fit ends.
min_delta : float >= 0, default=0.0
    An improvement is a change of the score by more than this.
train_scores : bool, default=False
    Score the training rows after each round, too: ``evals_result_["train"]``.  They decide
    nothing; a curve that falls while that of the validation rows rises shows overfitting.
time_budget : float > 0 or None, default=None
    Seconds that a fit may take, from its beginning to the model: it ends with the last
    round that can be expected to end in time, the first is always done.  How many
    there are depends on the machine; the trees do not.
warm_start : bool, default=False
    Fit again goes on from the fitted model: ``n_estimators`` is then the number of all
    rounds, and the difference is trained, of the rows given.  The model of
    ``fit(init_model=...)`` instead gets ``n_estimators`` more.
n_jobs : int or None, default=None
    Threads of fit and predict: None for all available processors (or
    ``OMP_NUM_THREADS``), -1 for all.  The model is the same for any number.
random_state : int, RandomState or None, default=None
    Seed of row and column sampling, of rounding and of the validation
    rows.  None is 0: the same data and parameters give the same model.
callbacks : callable, callback of scikit-learn, or sequence of these, default=None
    A callable is called after every round with a
    :class:`hedgerow.boosting.loop.callbacks.Round` and ends the fit by
    returning True; for callbacks of scikit-learn see :mod:`hedgerow.estimators.hooks`.
progress : bool, default=False
    Draw a progress bar in a notebook, or if standard error is a terminal.
"""

ATTRIBUTES = """
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of str, shape (n_features,)
    Names of the columns; only if X was a frame with names.
n_iter_ : int
    Rounds in the model.
best_iteration_ : int or None
    Round with the best validation (or out-of-bag) score, or the rounds that folds have
    come to; equal to ``n_iter_``.  None without early stopping.
chosen_params_ : dict
    What ``"auto"`` has come to, by parameter; where folds have told when to stop also
    ``"folds"``, into how many the rows were divided and of how many the rows were tested,
    ``"stride"``, for how many rounds one of theirs stands, and ``"tried"``: for each of
    the settings that they have compared the score, the rounds of the folds, and what it
    has other than the first (docs/defaults.md).
repeat_params_ : dict
    Parameters that repeat the fit without folds: ``type(model)(**model.repeat_params_)`` grows
    the same trees of the same rows (docs/defaults.md).
stopped_by_ : str
    What ended the fit: ``"rounds"``, ``"early_stopping"``, ``"callback"``,
    ``"time_budget"`` or ``"interrupt"``.
evals_result_ : dict
    ``evals_result_["validation"]["loss"][i]``: score after round i + 1; the names of
    several validation sets are keys, and ``train_scores`` adds ``"train"``.
    The key is ``"train"`` without validation rows, and there is none without
    an ``eval_metric`` either; ``oob_score`` adds ``"out_of_bag"``.  With
    ``early_stopping="cv"`` it is ``"cv"``, with the scores of the rows of all folds, each
    by the fold that tests it; a round of the folds stands for ``"stride"`` rounds, see
    ``chosen_params_``.
oob_improvement_ : ndarray of float64, shape (n_iterations,)
    Only with ``oob_score`` and ``boosting="gbdt"``: by how much each
    round lowered the loss of the rows that it was not grown on.
oob_score_ : float
    Only with ``oob_score`` and ``boosting="rf"``: accuracy or R2 of
    the rows, each by the trees that did not see it.
feature_importances_ : ndarray of shape (n_features,)
    Shares in the loss reduction of all splits.
booster_ : hedgerow.Booster
    The model itself.
"""


FIT_TABLE = """
X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
    Numbers, dates, text or categories; NaN, null and ``None`` are
    missing values, infinities are values.  Frames of pandas, polars,
    pyarrow and others are read by column; one row may be a dict.
"""

FIT_OFFSET = """
Raw score known beforehand: trees learn what it lacks.  Names are columns of
    X (and X_val), which are then no features; the model remembers them and adds
    them to its predictions.  Numbers are given again to ``predict``.
offset_val : array-like, optional
    Of the validation rows, where ``offset`` is numbers.
"""

FIT_WEIGHTS = """
sample_weight : array-like of shape (n_rows,), optional
    Not negative; a row of weight 0 counts as absent.
X_val, y_val : like X and y, optional
    Rows for learning curves and early stopping.  Several sets by name,
    ``X_val={"new": (X, y), "old": (X, y, weight)}`` without ``y_val``, have curves of their
    own, and the first decides early stopping; a :class:`hedgerow.Dataset` in the place of a
    tuple holds weights and offset, too.
sample_weight_val : array-like, optional
    Weights of the validation rows.
offset : str, list of str, or array-like of shape (n_rows,) or (n_rows, n_outputs), optional
    <offset>
groups : array-like of shape (n_rows,), optional
    Rows of a group are set aside for early stopping together, or not at all.
"""

FIT_CONTINUING = """
init_model : Booster, fitted estimator, or path of a model file, optional
    Model to go on from: ``n_estimators`` rounds are added to its trees
    (docs/continue.md).
checkpoint : str or path-like, optional
    Folder in which finished rounds are kept, for this fit alone.  If the fit
    is stopped in any way, the same call goes on from there, and its model
    has the same bytes as if nothing had happened (docs/checkpoint.md).
checkpoint_every : float >= 0, default=10.0
    Seconds between two writes to the checkpoint; 0: after every round.

Returns
-------
self

Raises
------
DataError, ParameterError
    (``ValueError``) if data or a parameter cannot be used; the message
    names the column, row or parameter.
DataTypeError
    (``TypeError``) for columns of mixed types, objects.
StorageError
    (``OSError``) if the folder of the checkpoint cannot be used.

Warns
-----
InterruptedFitWarning
    If an interrupt (Ctrl-C) has ended the fit.
"""

_OF_CLASSES = {"<trees>": TREES, "<training>": TRAINING, "<attributes>": ATTRIBUTES}
_OF_FITS = {
    "<table>": FIT_TABLE,
    "<weights>": FIT_WEIGHTS,
    "<offset>": FIT_OFFSET,
    "<continuing>": FIT_CONTINUING,
}


def shared_texts(cls: _Class) -> _Class:
    """Replace what stands in angle brackets in the docstrings of a class and of its ``fit``."""
    for documented, texts in ((cls, _OF_CLASSES), (vars(cls)["fit"], _OF_FITS)):
        if documented.__doc__ is not None:  # None under python -OO
            text = inspect.cleandoc(documented.__doc__)
            for mark, shared in texts.items():
                text = text.replace(mark, shared.strip("\n"))
            documented.__doc__ = text
    return cls
