"""The reference has every public name, docstrings every parameter, and examples what they print."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow
from hedgerow.params import ADVANCED_NAMES
from tests.helpers.sources import syntax_trees

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.rst"
NAMES = [name for name in hedgerow.__all__ if not name.startswith("__")]
ESTIMATORS = [hedgerow.HedgerowClassifier, hedgerow.HedgerowRegressor, hedgerow.HedgerowRanker]
TREES = [hedgerow.CARTClassifier, hedgerow.CARTRegressor]
OF_SCIKIT_LEARN = {"n_features_in_", "feature_names_in_"}


OF_MODULES = ("datasets", "distributed", "inspection", "plot", "pruning", "report")
"""Modules whose public functions and classes are all for users."""

NEEDED = {"Dask": "distributed", "distributed.": "distributed", "spark.": "pyspark", "ray.": "ray"}
"""Libraries without which names that begin so cannot be imported."""

INSIDE = {
    "boosting.automatic.recipe",
    "boosting.external.fit_files",
    "cli.main",
    "data.binning.sketch",
    "io.model_to_bytes",
    "objectives.base.Objective",
    "objectives.global_sums",
    "objectives.line_search",
}
"""What pages name although it is not in the reference: the pages say what it is for."""


def public(name: str) -> Any:
    """Return a public object by its path; skip the test if a library that it needs is missing."""
    for start, library in NEEDED.items():
        if name.startswith(start):
            pytest.importorskip(library)
    module, _, last = name.rpartition(".")
    owner = importlib.import_module(f"hedgerow.{module}") if module else hedgerow
    return getattr(owner, last)


def listed() -> list[str]:
    """Return the names that the reference lists, by their path in the package."""
    lines = PAGE.read_text("utf-8").splitlines() if PAGE.exists() else []
    return [line.strip() for line in lines if re.fullmatch(r"   [\w.]+", line)]


def public_names(module: str) -> list[str]:
    """Return the functions and classes of a module that are for users."""
    owner = importlib.import_module(f"hedgerow.{module}")
    things = {name: getattr(owner, name) for name in dir(owner) if name[0] != "_"}
    return [
        name
        for name, thing in things.items()
        if (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__.startswith(f"hedgerow.{module}")
    ]


def section(text: str, title: str) -> str:
    """One section of a docstring in the form of numpydoc."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)", text, re.M | re.S)
    return found[1] if found else ""


def without_sentence(text: str) -> list[str]:
    """Return the parameters of a docstring that have a type and no text below it."""
    lines = section(text, "Parameters").splitlines()
    heads = [n for n, line in enumerate(lines) if re.match(r"[\w*]+(?:, *[\w*]+)*(?: : |$)", line)]
    below = [*lines[1:], ""]
    bare = [lines[n].split(" : ")[0] for n in heads if not below[n].startswith(" ")]
    return [name for each in bare for name in each.split(", ")]


def entries(text: str) -> set[str]:
    """Return the names that a section explains: ``a, b : float`` at the left margin."""
    names = set()
    for line in text.splitlines():
        if line and not line[0].isspace():
            names |= {name.strip(" *") for name in line.split(" : ")[0].split(",")}
    return names


@pytest.mark.skipif(not PAGE.exists(), reason="runs in a checkout only")
def test_reference_has_every_public_name() -> None:
    expected = [*NAMES, *(f"{m}.{name}" for m in OF_MODULES for name in public_names(m))]
    found = {*listed(), *(f"distributed.{name}" for name in NAMES)}  # these have two paths
    assert [name for name in expected if name not in found] == []


def test_a_missing_entry_is_found() -> None:
    parameters = "Parameters\n----------\na, b : int\n    Text : more.\n"
    text = f"Title.\n\n{parameters}\nReturns\n-------\nc : int\n"
    assert entries(section(text, "Parameters")) == {"a", "b"}
    assert entries(section(text, "Returns")) == {"c"}
    assert section(text, "Attributes") == ""


@pytest.mark.skipif(not PAGE.exists(), reason="runs in a checkout only")
def test_reference_has_the_names_that_pages_use() -> None:
    used = set()
    for page in PAGE.parent.glob("*.md"):
        text = page.read_text("utf-8")
        for module, names in re.findall(r"from hedgerow\.([\w.]+) import ([\w, ]+)", text):
            used |= {f"{module}.{name.strip()}" for name in names.split(",")}
        used |= set(re.findall(r"`hedgerow\.([a-z_]+\.[\w.]*\w)[(`]", text))
    assert len(used) > 20
    known = {*listed(), *INSIDE, *(f"errors.{name}" for name in NAMES)}
    package = Path(hedgerow.__file__).parent
    missing = []
    for name in sorted(used):
        place = package / name.replace(".", "/")
        parts = name.split(".")
        starts = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if not known & starts and not place.is_dir() and not place.with_suffix(".py").exists():
            missing.append(name)
    assert missing == []


