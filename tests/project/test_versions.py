"""The versions in a report of a defect."""

from __future__ import annotations

import re
import sys

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


def test_a_package_that_another_distribution_brings_has_its_version(monkeypatch, tmp_path) -> None:
    (tmp_path / "trees_of_others").mkdir()
    (tmp_path / "trees_of_others" / "__init__.py").touch()
    about = tmp_path / "trees_of_others_cpu-3.2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: trees-of-others-cpu\nVersion: 3.2.0\n"
    )
    (about / "top_level.txt").write_text("trees_of_others\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("hedgerow.versions._PACKAGES", ("trees_of_others",))
    assert versions()["trees_of_others"] == "3.2.0 (trees-of-others-cpu)"
