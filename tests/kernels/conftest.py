"""Forests of few rows are predicted by all engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hedgerow.model import engine_tables


@pytest.fixture(scope="package", autouse=True)
def tables_pay_at_once() -> Iterator[None]:
    """Let the tables of an engine cost nothing: otherwise few rows always walk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_tables, "TABLE_COST", 0.0)
        yield
