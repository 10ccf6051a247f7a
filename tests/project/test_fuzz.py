"""A few random configurations; more run with ``-m slow``.

``python -m tests.fuzz --n 20000 --seed 0`` runs any number of them from the root of the
repository.  ``.ci/run`` runs them with bounds checks.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import __main__ as runner
from tests.fuzz import checks
from tests.fuzz.configurations import draw_configuration

ROOT = Path(__file__).resolve().parents[2]


def test_some_configurations_keep_the_laws() -> None:
    ends = Counter(checks.check(0, number, core=True) for number in range(100, 130))
    assert ends["fitted"] >= 15


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(20, 300, 20))]
)
@pytest.mark.filterwarnings("ignore")
def test_batches_and_chunks_give_the_model_of_memory(first) -> None:
    drawn = [draw_configuration(5, number, form="pandas") for number in range(first, first + 20)]
    ends = Counter(checks.check_train(one) for one in drawn if one.task != "cart")
    assert ends["fitted"] >= 6


@pytest.mark.slow
def test_many_configurations_keep_the_laws() -> None:
    run_fuzz("--n", "250", "--seed", "1", "--seconds", "480")


def run_fuzz(*arguments: str) -> str:
    """Run the command and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments], cwd=ROOT, text=True, capture_output=True,
        check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_a_configuration_follows_from_its_number() -> None:
    for core in (False, True):
        one, other = (draw_configuration(3, 17, core) for _ in range(2))
        assert str(one) == str(other)
        assert str(draw_configuration(3, 18, core)) != str(one)
        np.testing.assert_array_equal(one.table.numbers(), other.table.numbers())


def test_a_crash_is_found_and_the_rest_goes_on(monkeypatch, capfd) -> None:
    """Configurations that crash or raise are reported; the others are counted."""
    script = (
        "import json, sys\n"
        "for k in range(int(sys.argv[sys.argv.index('--first') + 1]), 8):\n"
        "    print(json.dumps([k, None]), flush=True)\n"
        "    if k in (2, 4): sys.exit(139)\n"
        "    print(json.dumps([k, 'FOUND it' if k == 5 else 'fitted']), flush=True)\n"
    )
    monkeypatch.setattr(runner, "worker_command", lambda: [sys.executable, "-c", script])
    assert runner.main(["--seed", "7", "--n", "8"]) == 1
    said = capfd.readouterr().out
    assert "5 fitted" in said
    assert "3 findings: [2, 4, 5]" in said
    assert "a process that ended with 139" in said
    assert "--seed 7 --only 2" in said
