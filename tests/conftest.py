"""Fixtures and settings that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: the first example of a law may have to compile its kernels.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=25, **_COMMON)
settings.register_profile("ci", max_examples=100, derandomize=True, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# Tests call inner kernels by themselves.
os.environ.setdefault("HEDGEROW_OPEN_KERNELS", "1")

# Pictures are drawn without a display.
os.environ.setdefault("MPLBACKEND", "Agg")


def _data_root() -> Path:
    """Data sets that are not shipped lie in ``$HEDGEROW_TEST_DATA`` or ``../shared/data``."""
    chosen = os.environ.get("HEDGEROW_TEST_DATA")
    if chosen:
        return Path(chosen)
    return Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Find a real data set: ``shared_data("california")`` is its folder, or the test is skipped."""

    def find(name: str) -> Path:
        folder = _data_root() / name
        if not folder.is_dir():
            pytest.skip(
                f"data set {name!r} is not there: set HEDGEROW_TEST_DATA to its parent folder"
            )
        return folder

    return find
