"""Values of parameters of LightGBM and XGBoost: text, options of losses and metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hedgerow import ParameterError
from hedgerow import from_lightgbm_params as of_lightgbm
from hedgerow import from_xgboost_params as of_xgboost
from hedgerow.convert.settings.lightgbm import LIGHTGBM
from hedgerow.convert.settings.xgboost import XGBOOST

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _named(value: object) -> str:
    """Return the text of an argument, the same in every process."""
    return str(getattr(value, "__name__", value))


# -- text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "given", "ours"),
    [
        (of_lightgbm, {"linear_tree": "false"}, {"linear_leaves": False}),
        (of_lightgbm, {"extra_trees": "-"}, {"extra_trees": False}),
        (of_lightgbm, {"extra_trees": "+"}, {"extra_trees": True}),
        (of_lightgbm, {"zero_as_missing": "TRUE"}, {"zero_as_missing": True}),
        (of_lightgbm, {"boost_from_average": "true", "sigmoid": "1"}, {}),
        (of_lightgbm, {"is_unbalance": "-", "reg_sqrt": "false"}, {}),
        (of_lightgbm, {"categorical_feature": "0,2"}, {"categorical_features": [0, 2]}),
        (of_lightgbm, {"categorical_feature": "name:a,b"}, {"categorical_features": ["a", "b"]}),
        (of_xgboost, {"max_depth": "3", "eta": "0.5"}, {"max_depth": 3, "learning_rate": 0.5}),
        (of_xgboost, {"scale_pos_weight": "1", "one_drop": "false"}, {}),
        (of_xgboost, {"feature_weights": "0.5,1"}, {"feature_weights": [0.5, 1.0]}),
        (of_xgboost, {"missing": "nan"}, {}),
        (of_xgboost, {"missing": 0}, {"zero_as_missing": True}),
        (
            of_xgboost,
            {"objective": "reg:quantileerror", "quantile_alpha": "[0.1,0.9]"},
            {"objective": "quantile", "quantile": [0.1, 0.9]},
        ),
        (of_lightgbm, {"feature_contri": np.array([]), "alpha": "0.5"}, {}),
        (
            of_lightgbm,
            {"early_stopping_round": 3, "max_depth": -1, "metric": "auc,binary_logloss"},
            {
                "early_stopping": True,
                "patience": 3,
                "max_depth": None,
                "eval_metric": ["auc", "logloss"],
            },
        ),
        (of_xgboost, {"monotone_constraints": "(1,-1)"}, {"monotone_constraints": [1, -1]}),
        (
            of_lightgbm,
            {"interaction_constraints": "[0,1],[2]"},
            {"interaction_constraints": [[0, 1], [2]]},
        ),
        (of_lightgbm, {"enable_bundle": True}, {"bundle_features": "auto"}),
        (of_xgboost, {"max_cat_to_onehot": 2**31 - 1}, {"max_cat_to_onehot": 254}),
        (
            of_xgboost,
            {"objective": "rank:ndcg", "lambdarank_num_pair_per_sample": 12},
            {"objective": "lambdarank", "truncation_level": 12},
        ),
        (
            of_xgboost,
            {
                "lambdarank_pair_method": "mean",
                "lambdarank_num_pair_per_sample": 2,
                "objective": "rank:pairwise",
            },
            {"objective": "rank_pairwise", "pair_method": "mean", "pairs_per_row": 2},
        ),
        (
            of_xgboost,
            {"objective": "reg:tweedie", "tweedie_variance_power": 1.3, "lambda": 2.0},
            {"objective": "tweedie", "tweedie_power": 1.3, "reg_lambda": 2.0},
        ),
    ],
    ids=_named,
)
def test_text_has_the_meaning_that_it_has_in_the_library(function, given, ours) -> None:
    assert dict(function(given, defaults=False).params) == ours


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (of_lightgbm, {"linear_tree": "yes"}),
        (of_lightgbm, {"extra_trees": 2}),
        (of_lightgbm, {"num_leaves": "many"}),
        (of_lightgbm, {"min_data_in_leaf": "2.5"}),
        (of_lightgbm, {"boost_from_average": "false"}),
        (of_lightgbm, {"label_gain": "0,one"}),
        (of_lightgbm, {"categorical_feature": "a,b"}),
        (of_lightgbm, {"max_bin": [3]}),
        (of_lightgbm, {"feature_contri": np.ones(2)}),
        (of_lightgbm, {"tree_learner": "voting"}),
        (of_xgboost, {"lambdarank_normalization": "yes"}),
        (of_xgboost, {"gamma": "small"}),
        (of_xgboost, {"gamma": [1]}),
        (of_xgboost, {"missing": -999}),
        (of_xgboost, {"multi_strategy": "some"}),
        (of_xgboost, {"monotone_constraints": "0:up"}),
    ],
    ids=_named,
)
def test_values_without_a_counterpart_are_refused_by_name(function, given) -> None:
    (name,) = given
    with pytest.raises(ParameterError, match=name):
        function(given)


# -- options of losses and metrics -----------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "given", "ours"),
    [
        (of_xgboost, {"eval_metric": "error@0.7"}, "error_at@0.7"),
        (of_xgboost, {"eval_metric": "ndcg@5-"}, "ndcg@5-"),
        (of_xgboost, {"eval_metric": "tweedie-nloglik@1.4"}, "tweedie_nloglik@1.4"),
        (of_xgboost, {"eval_metric": ["mae", "rmse"]}, ["rmse", "mae"]),
        (of_lightgbm, {"metric": "ndcg@3"}, "ndcg@3"),
        (of_lightgbm, {"metric": "ndcg", "eval_at": [3]}, "ndcg@3"),
        (of_lightgbm, {"metric": "map"}, [f"map@{k}" for k in range(1, 6)]),
        (of_lightgbm, {"metric": "quantile", "alpha": 0.7}, "pinball@0.7"),
        (of_lightgbm, {"metric": "quantile", "objective": "quantile"}, "pinball"),
        (of_lightgbm, {"metric": "tweedie"}, "tweedie_nloglik"),
    ],
    ids=_named,
)
def test_options_of_metrics(function, given, ours) -> None:
    assert function(given).params["eval_metric"] == ours


def test_metrics_with_options_that_do_not_exist_are_refused() -> None:
    for function, given in (
        (of_xgboost, {"eval_metric": "auc@3"}),
        (of_lightgbm, {"metric": "auc@3"}),
    ):
        with pytest.raises(ParameterError, match="auc@3"):
            function(given)


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (of_xgboost, {"seed_per_iteration": True}, "random numbers differ"),
        (of_xgboost, {"max_bin": 1000}, "255 bins"),
        (of_xgboost, {"max_bin": 64, "tree_method": "approx"}, "sketch_eps"),
        (of_xgboost, {"max_cat_threshold": 300}, "at most 254"),
        (of_xgboost, {"max_leaves": 9}, "last level"),
        (of_xgboost, {"interaction_constraints": [[0, 1]]}, "in no list"),
        (of_lightgbm, {"interaction_constraints": [[0, 1]]}, "in no list"),
        (of_lightgbm, {"bagging_fraction": 0.5}, "without bagging_freq"),
        (of_lightgbm, {"max_bin": 1000}, "255 bins"),
        (of_lightgbm, {"metric": "l1,l2", "early_stopping_round": 5}, "any metric"),
    ],
    ids=_named,
)
def test_differences_are_reported(function, given, words) -> None:
    assert any(words in line for line in function(given).differences)


@pytest.mark.skipif(not DOCS.exists(), reason="runs in a checkout only")
@pytest.mark.parametrize("library", [LIGHTGBM, XGBOOST], ids=lambda each: each.name)
def test_the_page_has_every_parameter_with_a_counterpart_and_its_remark(library) -> None:
    lines = (DOCS / f"from-{library.name.lower()}.md").read_text("utf-8").splitlines()
    table = [line for line in lines if line.startswith("| `")]
    for name, rule in library.rules.items():
        rows = [line for line in table if f"`{name}`" in line and rule.note in line]
        has_counterpart = rule.ours or rule.convert
        assert rows or not has_counterpart, (name, rule.note)


@pytest.mark.parametrize(
    ("function", "library"),
    [(of_lightgbm, LIGHTGBM), (of_xgboost, XGBOOST)],
    ids=["LightGBM", "XGBoost"],
)
def test_a_parameter_without_a_counterpart_says_what_to_use(function, library) -> None:
    without = {
        name: rule.note for name, rule in library.rules.items() if not (rule.ours or rule.convert)
    }
    assert len(without) > 20
    for name, note in without.items():
        try:
            said = function({name: 12_345}, defaults=False).differences
        except ParameterError as error:
            said = (str(error),)
        assert any(name in line and note in line for line in said), (name, note, said)
