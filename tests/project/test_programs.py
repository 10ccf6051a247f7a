"""Programs beside the package load, and take the commands of the docs."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from hedgerow.compile.kernels import Kernel
from tests.helpers.sources import syntax_trees

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
LINES = re.compile(r"^ *(?:[A-Z_]+=\w+ )*python (?:-m )?((?:benchmarks|tests)[/.]\S+)(.*)$", re.M)
INLINE = re.compile(r"`(?:[A-Z_]+=\w+ )*python (?:-m )?((?:benchmarks|tests)[/.][^\s`]+)([^`]*)`")

pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="runs in a checkout only")

# -- programs that load ---------------------------------------------------------------


def _load(folder: Path) -> Iterator[tuple[Path, ModuleType]]:
    """Import the programs of a folder, as they import each other; skip those of other libraries."""
    names = {path.stem for path in folder.glob("*.py")}
    for path in sorted(folder.glob("*.py")):
        try:
            yield path, importlib.import_module(path.stem)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] in {*names, "hedgerow"}:
                raise


@cache
def load_benchmarks() -> dict[Path, ModuleType]:
    """Return the programs of both folders; no trace of them stays in this process."""
    found: dict[Path, ModuleType] = {}
    for folder in (BENCHMARKS, BENCHMARKS / "quality"):
        names = {path.stem for path in folder.glob("*.py")}
        before = {name: sys.modules.pop(name) for name in names & set(sys.modules)}
        with patch.dict(os.environ), patch.object(sys, "path", [str(folder), *sys.path]):
            found |= dict(_load(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
    return found


def test_programs_load() -> None:
    loaded = load_benchmarks()
    assert len(loaded) >= 48


def _missing_names(path: Path, tree: ast.Module) -> list[str]:
    """Return names that a program takes from programs of its folder, and that these lack."""
    loaded = load_benchmarks()
    beside = {each.stem: module for each, module in loaded.items() if each.parent == path.parent}
    imported: dict[str, ModuleType] = {}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {n.asname or n.name: beside[n.name] for n in node.names if n.name in beside}
        elif isinstance(node, ast.ImportFrom) and node.module in beside:
            module = beside[node.module]
            found += [each.name for each in node.names if not hasattr(module, each.name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = imported.get(node.value.id)
            if module is not None and not hasattr(module, node.attr):
                found.append(ast.unparse(node))
    return [f"{path.relative_to(ROOT)}: {name}" for name in found]


def test_programs_take_names_that_others_have() -> None:
    trees = syntax_trees(BENCHMARKS)
    assert [name for path, tree in trees.items() for name in _missing_names(path, tree)] == []


def test_patched_names_exist() -> None:
    """Programs replace parts of the package by name, which no import checks."""
    seen, wrong = 0, []
    for path, module in load_benchmarks().items():
        for node in ast.walk(syntax_trees(BENCHMARKS)[path]):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "patch.object":
                target, name = node.args[:2]
                assert isinstance(target, ast.Name), ast.unparse(node)
                assert isinstance(name, ast.Constant), ast.unparse(node)
                seen += 1
                if not hasattr(getattr(module, target.id), name.value):
                    wrong.append(f"{path.name}: {target.id}.{name.value}")
    assert seen >= 2
    assert wrong == []


def _called_kernels(
    tree: ast.Module, module: ModuleType
) -> Iterator[tuple[int, Kernel, list[ast.expr]]]:
    """Yield the line, the kernel and the arguments of calls, also of those by another function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for place, part in enumerate([node.func, *node.args]):
                with contextlib.suppress(AttributeError):
                    found: Any = module
                    for name in ast.unparse(part).split("."):
                        found = getattr(found, name)
                    if isinstance(found, Kernel):
                        yield node.lineno, found, node.args[place:]


def test_programs_call_kernels_with_all_arguments() -> None:
    """The decorator of kernels hides their arguments from type checkers."""
    seen, wrong = 0, []
    for path, module in load_benchmarks().items():
        for line, called, arguments in _called_kernels(syntax_trees(BENCHMARKS)[path], module):
            if not any(isinstance(each, ast.Starred) for each in arguments):
                seen += 1
                expected = called.py_func.__code__.co_argcount
                if len(arguments) != expected:
                    wrong.append(f"{path.name}:{line}: {called.name} takes {expected} arguments")
    assert seen >= 9
    assert wrong == []


