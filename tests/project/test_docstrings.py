"""Docstrings: examples print what they show, and parameters have the names of the code."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hedgerow
from tests.helpers.sources import syntax_trees

SOURCE = Path(hedgerow.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
WITH_EXAMPLES = [file for file in FILES if ">>> " in file.read_text("utf-8")]


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("file", WITH_EXAMPLES, ids=module_of)
def test_examples_print_what_they_show(file) -> None:
    try:
        module = importlib.import_module(module_of(file))
    except ImportError as error:
        pytest.skip(str(error))
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0


def documented(docstring: str) -> list[str]:
    """Return names in the section "Parameters" of a docstring."""
    section = re.search(
        r"(?:^|\n)Parameters\n-+\n(.*?)(?=\n\n?[A-Z][a-z]+\n-{3,}|\Z)", docstring, re.DOTALL
    )
    heads = re.findall(r"^(\S[^\n]*?)(?: : [^\n]*)?$", section[1] if section else "", re.MULTILINE)
    lists = [head for head in heads if re.fullmatch(r"[\w*]+(, *[\w*]+)*", head)]
    return [name.strip(" *") for head in lists for name in head.split(",")]


def arguments(function: ast.FunctionDef) -> set[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {argument.arg for argument in every if argument is not None}


def wrong_names(file: Path) -> Iterator[str]:
    for node in ast.walk(syntax_trees(SOURCE)[file]):
        if isinstance(node, ast.FunctionDef):
            names = documented(ast.get_docstring(node) or "")
            for name in names:
                if name not in arguments(node):
                    yield f"{file.relative_to(SOURCE)}:{node.lineno} {node.name}: {name}"


def test_docstrings_name_parameters_that_exist() -> None:
    assert [wrong for file in FILES for wrong in wrong_names(file)] == []


def test_names_are_found_in_docstrings() -> None:
    text = "Do.\n\nParameters\n----------\na, b : int\n    Two.\n*rest\n\nReturns\n-------\nint"
    assert documented(text) == ["a", "b", "rest"]
