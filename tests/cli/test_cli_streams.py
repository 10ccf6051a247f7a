"""Standard streams that are closed, broken, full or of another encoding; temporary copies."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest

import hedgerow
from hedgerow import Dataset
from hedgerow.cli.main import main
from hedgerow.errors import StorageError

Open = Callable[[str], TextIO | None]
SHORT = ("--set", "n_estimators=3", "--set", "early_stopping=false")
TRAIN = ("train", "t.csv", "--target", "price", *SHORT, "--model", "OUT")

WRITES = {
    "train": TRAIN,
    "predict": ("predict", "m", "t.csv", "-o", "OUT.csv"),
    "explain": ("explain", "m", "t.csv", "-o", "OUT.csv"),
    "convert": ("convert", "m", "OUT.json"),
    "report": ("report", "m", "t.csv", "--target", "price", "-o", "OUT.html"),
    "ladder": ("ladder", "t.csv", "--target", "price", "--report", "OUT.html"),
    "demo": ("demo", "--out", "OUT"),
}
SLOW = ("report", "ladder", "demo")
PRINTS = {
    "inspect": ("inspect", "m"),
    "evaluate": ("evaluate", "m", "t.csv", "--target", "price"),
    "ladder": ("ladder", "t.csv", "--target", "price"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return a table with text of several scripts, and a model of it."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    size = rng.normal(size=80).round(3)
    name = rng.choice(["价格", "größe", "±"], 80)
    rows = (f"{s},{n},{(3 * s + len(n)).round(3)}" for s, n in zip(size, name, strict=True))
    table = "\n".join(["size,name,price", *rows, ""])
    (folder / "t.csv").write_text(table, encoding="utf-8")
    train = ["train", str(folder / "t.csv"), "--target", "price", *SHORT]
    assert main([*train, "--model", str(folder / "m")]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def here(files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change the working folder to one with the files."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return a function that opens a stream of a kind: none, broken, full, closed, working."""
    streams: list[TextIO] = []

    def make(kind: str) -> TextIO | None:
        if kind == "none":
            return None
        if kind == "full":
            if not os.path.exists("/dev/full"):
                pytest.skip("needs /dev/full")
            streams.append(open("/dev/full", "w", encoding="utf-8"))  # noqa: SIM115
        elif kind == "broken":
            reader, writer = os.pipe()
            os.close(reader)
            streams.append(open(writer, "w", encoding="utf-8"))  # noqa: SIM115
        else:
            streams.append(io.StringIO())
            if kind == "closed":
                streams[-1].close()
        return streams[-1]

    yield make
    for stream in streams:
        stream.close()  # raises if the interpreter would fail to flush it at exit


CODES = {"none": 0, "closed": 0, "broken": 0, "full": 2}
FULL = "hedgerow: standard output: No space left on device\n"


KINDS = pytest.mark.parametrize("kind", CODES)


