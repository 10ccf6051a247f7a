"""Sources of rows: text files in batches equal whole files; surveys of several processes."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow import DataError, Dataset, ParameterError
from hedgerow.comm.base import Alone
from hedgerow.data.binning.bins import fit_sample
from hedgerow.data.external.memory import available_memory, memory_bytes, shown_bytes
from hedgerow.data.reading.texts import joined_kinds
from hedgerow.data.sources.base import ReadRequest, Roles
from hedgerow.data.sources.batches import FunctionPart, batch_table
from hedgerow.data.sources.opening import open_files
from hedgerow.data.sources.paths import FOUND_OUT, DataFile, find_files
from hedgerow.data.sources.survey import Survey, pack, unpack
from hedgerow.data.sources.text_files import TextPart, dialect_of
from hedgerow.errors import CommunicationError, StorageError
from tests.helpers.examples import examples
from tests.helpers.file_tables import all_kinds, read_whole, split, write

LIMIT = 10**8


def found_in(paths: Sequence[Path], block: int = LIMIT) -> tuple[Any, Any]:
    """Return the schema and numbers of all columns of text files."""
    parts = [TextPart(DataFile(str(path), "csv")) for path in paths]
    kinds = joined_kinds(part.find_kinds(block) for part in parts)
    survey = Survey(ReadRequest(), seed=0, memory_limit=LIMIT)
    for part in parts:
        part.kinds = kinds
        survey.begin(part.column_names(), True, True)
        for batch in part.batches(None, block):
            survey.add(batch, None, None, part.name)
    found = survey.finish()
    tables = [
        batch_table(batch, found.schema, survey.names or (), True, part.name).values
        for part in parts
        for batch in part.batches(None, block)
    ]
    np.testing.assert_array_equal(np.vstack(tables), found.sample.table.values)
    return found.schema, found.sample.table.values


def assert_as_whole(paths: Sequence[Path], whole: Path) -> None:
    schema, values = found_in(paths)
    table = Dataset(read_whole(whole)).table()
    assert schema == table.schema
    np.testing.assert_array_equal(values, table.values)


CSV_COLUMNS = {
    "whole": ["1", "2", "-3", "NA"],
    "wide": ["9007199254740993", "1", "2", "3"],
    "wide with a gap": ["9007199254740993", "", "2", "3"],
    "beyond": ["18446744073709551615", "1", "2", "3"],
    "float": ["1", "2.5", "1e3", "nan"],
    "spaces": [" 1", "2 ", "\t3", "4"],
    "hex": ["0x10", "1", "2", "3"],
    "infinite": ["inf", "-inf", "1", "2"],
    "late text": ["1", "2", "3", "n/a"],
    "late float": ["1", "2", "3", "4.5"],
    "truth": ["true", "False", "TRUE", ""],
    "truth and numbers": ["true", "1", "0", "1"],
    "dates": ["2020-01-31", "1999-12-01 10:00", "2001-02-03T04:05:06.789", "?"],
    "no date": ["2020-02-30", "2020-01-01", "2020-01-02", "2020-01-03"],
    "times": ["10:30", "11:00", "12:00", ""],
    "zones": ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "", ""],
    "nothing": ["", "NA", "null", "?"],
    "text": ["a", "b,c", 'd"e', "f\ng"],
    "underscores": ["1_0", "2", "3", "4"],
    "quoted": ["N/A", "None", "x", ""],
}


@pytest.mark.parametrize("name", CSV_COLUMNS)
def test_csv_columns(name: str, tmp_path: Path) -> None:
    """Types are those of the whole data, for any division into batches and files."""
    column = CSV_COLUMNS[name]
    lines = [
        '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text for text in column
    ]
    rows = [f"{number},{line}" for number, line in enumerate(lines)]
    whole = tmp_path / "whole.csv"
    whole.write_text("n,x\n" + "\n".join(rows) + "\n", newline="")
    parts = []
    for place, some in enumerate((rows[:3], rows[3:])):
        parts.append(tmp_path / f"{place}.csv")
        parts[-1].write_text("n,x\n" + "\n".join(some) + "\n", newline="")
    assert_as_whole([whole], whole)
    assert_as_whole(parts, whole)


def test_csv_types_across_blocks(tmp_path: Path) -> None:
    """A column may be numeric for many blocks, and then have text."""
    n_rows = 30_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "late": pa.array([*map(str, range(n_rows - 1)), "n/a"]),
            "float": rng.normal(size=n_rows),
            "long": pa.array(["x" * 40] * n_rows),
            "gone": pa.array([None] * (n_rows - 1) + ["7"]),
        }
    )
    path = write(table, tmp_path / "a.tsv")
    packed = tmp_path / "b.csv.gz"
    plain = write(table, tmp_path / "b.csv")
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    plain.unlink()
    whole = Dataset(read_whole(path)).table()
    for file in (path, packed):
        schema, values = found_in([file], 1 << 20)
        assert schema == whole.schema
        np.testing.assert_array_equal(values, whole.values)


def test_csv_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text, match in (
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ("1,1\n1,2\n", "called '1'.* All these names are numbers: if the first line holds values"),
        ("a,\n1,2\n", "column 2 has no name"),
        (",a\n0,2\n", "column 1 has no name .* index=False"),
        ("0.5,3\n1,2\n", "no column 'a'.* All these names are numbers"),
        ("", r"a\.csv is empty"),
    ):
        path.write_text(text)
        with pytest.raises((DataError, StorageError), match=match):
            open_files(str(path), Roles(("a",)))
    path.write_text("0,1\n1,2\n")  # as pandas numbers columns
    with pytest.raises(DataError, match=r"Its columns: 0, 1\.$"):
        open_files(str(path), Roles(("a",)))
    for content, match in (
        (b"a,b\n1,2\n3\n", "row 2 has 1 values"),
        (b"a,b\n1,\xff\xfe\n", "column 2, row 1: this is not text in UTF-8"),
        (gzip.compress(b"a,b\n1,2\n" * 999)[:40], "cannot be read as CSV"),
    ):
        file = tmp_path / ("a.csv.gz" if content[:2] == b"\x1f\x8b" else "a.csv")
        file.write_bytes(content)
        with pytest.raises((DataError, StorageError), match=rf"a\.csv(\.gz)?.* {match}"):
            found_in([file])


# ---- several processes ----------------------------------------------------------------------


def survey_of(table: pa.Table, batch: int) -> Survey:
    roles, request = Roles(("y",), "w"), ReadRequest()
    survey = Survey(request, seed=1, memory_limit=LIMIT, largest_weight=2.5)
    parts = [table.slice(start, batch) for start in range(0, table.num_rows, batch)]
    for found in FunctionPart(lambda: iter(parts)).batches(None, LIMIT):
        names = roles.features_of(tuple(found.columns), "table")
        survey.begin(names, True, False)
        weight = np.asarray(found.columns["w"].values)
        survey.add(found, None, weight, "table")
    return survey


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cuts=st.lists(st.integers(0, 200), max_size=4),
    batch=st.sampled_from([7, 31, 90]),
    most=st.sampled_from([3, 2**20]),
)
def test_surveys_of_several_processes(cuts: list[int], batch: int, most: int) -> None:
    """Surveys merged through bytes equal one survey of all rows."""
    table = all_kinds(200)
    alone = survey_of(table, 200).finish(most)
    surveys = []
    for part in split(table, cuts):
        survey = survey_of(part, batch)
        message = survey.to_bytes(4095)
        surveys.append(Survey.from_bytes(message, survey.requested, seed=1, memory_limit=LIMIT))
    for later in surveys[1:]:
        surveys[0].merge(later)
    found = surveys[0].finish(most)
    assert found.schema == alone.schema
    first, second = (fit_sample(f.sample, 20) for f in (alone, found))
    np.testing.assert_array_equal(first.cut_keys, second.cut_keys)
    np.testing.assert_array_equal(first.level_bin, second.level_bin)


def test_the_heaviest_of_too_many_levels(tmp_path: Path) -> None:
    """If there are too many levels, the same levels are kept as in memory."""
    from hedgerow.data import drop_unused_levels, read_table

    rng = np.random.default_rng(0)
    text = np.array([f"t{k}" for k in rng.integers(0, 40, 300)])
    weight = rng.choice([0.5, 1.0, 2.5], 300)
    table = pa.table({"c": text, "y": np.zeros(300), "w": weight})
    found = survey_of(table, 37).finish(8)
    expected = drop_unused_levels(read_table({"c": text}), 8, weight)
    assert found.schema.columns[0].levels == expected.schema.columns[0].levels
    codes = expected.values[:, 0]
    masses = [weight[codes == code].sum() for code in range(8)]
    np.testing.assert_allclose(found.sample.level_mass[0] / 2**32, masses)


def test_messages_of_other_processes() -> None:
    arrays = [np.arange(3), np.ones((2, 2), np.float32), np.zeros(0, np.uint64)]
    value = {"names": ["ä"], "more": [1, 2.5, None, float("inf")]}
    message = pack({"arrays": arrays[:2], "value": value, "last": {"one": arrays[2]}})
    found = unpack(message)
    assert found["value"] == value
    for part, array in zip([*found["arrays"], found["last"]["one"]], arrays, strict=True):
        assert part.dtype == array.dtype
        np.testing.assert_array_equal(part, array)
    for wrong in (
        b"",
        message[:-1],
        message + b"x",
        message[:20],
        b"\xff" * 40,
        message.replace(b"<i8", b"|O8"),
    ):
        with pytest.raises(CommunicationError, match="malformed"):
            unpack(wrong)


# ---- small parts ----------------------------------------------------------------------------


def test_memory_limits() -> None:
    assert memory_bytes("2 GB") == 2 * 10**9
    assert memory_bytes("1.5gib") == 3 * 2**29
    assert memory_bytes("10k") == 10_000
    assert memory_bytes(7.9) == 7
    assert 0 < memory_bytes(None) <= available_memory() < 2**60
    assert shown_bytes(1_500_000) == "1.5 MB"
    for wrong in ("", "GB", "-1 GB", "1 i", "2 PB", True, -1, 0, [], float("nan"), float("inf")):
        with pytest.raises(ParameterError, match="memory_limit must be a positive number"):
            memory_bytes(wrong)  # type: ignore[arg-type]


def test_order_of_files(tmp_path: Path) -> None:
    for name in ("b/2.csv", "b/10.csv", "a.csv", ".hidden.csv", "_x/a.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a,y\n1,2\n")
    names = [Path(file.path).relative_to(tmp_path).as_posix() for file in find_files(tmp_path)]
    assert names == ["a.csv", "b/10.csv", "b/2.csv"]
    found = find_files([tmp_path / "b" / "2.csv", str(tmp_path / "*.csv")])
    assert [Path(file.path).name for file in found] == ["2.csv", "a.csv"]
    deep = find_files(str(tmp_path / "**" / "*.csv"))
    assert len(deep) >= 3
    assert Alone().size == 1


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(tmp_path: Path, name: str, separator: str) -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5, None], "t": ["x\ny", "; , |", "\t"], "y": [0, 1.5, 2]})
    frame.to_csv(tmp_path / name, sep=separator, index=False)
    assert Dataset.from_files(tmp_path / name, "y").feature_names == ("a", "t")


def test_separators_in_names_are_no_separators(tmp_path):
    frame = pd.DataFrame({"a;b|c": range(40), "y": range(40)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.rename(columns={"a;b|c": "a,b"}).to_csv(tmp_path / "b.tsv", sep="\t", index=False)
    assert Dataset.from_files(tmp_path / "a.csv", "y").feature_names == ("a;b|c",)
    assert Dataset.from_files(tmp_path / "b.tsv", "y").feature_names == ("a,b",)
    for text in ("a;b\n" + "1.5\n" * 40, "a;b\n", '"a;\nb",y\n"0;1",2\n', 'a,b\n"1,5",2\n', ""):
        (tmp_path / "c.csv").write_text(text)
        assert dialect_of(str(tmp_path / "c.csv"), FOUND_OUT) == ("utf8", ",", "."), text
    for values, decimal in ((("1,5", "2"), ","), (("1,234", "2"), "."), (("1,234", "x"), ".")):
        (tmp_path / "c.csv").write_text("a;b\n" + "".join(f"{value};x\n" for value in values))
        assert dialect_of(str(tmp_path / "c.csv"), FOUND_OUT)[2] == decimal, values
