"""Names of modules and public classes are words of the field (docs/glossary.md)."""

from __future__ import annotations

import re
import tokenize
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
"""Former names of modules that nobody else understands, and the words of the field."""


PRIVATE_PARTS = {
    "asked": "constraints, or requested",
    "crew": "team",
    "extras": "options",
    "mine": "span, or own",
    "settle": "commit, infer, or resolve",
    "spoil": "alter",
    "theirs": "other",
    "told": "reported",
    "vain": "unused",
}
"""Parts of identifiers that nobody else uses, and the words to use."""


def parts_of_identifiers(path: Path) -> set[str]:
    """Return words of the identifiers of a file, in lower case."""
    with tokenize.open(path) as file:
        tokens = list(tokenize.generate_tokens(file.readline))
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    return {part.lower() for name in names for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def private_parts(folder: Path, *, allowed: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the private words in identifiers of the files of a folder, and the words to use."""
    private = set(PRIVATE_PARTS) - allowed
    any_of_them = re.compile("|".join(private), re.IGNORECASE)
    found = {}
    for path in folder.rglob("*.py"):
        if not any_of_them.search(path.read_text("utf-8")):
            continue  # takes a hundredth of the time of tokens
        for part in parts_of_identifiers(path) & private:
            found[f"{path.relative_to(folder)}: {part}"] = PRIVATE_PARTS[part]
    return found


def test_identifiers_have_no_private_words() -> None:
    assert private_parts(SOURCES) == {}


@pytest.mark.skipif(not DOCS.exists(), reason="runs in a checkout only")
@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples"])
def test_programs_around_the_package_have_no_private_words(folder: str) -> None:
    # Comparisons with another library call its values theirs.
    assert private_parts(ROOT / folder, allowed=frozenset({"theirs"})) == {}


def test_no_module_has_a_private_word_for_its_name() -> None:
    found = {path.stem for path in SOURCES.rglob("*.py")} & set(PRIVATE)
    assert {name: f"call it {PRIVATE[name]}" for name in found} == {}


@pytest.mark.skipif(not DOCS.exists(), reason="runs in a checkout only")
def test_pages_do_not_name_modules_that_are_gone() -> None:
    """Each file of the package that a page names exists."""
    gone = {}
    for page in DOCS.glob("*.md"):
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`", page.read_text("utf-8")):
            places = (SOURCES / name, ROOT / name)
            if not any(place.exists() for place in places):
                gone.setdefault(page.name, []).append(name)
    assert gone == {}


@pytest.mark.skipif(not DOCS.exists(), reason="runs in a checkout only")
def test_the_files_to_read_first_are_few_and_short() -> None:
    page = (DOCS / "architecture.md").read_text("utf-8")
    section = page.split("\n## Read these first\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\d+\. `([a-z_/]+\.py)`: ", section, re.MULTILINE)
    lengths = [len((SOURCES / name).read_text("utf-8").splitlines()) for name in listed]
    assert len(listed) == 12
    assert sum(lengths) < 3_000
