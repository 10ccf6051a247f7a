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
