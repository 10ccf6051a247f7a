"""Conventions of libraries: reprs, completion, one base class of warnings."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import errors
from hedgerow.errors import HedgerowWarning
from hedgerow.notebook import most_used

PACKAGE = Path(hedgerow.__file__).parent


def _warned_categories() -> list[tuple[str, str]]:
    """Return the module and the category of each call of ``warnings.warn`` in the package."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "warnings" in text else ():
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


def test_values_in_errors_are_brief() -> None:
    """A whole array, or a list of thousands of numbers, would hide the text of the error."""
    whole = re.compile(r"got (?:the number )?\{[^{}]*!r\}")
    found = [
        f"{path.relative_to(PACKAGE)}: {match[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "kernels" not in path.parts and "compile" not in path.parts
        for match in whole.finditer(path.read_text("utf-8"))
    ]
    assert found == []


def test_warnings_are_user_warnings_and_public() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, Warning)]
    assert len(kinds) >= 3
    for kind in kinds:
        assert issubclass(kind, HedgerowWarning)
        assert issubclass(kind, UserWarning)
        assert kind.__name__ in hedgerow.__all__


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


def value_of(view: str, name: str) -> str:
    """Return the text beside a name in a view."""
    found = re.search(f"<th>{re.escape(name)}</th><td[^>]*>(.*?)</td>", view)
    assert found is not None, view
    return re.sub(r"<span[^>]*></span>", "", found[1]).strip()


def test_boosters_have_a_view_for_notebooks() -> None:
    rng = np.random.default_rng(0)
    X = {"<b>age": rng.normal(size=200), "noise": np.zeros(200)}
    model = hedgerow.HedgerowRegressor(n_estimators=3).fit(X, X["<b>age"]).booster_
    view = model._repr_html_()
    splits = int(model.feature_importance("split")[0])
    assert f"&lt;b&gt;age ({splits} splits)</td>" in view
    assert "<b>" not in view
    assert value_of(view, "trees") == "3"


def test_the_view_names_columns_by_their_splits() -> None:
    splits = np.array([3.0, 0.0, 9.0, 3.0, 1.0, 2.0, 4.0])
    named = "c (9 splits), g (4 splits), a (3 splits), d (3 splits), f (2 splits)"
    assert most_used("abcdefg", splits) == named


MARKUP = "<img src=x onerror=alert(1)> & $x$"
ESCAPED = "&lt;img src=x onerror=alert(1)&gt; &amp; $x$"


@pytest.mark.parametrize(
    ("n_files", "target", "text"),
    [
        (1, "income", "rows of 1 file; target 'income'"),
        (3, "income", "rows of 3 files; target 'income'"),
        (2, ["low", "high"], "rows of 2 files; target 'low', 'high'"),
    ],
)
def test_the_repr_of_files_does_not_read_them(
    tmp_path: Path, n_files: int, target: str | list[str], text: str
) -> None:
    paths = [tmp_path / f"{k}.csv" for k in range(n_files)]
    for path in paths:
        path.write_text("age,income,low,high\n31,not a number,1,2\n")
    assert repr(hedgerow.Dataset.from_files(paths, target=target)) == f"<Dataset: {text}>"


def test_the_repr_of_batches_does_not_call_the_function() -> None:
    def batches() -> list[object]:
        raise AssertionError("called")

    named = hedgerow.Dataset.from_batches(batches, target="income")
    assert repr(named) == "<Dataset: rows of batches; target 'income'>"
    tuples = hedgerow.Dataset.from_batches(batches)
    assert repr(tuples) == "<Dataset: rows of batches; target part of the rows>"


def test_explanations_have_a_view_for_notebooks() -> None:
    rng = np.random.default_rng(0)
    X = {f"x{k}": rng.normal(size=300) for k in range(12)} | {MARKUP: rng.normal(size=300)}
    model = hedgerow.HedgerowRegressor(n_estimators=5).fit(X, X[MARKUP] + 0.1 * X["x3"])
    found = model.explain(X)
    view = found._repr_html_()
    assert "<img" not in view
    size = np.abs(found.values).mean(axis=0)
    assert value_of(view, ESCAPED) == f"{size[12]:.3g}"
    assert value_of(view, "base value") == f"{found.base_values:.6g}"
    assert view.count("<span") == min(10, int((size > 0).sum()))
    widths = [int(width) for width in re.findall(r"width:(\d+)px", view)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 0


def test_the_view_of_an_explanation_names_outputs_and_pairs() -> None:
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=300), "b": rng.normal(size=300)}
    y = np.array(["<i>", "x", "z"])[np.digitize(X["a"] * X["b"], [-0.2, 0.2])]
    model = hedgerow.HedgerowClassifier(n_estimators=5).fit(X, y)
    found = model.explain(X, interactions=True)
    view = found._repr_html_()
    assert value_of(view, "outputs") == "3: &lt;i&gt;, x, z"
    pair = 2.0 * np.abs(found.values).mean(axis=(0, 3))[0, 1]
    assert value_of(view, "a x b") == f"{pair:.3g}"


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
