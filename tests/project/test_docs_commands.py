"""Commands and blocks of code in the docs run, or this file says why they cannot."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

import hedgerow
from hedgerow.cli.main import build_parser, main
from hedgerow.datasets import load_pima

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
COMMAND = re.compile(r"^ *(hedgerow (?!<)[a-z]+ .+|hedgerow demo)$", re.M)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)

NOT_RUN = {
    ("distributed.md", "import dask.dataframe as dd"): "needs a cluster and a bucket",
    ("distributed.md", "from hedgerow import DaskHedgerowRanker"): "continues the one above",
    ("distributed.md", "from hedgerow.distributed import Resilience"): "continues the one above",
    ("spark.md", "from hedgerow.spark import SparkHedgerowClassifier"): "needs Spark",
    ("ray.md", "import ray"): "needs Ray",
    ("ray.md", "def with_probability(batch):"): "continues the one above",
    ("serving.md", 'mlflow.sklearn.log_model(model, name="income")'): "needs a registry of MLflow",
    (
        "README.md",
        "from sklearn.model_selection import train_test_split",
    ): "tests/project/test_readme.py",
}
"""Blocks that the tests do not run, and the reasons; ``tests/distributed/test_distributed*.py`` and
``tests/serving/test_serving_elsewhere.py`` call what the first six show."""

pytestmark = pytest.mark.skipif(not (ROOT / "docs").exists(), reason="runs in a checkout only")


def commands(page: Path) -> list[str]:
    """Return the lines of a page that call ``hedgerow``."""
    return COMMAND.findall(page.read_text("utf-8"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with every file that the commands of the pages read."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "hours", "size"])
    people["city"] = rng.choice(["Oslo", "Rome"], 300)
    income = np.array(["dear", "fair", "low"])[rng.integers(0, 3, 300)]
    labelled = people.assign(income=income, bought=rng.integers(0, 2, 300))
    for name in ("people.csv", "test.csv"):
        labelled.to_csv(tmp_path / name, index=False)
    labelled.drop(columns="income").to_csv(tmp_path / "new_people.csv", index=False)
    for name in ("rows.csv", "typical.csv"):
        people.head(40).to_csv(tmp_path / name, index=False)
    people.to_parquet(tmp_path / "rows.parquet")
    for name in ("rows", "folder"):
        (tmp_path / name).mkdir()
    people.assign(id=range(300)).to_csv(tmp_path / "rows" / "1.csv", index=False)
    labelled.to_csv(tmp_path / "folder" / "1.csv", index=False)
    model = hedgerow.HedgerowClassifier(n_estimators=5).fit(people, income)
    model.save(tmp_path / "model.hedgerow")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("without_drawing")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page)], ids=lambda page: page.name
)
def test_commands_run(page: Path, folder: Path) -> None:
    for line in commands(page):
        arguments = shlex.split(line.replace("/fast/disk", str(folder / "disk")))[1:]
        if arguments[0] == "serve":  # it serves until it is stopped: tests/serving/test_serving.py
            build_parser().parse_args(arguments)
        else:
            assert main(arguments) == 0, line


def test_pages_with_commands_are_found() -> None:
    found = {page.name: len(commands(page)) for page in PAGES if commands(page)}
    assert found["README.md"] == 5
    assert found["start.md"] == 4
    assert sum(found.values()) >= 15


def plain_blocks() -> list[tuple[str, str]]:
    """Return Python blocks without ``>>>``, which ``tests/project/test_docs.py`` skips."""
    return [
        (page.name, block)
        for page in PAGES
        for block in BLOCK.findall(page.read_text("utf-8"))
        if ">>> " not in block and (page.name, block.splitlines()[0]) not in NOT_RUN
    ]


@pytest.mark.parametrize(("page", "block"), plain_blocks())
def test_plain_blocks_run(page: str, block: str, folder: Path) -> None:
    if "import optuna" in block:
        pytest.importorskip("optuna", reason="optuna is not installed (hedgerow[bench])")
        block = block.replace("n_trials=50", "n_trials=3")
    pima = load_pima()
    X_train, X_test, y_train, y_test = train_test_split(pima.X, pima.y, random_state=0)
    names = {"X_train": X_train, "X_test": X_test, "y_train": y_train}
    names |= {"X_val": X_test, "y_val": y_test}
    names |= {"HedgerowClassifier": hedgerow.HedgerowClassifier}
    exec(compile(block, page, "exec"), names)


def test_every_exception_is_on_its_page() -> None:
    for name, first in NOT_RUN:
        page = next(page for page in PAGES if page.name == name)
        assert f"```python\n{first}\n" in page.read_text("utf-8"), (name, first)
