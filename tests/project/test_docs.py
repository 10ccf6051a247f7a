"""The examples in docs/ run and print the shown output."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(page for page in DOCS.glob("*.md") if ">>> " in page.read_text("utf-8"))

COMPILED = {"objectives.md"}
"""Pages with custom losses."""
NEEDED = {"uncertainty.md": "mapie"}
"""Libraries in examples of pages, which the extra ``test`` brings."""

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="runs in a checkout only")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_give_what_stands_there(page, tmp_path, monkeypatch, request) -> None:
    if page.name in COMPILED:
        request.getfixturevalue("compiler")
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name], reason="needs the extra test (hedgerow[test])")
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert tried > 0
    assert failed == 0


def _files_named() -> list[tuple[str, str]]:
    pages = [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]
    return [
        (page.name, name)
        for page in pages
        for name in re.findall(r"`([\w.-]+/[\w./-]*\.(?:py|txt|md|json))`", page.read_text())
    ]


def test_files_that_pages_name_exist() -> None:
    root = DOCS.parent
    places = (root, root / "src", root / "src" / "hedgerow", DOCS)
    named = _files_named()
    assert len(named) > 100
    missing = [(page, name) for page, name in named if not any((p / name).exists() for p in places)]
    assert not missing
