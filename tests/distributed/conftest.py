"""A cluster that several modules of the folder share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.clusters import client_of_two_workers


@pytest.fixture(scope="package")
def shared_client() -> Iterator[Any]:
    """Yield a client for tests that leave its workers as they are, and that ask for no processes.

    Whatever goes to the workers is sent as to processes.  Those import everything once more.
    """
    with client_of_two_workers(processes=False, protocol="tcp") as client:
        yield client
