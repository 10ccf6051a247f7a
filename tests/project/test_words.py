"""Names of modules and public classes are words of the field (docs/glossary.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hedgerow

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(hedgerow.__file__).parent
DOCS = ROOT / "docs"

PRIVATE = {
    "alternatives": "candidates",
    "asked_loss": "loss_spec",
    "contest": "model_selection",
    "following": "training_loop",
    "modes": "ensemble",
    "numbered": "factorize",
    "pace": "budget_schedule",
    "row_forms": "training_matrix",
}
"""Words that once named modules and were understood by nobody else, with those of the field."""


def test_no_module_has_a_private_word_for_its_name() -> None:
    found = {path.stem for path in SOURCES.rglob("*.py")} & set(PRIVATE)
    assert {name: f"call it {PRIVATE[name]}" for name in found} == {}


@pytest.mark.skipif(not DOCS.exists(), reason="runs in a checkout only")
def test_pages_do_not_name_modules_that_are_gone() -> None:
    """Each file of the package that a page names is there."""
    gone = {}
    for page in DOCS.glob("*.md"):
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`", page.read_text("utf-8")):
            places = (SOURCES / name, ROOT / name)
            if not any(place.exists() for place in places):
                gone.setdefault(page.name, []).append(name)
    assert gone == {}
