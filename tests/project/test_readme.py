"""The commands and examples of the README work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not README.exists(), reason="runs in a checkout only")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)


def test_exactly_two_commands_make_an_environment() -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if "venv" in line]
    assert len(commands) == 2
    demo, tests = commands
    assert demo.endswith("hedgerow demo")
    assert tests.endswith("python -m pytest -n 2")
    assert "'.[test]'" in tests


def test_ci_finds_the_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    pattern = re.search(r"grep -E '(\^.*\$)' README\.md", script)
    assert pattern is not None
    lines = README.read_text("utf-8").splitlines()
    assert len([line for line in lines if re.search(pattern[1], line)]) == 1


def test_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, str(README), "exec"), names)


def test_the_command_line_has_what_the_readme_shows() -> None:
    shown = {
        line.split()[1]
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("hedgerow ")
    }
    result = subprocess.run(
        [sys.executable, "-m", "hedgerow.cli.main", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown
    for command in shown:
        assert f"\n    {command}" in result.stdout


def test_figures_are_up_to_date() -> None:
    script = ROOT / "benchmarks" / "table.py"
    result = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
