"""The counts of other libraries' test suites; the suites themselves run on request."""

from __future__ import annotations

import pytest

from hedgerow.errors import DataError
from tests.peers import run
from tests.peers.plugin import raises
from tests.peers.suites import EXPLAINED, SUITES


@pytest.mark.parametrize("name", sorted(SUITES))
def test_each_reason_is_for_a_test_of_the_suite(name) -> None:
    known = run.explanations(name)
    assert known
    for test, why in known:
        assert test.split("::")[0] in SUITES[name].files
        assert len(why) > 20
    assert {file.stem for file in EXPLAINED.glob("*.txt")} == set(SUITES)


def test_names_of_tests() -> None:
    assert run.matches("test_a.py::test_b[x-1]", "test_a.py::test_b")
    assert run.matches("test_a.py::test_b[x-1]", "test_a.py::test_b[[]x-1]")
    assert run.matches("test_a.py::test_b[x-absolute-1]", "test_a.py::test_b*absolute*")
    assert not run.matches("test_a.py::test_b[x-2]", "test_a.py::test_b[[]x-1]")
    assert not run.matches("test_a.py::test_bc", "test_a.py::test_b")


def test_a_failure_without_a_reason_fails(monkeypatch, capsys) -> None:
    reasons = [("a.py::t1", "Private: a function."), ("a.py::t2", "Another design.")]
    monkeypatch.setattr(run, "explanations", lambda name: reasons)
    outcomes = {f"a.py::p{k}": {"outcome": "passed", "used": "yes"} for k in range(30)}
    outcomes["a.py::p0"]["words"] = "another message"
    outcomes |= {"a.py::n": {"outcome": "passed"}, "a.py::s": {"outcome": "skipped"}}
    outcomes |= {f"a.py::t{k}": {"outcome": "failed", "error": "it"} for k in (1, 2)}
    assert run.report("sklearn-hgb", outcomes) == 0
    said = capsys.readouterr().out
    assert "30 of 32 pass (93.8%)" in said
    assert "without the 1 of private functions and words 96.8% (required 90%)" in said
    assert "1 with error messages of our own; 2 failures explained, 0 not" in said
    assert "not counted: 1 skipped, 1 that pass without calling Hedgerow" in said
    outcomes["a.py::t3"] = {"outcome": "failed", "error": "broken"}
    assert run.report("sklearn-hgb", outcomes) == 1
    assert "FAILED a.py::t3\n    broken" in capsys.readouterr().out
    for name in [name for name in outcomes if name.startswith("a.py::p")][4:]:
        del outcomes[name]
    del outcomes["a.py::t3"]
    assert run.report("sklearn-hgb", outcomes) == 1  # too few pass


def test_words_of_an_error_are_ours_to_choose() -> None:
    with raises(ValueError, match="their words"):
        raise DataError("our words")
    with (
        pytest.raises(AssertionError, match="no error of Hedgerow"),
        raises(ValueError, match="their words"),
    ):
        raise ValueError("other words")
    with pytest.raises(KeyError), raises(ValueError, match="their words"):
        raise KeyError("another type")
