"""A cluster that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.clusters import client_of_workers


@pytest.fixture(scope="package")
def shared_client() -> Iterator[Any]:
    """Yield a client for tests that do not change its workers and need no processes.

    Objects are sent to the workers as to processes, which would import everything again.
    """
    with client_of_workers(2, processes=False, protocol="tcp") as client:
        yield client
