"""``hedgerow explain`` computes values for files of any size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.cli.main import main
from tests.helpers.file_tables import columns_of

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

Run = Callable[..., tuple[int, str, str]]
FAST = {"n_estimators": 5, "min_samples_leaf": 5, "early_stopping": False}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process, inside a folder with data and models."""
    monkeypatch.chdir(tmp_path)
    frame, price, kind = people()
    frame.assign(id=np.arange(len(frame))).to_csv("rows.csv", index=False)
    frame.to_parquet("rows.parquet")
    frame.iloc[:20].to_csv("few.csv", index=False)
    HedgerowRegressor(**FAST).fit(frame, price).booster_.save("price.hedgerow")
    HedgerowClassifier(**FAST).fit(frame, kind).save("kind.hedgerow")

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def people() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 300).astype(float),
            "hours": rng.normal(38, 6, 300),
            "city": rng.choice(["Oslo", "Rome", "Lima"], 300),
        }
    )
    frame.loc[::9, "hours"] = np.nan
    price = frame["age"] * (frame["city"] == "Rome") + frame["hours"].fillna(50.0)
    return frame, price.to_numpy(), np.array(["a", "b", "c"])[np.arange(300) % 3]


def test_values_of_files_are_those_of_python(run: Run) -> None:
    import hedgerow

    frame = people()[0]
    expected = hedgerow.load("price.hedgerow").explain(frame)
    command = ("explain", "price.hedgerow")
    code, out, _ = run(*command, "rows.csv", "-o", "v.parquet", "--columns", "id")
    assert (code, out) == (0, "300 explanations written to v.parquet\n")
    found = pd.read_parquet("v.parquet")
    assert list(found.columns) == ["id", "shap_age", "shap_hours", "shap_city", "base_value"]
    np.testing.assert_array_equal(found[["shap_age", "shap_hours", "shap_city"]], expected.values)
    assert (found["base_value"] == expected.base_values).all()
    assert run(*command, "rows.parquet", "-o", "w.parquet", "--batch-rows", "7")[0] == 0
    np.testing.assert_array_equal(pd.read_parquet("w.parquet"), found.drop(columns="id"))
    assert run(*command, "rows.parquet", "-o", "w.csv")[0] == 0
    np.testing.assert_array_equal(columns_of("w.csv")["shap_city"], found["shap_city"])


def test_outputs_background_and_pairs(run: Run) -> None:
    import hedgerow

    booster, frame = hedgerow.load("kind.hedgerow"), people()[0]
    command = ("explain", "kind.hedgerow", "rows.parquet", "-o", "v.parquet")
    code, _, err = run(*command, "--outputs", "c,a", "--background", "few.csv")
    assert code == 0, err
    expected = booster.explain(frame, background=frame.iloc[:20], outputs=["c", "a"])
    found = pd.read_parquet("v.parquet")
    np.testing.assert_array_equal(found["shap_age|c"], expected.values[:, 0, 0])
    np.testing.assert_array_equal(found["shap_city|a"], expected.values[:, 2, 1])
    assert run(*command, "--interactions", "--batch-rows", "100")[0] == 0
    pairs = booster.explain(frame, interactions=True)
    found = pd.read_parquet("v.parquet")
    np.testing.assert_array_equal(found["shap_age x city|b"], 2.0 * pairs.values[:, 0, 2, 1])
    whole = booster.predict(frame, kind="raw")[:, 0]
    of_a = [name for name in found if name.endswith("|a")]
    np.testing.assert_allclose(found[of_a].sum(axis=1), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--outputs", "zebra"), "outputs"),
        (("--background", "none.csv"), "none.csv"),
        (("--background", "price.hedgerow"), "price.hedgerow"),
        (("--background", "few.csv", "--interactions"), "not allowed with argument --background"),
        (("--batch-rows", "0"), "batch_rows"),
        (("--columns", "base_value|a"), "no column"),
        (("-o", "rows.csv"), "would replace"),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Run, more: tuple[str, ...], words: str) -> None:
    before = Path("rows.csv").read_bytes()
    out = () if "-o" in more else ("-o", "v.csv")
    code, _, err = run("explain", "kind.hedgerow", "rows.csv", *out, *more)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert Path("rows.csv").read_bytes() == before
    assert not Path("v.csv").exists()


def test_a_column_is_not_written_twice(run: Run) -> None:
    people()[0].assign(shap_age=1.0).to_csv("more.csv", index=False)
    command = ("explain", "price.hedgerow", "more.csv", "-o", "v.csv", "--columns", "shap_age")
    code, _, err = run(*command)
    assert code == 2
    assert "written twice" in err


def test_unseen_categories_are_reported(run: Run) -> None:
    frame = people()[0]
    frame.loc[:4, "city"] = "Atlantis"
    frame.to_csv("new.csv", index=False)
    code, out, _ = run("explain", "price.hedgerow", "new.csv", "-o", "v.csv")
    assert code == 0
    assert "column 'city': 5 row(s)" in out
