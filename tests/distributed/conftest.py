"""A cluster that several modules of the folder share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.clusters import client_of_two_workers


@pytest.fixture(scope="package")
def shared_client() -> Iterator[Any]:
    """A client for tests that leave its workers as they are."""
    with client_of_two_workers() as client:
        yield client
