"""Syntax trees of source files, for tests that read code."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def syntax_trees(folder: Path) -> dict[Path, ast.Module]:
    """Parse all Python files below a folder once.

    A million new nodes would be searched for garbage again and again, now and in later tests.
    """
    gc.disable()
    try:
        return {file: ast.parse(file.read_text(encoding="utf-8")) for file in folder.rglob("*.py")}
    finally:
        gc.freeze()
        gc.enable()