# -- commands -------------------------------------------------------------------------


def _commands() -> list[tuple[str, Path, list[str]]]:
    """Return where a command stands, its program and its arguments."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    texts = {page: page.read_text("utf-8") for page in pages}
    for folder in (BENCHMARKS, ROOT / "tests" / "fuzz", ROOT / "tests" / "helpers"):
        for path, tree in syntax_trees(folder).items():
            texts[path] = ast.get_docstring(tree, clean=False) or ""
    found = []
    for path, text in texts.items():
        text = text.replace("\\\n", " ")
        for name, rest in [*LINES.findall(text), *INLINE.findall(text)]:
            program = ROOT / (name if name.endswith(".py") else name.replace(".", "/") + ".py")
            if not program.exists() and program.with_suffix("").is_dir():
                program = program.with_suffix("") / "__main__.py"
            found.append((path.name, program, shlex.split(rest.replace("\n", " "), comments=True)))
    return found


@cache
def _parser(path: Path) -> argparse.ArgumentParser | None:
    """Return the parser of a program; None if it has no options or its libraries are missing."""
    if "ArgumentParser" not in path.read_text("utf-8"):
        return None
    if path.is_relative_to(BENCHMARKS):
        module = load_benchmarks().get(path)
    else:
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    parser: argparse.ArgumentParser | None = module and module.build_parser()
    return parser


def _refusal(program: Path, arguments: list[str]) -> str:
    """Return why a program refuses its arguments; an empty text if it accepts them."""
    if not program.exists():
        return "there is no such program"
    parser = _parser(program)
    if parser is None:
        takes_arguments = any(word in program.read_text("utf-8") for word in ("argv", "argparse"))
        return "" if takes_arguments or not arguments else "it has no options"
    with contextlib.redirect_stderr(io.StringIO()) as text:
        try:
            parser.parse_args(arguments)
        except SystemExit:
            return text.getvalue().splitlines()[-1]
    return ""


def test_programs_accept_the_commands_of_pages_and_docstrings() -> None:
    commands = _commands()
    assert len(commands) >= 150
    refused = [(place, _refusal(program, arguments)) for place, program, arguments in commands]
    assert [each for each in refused if each[1]] == []


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("quality/algorithms.py", ["--variants", "another season"], "invalid choice"),
        ("quality/run.py", ["--models", "hedgerows"], "unknown model"),
        ("run.py", ["11k"], "unknown: '11k'"),
        ("run.py", ["--peers", "hedgerow,no one"], "unknown: 'no one'"),
        ("run.py", ["--lists"], "unrecognized arguments"),
        ("threads.py", ["--rows", "1"], "it has no options"),
        ("none.py", [], "there is no such program"),
    ],
)
def test_wrong_commands_are_refused(name: str, arguments: list[str], reason: str) -> None:
    assert reason in _refusal(BENCHMARKS / name, arguments)


def test_figures_know_how_much_of_the_engine_has_changed(tmp_path, monkeypatch) -> None:
    engine = load_benchmarks()[BENCHMARKS / "engine.py"]
    for package in engine.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "part.py").write_text("x = 1\n" * 10)
    monkeypatch.setattr(engine, "PACKAGE", tmp_path)
    monkeypatch.setattr(engine, "ENGINES", tmp_path / "engines")
    assert engine.changed(None) == 1.0
    measured = engine.write()
    assert engine.changed(measured) == 0.0
    (tmp_path / "kernels" / "part.py").write_text("x = 2\n" * 10)
    (tmp_path / "plot.py").write_text("not of the engine")
    assert engine.changed(measured) == 1 / len(engine.PACKAGES)
    assert engine.write() != measured


def test_rows_of_earlier_engines_are_marked() -> None:
    table = load_benchmarks()[BENCHMARKS / "table.py"]
    row = {"title": "10k", "engine": "a"}
    assert table.title_of(row, "a") == "10k"
    assert table.title_of(row, "b") == table.title_of({"title": "10k"}, None) == "10k †"
