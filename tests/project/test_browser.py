"""The program that predicts in the browser gives the bits of the package, in Node."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRegressor

BROWSER = Path(__file__).resolve().parents[2] / "examples" / "browser"
PROGRAM = """
import fs from "node:fs";
const [folder] = process.argv.slice(1);
const { load } = await import(`file://${folder}/hedgerow.mjs`);
const score = await load((name) => fs.readFileSync(`${folder}/${name}`));
const rows = JSON.parse(fs.readFileSync(0)).map((row) => row.map((value) => value ?? NaN));
for (const one of score(rows)) process.stdout.write(Buffer.from(one.buffer));
"""

pytestmark = pytest.mark.skipif(not BROWSER.exists(), reason="runs in a checkout only")


def builds_pages(test: Callable[..., None]) -> Callable[..., None]:
    """Skip a test where pages cannot be built or run."""
    for mark in (
        pytest.mark.slow,
        pytest.mark.skipif(find_spec("ziglang") is None, reason="needs the linker of ziglang"),
        pytest.mark.skipif(shutil.which("node") is None, reason="needs Node"),
    ):
        test = mark(test)
    return test


def words_of(kind: Any) -> int:
    """Return how many words the program reads for an argument of a Numba type."""
    if hasattr(kind, "types"):
        return sum(map(words_of, kind.types))
    return 1 + getattr(kind, "ndim", 0)


@pytest.mark.parametrize("multi_strategy", ["one_output_per_tree", "multi_output_tree"])
def test_the_page_has_the_arguments_of_the_kernel(multi_strategy) -> None:
    """It runs where no page can be built."""
    pytest.importorskip("numba")
    from hedgerow.compile.variants import parse_types, read_variants

    make = runpy.run_path(str(BROWSER / "make.py"))
    kinds = next(parse_types(one.types) for one in read_variants() if one.kernel == make["KERNEL"])
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = HedgerowClassifier(
        n_estimators=5, early_stopping=False, multi_strategy=multi_strategy
    ).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    described, _ = make["describe"](model.booster_)
    assert len(described["arguments"]) == sum(map(words_of, kinds))


def page(model, folder: Path) -> subprocess.CompletedProcess[str]:
    """Save a model and make its page."""
    model.booster_.save(folder / "model.hedgerow")
    command = [sys.executable, BROWSER / "make.py", folder / "model.hedgerow", folder / "site"]
    environment = {**os.environ, "HEDGEROW_COMPILE": "always"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@builds_pages
@pytest.mark.parametrize(
    "model",
    [
        HedgerowRegressor(n_estimators=30, early_stopping=False),
        HedgerowClassifier(n_estimators=10, early_stopping=False),
        HedgerowClassifier(
            n_estimators=5, early_stopping=False, multi_strategy="multi_output_tree"
        ),
    ],
    ids=["regression", "classes", "vector leaves"],
)
def test_scores_in_node_have_the_same_bits(model, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2
    model.fit(X, y if isinstance(model, HedgerowRegressor) else np.digitize(y, [0.0, 1.0]))
    assert page(model, tmp_path).returncode == 0
    rows = json.dumps([[None if value != value else value for value in row] for row in X.tolist()])
    command = ["node", "--input-type=module", "-e", PROGRAM, str(tmp_path / "site")]
    found = subprocess.run(command, input=rows.encode(), capture_output=True, check=True).stdout
    expected = model.booster_.raw_scores(X)
    assert found == np.ascontiguousarray(expected).tobytes()


@builds_pages
def test_models_that_the_page_cannot_read_are_refused(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    lines = HedgerowRegressor(n_estimators=3, early_stopping=False, linear_leaves=True)
    assert "linear_leaves=False" in page(lines.fit(X, X[:, 0]), tmp_path).stderr
