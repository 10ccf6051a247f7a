"""What pytest does for a suite: puts the adapter in place, and notes how each test ended.

An error of ours has words of our own.  A test that asks for an error passes if its type is
right; it is counted apart if the words differ.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import HedgerowError

from .suites import SUITES
from .touched import taken

_raises = pytest.raises
_own_words: list[str] = []
_outcomes: dict[str, dict[str, str]] = {}


class RaisesOfAnyWords:
    """``pytest.raises``, whose ``match`` is for the words of the other library alone."""

    def __init__(self, expected: Any, match: Any) -> None:
        self._expected, self._match = expected, match
        self._context = _raises(expected)

    def __enter__(self) -> Any:
        return self._context.__enter__()

    def __exit__(self, *raised: Any) -> Any:
        passed = self._context.__exit__(*raised)
        error = raised[1]
        if passed and not re.search(self._match, str(error)):
            assert isinstance(error, HedgerowError), (
                f"{error!r} is no error of Hedgerow, and does not match {self._match!r}"
            )
            _own_words.append(str(error))
        return passed


def raises(expected: Any, *args: Any, match: Any = None, **kwargs: Any) -> Any:
    if match is None:
        return _raises(expected, *args, **kwargs)
    return RaisesOfAnyWords(expected, match)


def pytest_configure(config: Any) -> None:
    pytest.raises = raises
    importlib.import_module(SUITES[os.environ["PEER_SUITE"]].adapter).install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    _own_words.clear()
    taken()
    try:
        return (yield)
    finally:
        _outcomes.setdefault(_name(item.nodeid), {"outcome": "passed"})["used"] = (
            "yes" if taken() else ""
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    report: Any = yield
    name = _name(item.nodeid)
    known = _outcomes.setdefault(name, {"outcome": "passed"})
    if report.failed:
        known["outcome"] = "failed"
        known["error"] = str(getattr(report.longrepr, "reprcrash", report.longrepr))[:600]
    elif report.skipped and known["outcome"] == "passed":
        known["outcome"] = "skipped"
    elif report.when == "call" and _own_words:
        known["words"] = " | ".join(_own_words)
    return report


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _outcomes[_name(report.nodeid)] = {
            "outcome": "failed",
            "error": str(report.longrepr)[-600:],
        }


def pytest_sessionfinish(session: Any) -> None:
    Path(os.environ["PEER_OUTCOMES"]).write_text(json.dumps(_outcomes), encoding="utf-8")


def _name(nodeid: str) -> str:
    """``test_file.py::test[case]``, wherever the file lies."""
    path, _, rest = nodeid.partition("::")
    return f"{Path(path).name}::{rest}" if rest else Path(path).name
