"""Runs a test suite of another library against Hedgerow, and counts what passes.

Examples::

    python -m tests.peers.run --suite sklearn-hgb
    python -m tests.peers.run --suite sklearn-tree --source ~/src/scikit-learn -k pruning

The exit code is 0 if each test that fails is listed in ``tests/peers/explained/``, and as many
pass as the suite asks for.  Tests of what is private to the other library do not count there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

from .suites import EXPLAINED, SUITES

ROOT = Path(__file__).resolve().parents[2]
Outcomes = dict[str, dict[str, str]]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.peers.run", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--suite", required=True, choices=sorted(SUITES))
    parser.add_argument("--source", type=Path, help="a checkout, or the folder of the tests")
    parser.add_argument("-k", dest="chosen", default="", help="only these, as for pytest")
    parser.add_argument("-v", dest="verbose", action="store_true", help="show what pytest prints")
    parser.add_argument("--json", type=Path, help="write how each test ended")
    return parser


def main() -> int:
    given = build_parser().parse_args()
    files = SUITES[given.suite].tests_in(given.source)
    outcomes = run_suite(given.suite, files, given.chosen, given.verbose, given.source)
    if given.json is not None:
        given.json.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
    return report(given.suite, outcomes, whole=not given.chosen)


def run_suite(
    name: str, files: list[Path], chosen: str, verbose: bool, source: Path | None
) -> Outcomes:
    """Return how each test ended."""
    with tempfile.TemporaryDirectory() as folder:
        reported = Path(folder) / "outcomes.json"
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "pytest", "-p", "tests.peers.plugin", "-q", "-ra"]
        command += ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(files[0].parent)]
        command += ["--tb=short", "-W", "ignore::pytest.PytestUnknownMarkWarning"]
        command += ["-k", chosen] if chosen else []
        done = subprocess.run(
            command + [str(file.resolve()) for file in files], check=False, text=True,
            cwd=folder if source is None else source,
            stdout=None if verbose else subprocess.PIPE, stderr=subprocess.STDOUT,
            env={
                **os.environ, "PYTHONPATH": path, "PEER_SUITE": name, "PEER_OUTCOMES": str(reported),
                "MPLBACKEND": "agg",
            },
        )  # fmt: skip
        if not reported.is_file():
            raise SystemExit(f"the tests did not end: exit code {done.returncode}\n{done.stdout}")
        return dict(json.loads(reported.read_text(encoding="utf-8")))


def explanations(name: str) -> list[tuple[str, str]]:
    """Return patterns of tests, and why these do not pass.

    A line that begins with ``#`` is the reason of the lines below it, up to an empty line.
    """
    found: list[tuple[str, str]] = []
    reason: list[str] = []
    lines = (EXPLAINED / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        text = line.strip()
        if text.startswith("#"):
            begins = number == 0 or not lines[number - 1].startswith("#")
            reason = [text[1:].strip()] if begins else [*reason, text[1:].strip()]
        elif text:
            if not reason:
                raise SystemExit(f"{name}.txt: {text} has no reason")
            found.append((text, " ".join(reason)))
        else:
            reason = []
    return found


def matches(test: str, pattern: str) -> bool:
    """Return whether a name is the pattern's; a name without brackets stands for all its cases.

    ``*`` stands for anything, ``[[]`` for a bracket.
    """
    return test.split("[")[0] == pattern or fnmatchcase(test, pattern)


def report(name: str, outcomes: Outcomes, whole: bool = True) -> int:
    """Print the counts; 1 if a failure has no explanation, or too few pass."""
    known = explanations(name)
    failed = [test for test, reported in outcomes.items() if reported["outcome"] == "failed"]
    passed = [reported for reported in outcomes.values() if reported["outcome"] == "passed"]
    used = [reported for reported in passed if reported.get("used")]
    reasons = {
        test: next((why for each, why in known if matches(test, each)), "") for test in failed
    }
    open_ones = [test for test, why in reasons.items() if not why]
    private = sum(why.startswith("Private") for why in reasons.values())
    for test in open_ones:
        print(f"FAILED {test}\n    {outcomes[test].get('error', '')}")
    unused = [each for each, _ in known if not any(matches(test, each) for test in failed)]
    if whole and unused:
        print("explained, but not failing: " + ", ".join(unused))
    required, counted = SUITES[name].wanted, len(used) + len(failed)
    share = len(used) / max(1, counted - private)
    print(
        f"{name}: {len(used)} of {counted} pass ({len(used) / max(1, counted):.1%}); without the "
        f"{private} of private functions and words {share:.1%} (required {required:.0%}). "
        f"{sum('words' in reported for reported in used)} with error messages of our own; "
        f"{len(failed) - len(open_ones)} failures explained, {len(open_ones)} not\n"
        f"not counted: {len(outcomes) - len(failed) - len(passed)} skipped, "
        f"{len(passed) - len(used)} that pass without calling Hedgerow"
    )
    return 1 if open_ones or (whole and share < required) else 0


if __name__ == "__main__":
    sys.exit(main())
