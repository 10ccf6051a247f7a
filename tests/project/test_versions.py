"""The versions in a report of a defect."""

from __future__ import annotations

import re

import numpy as np

import hedgerow
from hedgerow.versions import versions


def test_versions_name_packages_and_those_that_are_not_there(capsys, monkeypatch) -> None:
    found = versions()
    assert found["hedgerow"] == hedgerow.__version__
    assert found["numpy"] == np.__version__
    assert int(found["threads"]) >= 1
    hedgerow.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(found)
    assert all(re.match(r"\S+ +\S", line) for line in lines)


def test_a_package_that_is_not_there_is_none(monkeypatch) -> None:
    monkeypatch.setattr("hedgerow.versions._PACKAGES", ("no-such-package",))
    assert versions()["no-such-package"] == "None"