def test_a_parameter_without_a_sentence_is_found() -> None:
    text = "Title.\n\nParameters\n----------\na, b : int\nc : int\n    Text.\n**more\n    Text.\n"
    assert without_sentence(text) == ["a", "b"]


@pytest.mark.skipif(not PAGE.exists(), reason="runs in a checkout only")
@pytest.mark.parametrize("name", sorted({*NAMES, *listed()}))
def test_every_parameter_has_a_sentence(name: str) -> None:
    """Its own, or, if it means the same everywhere, that at the top of the reference."""
    top = PAGE.read_text("utf-8").split("Estimators\n---")[0]
    common = set(re.findall(r"``(\w+)``", top))
    assert {"X", "y", "n_jobs"} < common
    thing = public(name)
    things = {name: thing}
    if inspect.isclass(thing):
        things |= {
            each: member
            for each, member in inspect.getmembers(thing, callable)
            if each[0] != "_" and (getattr(member, "__module__", "") or "").startswith("hedgerow.")
        }
    found = {
        (each, parameter)
        for each, member in things.items()
        for parameter in without_sentence(inspect.getdoc(member) or "")
        if parameter not in common
    }
    assert found == set()


@pytest.mark.parametrize("name", sorted({*NAMES, *listed()}))
def test_every_object_has_a_docstring_with_its_parameters(name: str) -> None:
    thing = public(name)
    text = inspect.getdoc(thing) or ""
    assert text
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return
    # The estimators for Dask take all parameters of the local ones, and say so.
    own = r"(?:Parameters and attributes|Names and meanings) are those of :class:`hedgerow\.(\w+)`"
    same = r"parameters (?:and errors )?are the same as for\s+:func:`(?:hedgerow\.)?([\w.]+)`"
    home = name.rpartition(".")[0]
    others = [*re.findall(own, text)]
    others += [each if "." in each else f"{home}.{each}" for each in re.findall(same, text)]
    kinds = inspect.getmro(thing) if inspect.isclass(thing) else (thing,)
    texts = [inspect.getdoc(each) or "" for each in (*kinds, *map(public, others))]
    sections = [section(each, title) for each in texts for title in ("Parameters", "Attributes")]
    documented = set(ADVANCED_NAMES).union(*map(entries, sections))  # a page has these
    given = [each for each in inspect.signature(thing).parameters if not each.startswith("_")]
    assert [each for each in given if each not in documented] == []


def _methods() -> list[tuple[str, str]]:
    found = []
    for name in NAMES:
        if name.startswith("Dask"):
            continue
        thing = getattr(hedgerow, name)
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            found += [
                (name, each)
                for each, member in inspect.getmembers_static(thing)
                if not each.startswith("_") and (callable(member) or isinstance(member, property))
            ]
    return found


@pytest.mark.parametrize(("name", "method"), _methods())
def test_every_public_method_has_a_docstring(name: str, method: str) -> None:
    member = getattr(getattr(hedgerow, name), method)
    assert (inspect.getdoc(member) or "").strip()


def documented_attributes(kind: type) -> set[str]:
    """Return the attributes of the docstring, and the properties."""
    described = entries(section(inspect.getdoc(kind) or "", "Attributes"))
    return described | {name for name, _ in inspect.getmembers_static(kind)} | OF_SCIKIT_LEARN


@pytest.mark.parametrize("kind", [*ESTIMATORS, *TREES], ids=lambda kind: kind.__name__)
def test_every_attribute_of_a_fitted_estimator_is_documented(kind: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.integers(0, 2, 80)
    more = {"qid": np.arange(80) // 8} if kind is hedgerow.HedgerowRanker else {}
    settings = {} if kind in TREES else {"n_estimators": 5, "early_stopping": True}
    model = kind(**settings).fit(X, y, **more)
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert fitted - documented_attributes(kind) == set()


# -- all docstrings --------------------------------------------------------------------

SOURCE = Path(hedgerow.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize(
    "file", [file for file in FILES if ">>> " in file.read_text("utf-8")], ids=module_of
)
def test_examples_print_what_they_show(file: Path) -> None:
    try:
        module = importlib.import_module(module_of(file))
    except ImportError as error:
        pytest.skip(str(error))
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0


def wrong_names(file: Path) -> Iterator[str]:
    for node in ast.walk(syntax_trees(SOURCE)[file]):
        if isinstance(node, ast.FunctionDef):
            names = entries(section(ast.get_docstring(node) or "", "Parameters"))
            arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            for name in filter(str.isidentifier, names - arguments):
                yield f"{file.relative_to(SOURCE)}:{node.lineno} {node.name}: {name}"


def test_docstrings_name_parameters_that_exist() -> None:
    assert [wrong for file in FILES for wrong in wrong_names(file)] == []
