"""What people expect of a library: reprs, completion, one base class of warnings."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import errors
from hedgerow.errors import HedgerowWarning
from hedgerow.plot.notebook import most_used

PACKAGE = Path(hedgerow.__file__).parent


def _warned_categories() -> list[tuple[str, str]]:
    """The module and the category of each call of ``warnings.warn`` in the package."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                category = ast.unparse(node.args[1]) if len(node.args) > 1 else "none"
                found.append((str(path.relative_to(PACKAGE)), category))
    return found


def test_every_warning_has_a_category_of_hedgerow() -> None:
    found = _warned_categories()
    assert len(found) >= 10
    wrong = [
        (module, name)
        for module, name in found
        if not issubclass(getattr(errors, name, Warning), HedgerowWarning)
    ]
    assert wrong == []


def test_warnings_are_user_warnings_and_public() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, Warning)]
    assert len(kinds) >= 3
    for kind in kinds:
        assert issubclass(kind, HedgerowWarning)
        assert issubclass(kind, UserWarning)
        assert kind.__name__ in hedgerow.__all__


def test_tab_completion_offers_public_names_and_no_helpers() -> None:
    names = dir(hedgerow)
    assert set(hedgerow.__all__) <= set(names)
    assert not {"Any", "TYPE_CHECKING", "annotations", "import_module"} & set(names)
    for name in hedgerow.__all__:
        if not name.startswith("Dask"):
            assert getattr(hedgerow, name) is not None


def test_a_dataset_tells_its_shape_and_parts() -> None:
    X = pd.DataFrame(np.zeros((4, 2)), columns=["a", "b"])
    data = hedgerow.Dataset(X, [0.0, 1.0, 0.0, 1.0], [1.0] * 4)
    assert repr(data) == "<Dataset: DataFrame of shape (4, 2); y, weight>"
    assert repr(hedgerow.Dataset({"a": [1.0]})) == "<Dataset: dict; no target>"


@pytest.mark.parametrize("name", ["verbose", "verbosity", "silent", "logging_level"])
def test_the_error_for_messages_names_progress(name: str) -> None:
    with pytest.raises(hedgerow.UnknownNameError, match="progress=True shows a bar"):
        hedgerow.HedgerowClassifier(**{name: 1})


def test_estimators_have_a_view_for_notebooks() -> None:
    model = hedgerow.HedgerowClassifier(n_estimators=3)
    assert repr(model) == "HedgerowClassifier(n_estimators=3)"
    assert "HedgerowClassifier" in model._repr_html_()


def test_boosters_have_a_view_for_notebooks() -> None:
    rng = np.random.default_rng(0)
    X = {"<b>age": rng.normal(size=200), "noise": np.zeros(200)}
    model = hedgerow.HedgerowRegressor(n_estimators=3).fit(X, X["<b>age"]).booster_
    view = model._repr_html_()
    splits = int(model.feature_importance("split")[0])
    assert f"&lt;b&gt;age ({splits} splits)</td>" in view
    assert "<b>" not in view
    assert "<th>trees</th><td>3</td>" in view


def test_the_view_names_columns_by_their_splits() -> None:
    splits = np.array([3.0, 0.0, 9.0, 3.0, 1.0, 2.0, 4.0])
    named = "c (9 splits), g (4 splits), a (3 splits), d (3 splits), f (2 splits)"
    assert most_used("abcdefg", splits) == named


def test_types_are_published() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_shells_complete_the_commands() -> None:
    pytest.importorskip("shtab")
    program = [sys.executable, "-m", "shtab", "--shell=bash", "--prog", "hedgerow"]
    script = subprocess.run(
        [*program, "hedgerow.cli.main.build_parser"], capture_output=True, text=True, check=True
    ).stdout
    for word in ("hedgerow", "train", "predict", "--target"):
        assert word in script