@pytest.fixture
def run(
    opened: Open, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs commands with a stream of a kind in place of one."""

    def with_stream(kind: str, *commands: tuple[str, ...], name: str = "stdout") -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(sys, name, opened(kind))
            for command in commands:
                try:
                    code = main(list(command))
                except SystemExit as end:  # `--help` and `--version`
                    code = int(end.code or 0)
        return code, *capsys.readouterr()

    return with_stream


@pytest.mark.usefixtures("without_drawing")
@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
@pytest.mark.parametrize(
    ("command", "kind"),
    [(name, kind) for name in WRITES for kind in (("full",) if name in SLOW else CODES)],
)
def test_a_failure_to_print_costs_no_file(command: str, kind: str, here: Path, run: Any) -> None:
    if command in ("report", "ladder"):
        pytest.importorskip("matplotlib")
    assert run(kind, WRITES[command]) == (CODES[kind], "", FULL if kind == "full" else "")
    (out,) = [path for path in here.iterdir() if path.name.startswith("OUT")]
    if out.is_dir():
        assert {"model.hedgerow", "tree.txt"} <= {path.name for path in out.iterdir()}
    elif command.startswith("train"):
        assert out.read_bytes() == (here / "m").read_bytes()
    else:
        assert out.stat().st_size > 0


@pytest.mark.fast(8)
@KINDS
@pytest.mark.parametrize("command", [*PRINTS.values(), ("--help",), ("--version",)])
def test_commands_that_only_print(command: tuple[str, ...], kind: str, run: Any) -> None:
    assert run(kind, command) == (CODES[kind], "", FULL if kind == "full" else "")
    assert run("working", command)[0] == 0  # the failure is none of the next command


@KINDS
@pytest.mark.parametrize("command", ["train", "predict", "explain"])
def test_standard_error_fails(
    command: str, kind: str, run: Any, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run(kind, WRITES[command], name="stderr")
    assert code == 0
    assert "written to OUT" in out
    assert run(kind, ("inspect", "nothing"), name="stderr") == (2, "", "")


@KINDS
def test_a_table_for_standard_output(kind: str, run: Any) -> None:
    code, _, error = run(kind, ("predict", "m", "t.csv", "-o", "-"))
    if kind in ("none", "closed"):
        closed = "hedgerow: standard output is closed: name a file instead of -\n"
        assert (code, error) == (2, closed)
    else:
        assert (code, error) == (CODES[kind], FULL if kind == "full" else "")


def test_remarks_stay_out_of_a_table(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.FileIO(1, "w", closefd=False)))
    assert main(["predict", "m", "t.csv", "-o", "-"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 81


def test_standard_input_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["predict", "m", "-", "-o", "OUT.csv"]) == 2
    assert "standard input is closed" in capsys.readouterr().err


class LostTerminal(io.StringIO):
    """A terminal whose window was closed: reading and writing fail."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("command", ["train", "predict", "explain"])
def test_a_terminal_is_lost(
    command: str, here: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]
) -> None:
    monkeypatch.setattr(sys, "stderr", LostTerminal())
    assert main(list(WRITES[command])) == 0
    if command == "train":
        assert (here / "OUT").read_bytes() == files["m"]


def test_versions_without_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    hedgerow.show_versions()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_characters_that_the_encoding_lacks(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding=encoding))
    assert main(list(PRINTS["inspect"])) == 0
    assert r"'\u4ef7\u683c'" in content.getvalue().decode(encoding)


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names are Unicode there")
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".arrow"])
def test_names_of_files_that_are_not_utf_8(suffix: str, files: dict[str, bytes]) -> None:
    pytest.importorskip("pyarrow")
    import gzip

    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    name = os.fsdecode(b"cl\xfc" + suffix.encode())
    with open(name, "wb") as file:
        if suffix.startswith(".csv"):
            file.write(files["t.csv"] if suffix == ".csv" else gzip.compress(files["t.csv"]))
        else:
            table = pyarrow.csv.read_csv("t.csv")
            write = {
                ".parquet": pyarrow.parquet.write_table,
                ".arrow": pyarrow.feather.write_feather,
            }
            write[suffix](table, file)
    train = ["train", name, "--target", "price", *SHORT, "--model", "OUT"]
    assert main(train) == 0
    assert Path("OUT").read_bytes() == files["m"]
    assert main(["predict", "m", name, "-o", name + ".csv"]) == 0


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the system's folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def no_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the search for a temporary folder fail, as in a container without one."""

    def fail() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", fail)


@pytest.mark.usefixtures("no_temporary")
def test_a_folder_for_copies_is_made_only_if_needed(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WRITES["train"], "--cache-dir", "cache"]) == 0
    assert main(list(WRITES["predict"])) == 0
    assert main(list(PRINTS["evaluate"])) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(files["t.csv"])))
    for command in (["predict", "m", "-", "-o", "OUT.csv"], ["predict", "m", "t.csv", "-o", "-"]):
        capsys.readouterr()
        assert main(command) == 2
        assert "No usable temporary directory found in ['/tmp']" in capsys.readouterr().err


@pytest.mark.usefixtures("no_temporary")
def test_a_dataset_in_files_names_cache_dir() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(StorageError, match=r"no folder for temporary files .* in cache_dir"):
        Dataset.from_files("t.csv", target="price")
    Dataset.from_files("t.csv", target="price", cache_dir="cache")


def test_copies_are_deleted(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(files["t.csv"])))
    assert main(["predict", "m", "-", "-o", "OUT.csv"]) == 0
    assert list(temporary.iterdir()) == []
