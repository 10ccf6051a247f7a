"""LibSVM files: sparse rows with a target, read in batches.

::

    1 3:0.5 7:2 # comment            target 1; column 3 is 0.5, column 7 is 2
    0 qid:4 1:1                      qid is ignored with a warning: ranking is not supported

The number before a colon is the position of the column, counted from 0, as in LightGBM and
XGBoost; positions ascend in a line.  In a file that counts from 1, column 0 holds only zeros.
Entries that are not written are 0.
"""

from __future__ import annotations

import gzip
import warnings
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.sources.base import Batch
from hedgerow.data.sources.paths import DataFile, check_unchanged, fingerprint
from hedgerow.data.sources.text_files import check_encoding
from hedgerow.errors import DataError, HedgerowWarning, StorageError

_BYTES_PER_BYTE = 16
"""Maximum memory per byte of text while it is read."""

_LARGEST_INDEX = 2**31 - 2


class LibsvmPart:
    """A LibSVM file; see :class:`hedgerow.data.sources.base.Part`."""

    types_known = False

    def __init__(self, file: DataFile) -> None:
        self.name = file.path
        self._before = fingerprint(file.path)

    def column_names(self) -> None:
        """Return None: columns have no names."""
        return

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Yield all rows of the file, always with all columns."""
        check_unchanged(self.name, self._before)
        size = max(1 << 16, min(1 << 23, max_bytes // _BYTES_PER_BYTE))
        line = 1
        for text in _blocks(self.name, size):
            batch = _parse(text, self.name, line)
            line += text.count(b"\n")
            if batch.n_rows:
                yield batch
        check_unchanged(self.name, self._before)


def _blocks(path: str, size: int) -> Iterator[bytes]:
    """Yield blocks of complete lines, each about ``size`` bytes."""
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    check_encoding(path)
    try:
        with opener(path, "rb") as file:
            rest = file.read(len(BOM_UTF8))
            rest = b"" if rest == BOM_UTF8 else rest  # byte order mark of some editors
            while block := file.read(size):
                end = block.rfind(b"\n") + 1
                if end == 0:
                    rest += block
                    continue
                yield rest + block[:end]
                rest = block[end:]
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{path} cannot be read as LibSVM: {error}.") from error
    if rest.strip():
        yield rest + b"\n"


def _parse(text: bytes, path: str, first_line: int) -> Batch:
    """Return the rows of complete lines."""
    from scipy.sparse import csr_array
    from sklearn.datasets import load_svmlight_file

    if b"qid:" in text:
        warnings.warn(
            f"{path} assigns rows to queries (qid), which training ignores.",
            HedgerowWarning,
            stacklevel=2,
        )
    try:
        entries, target = load_svmlight_file(BytesIO(text), zero_based=True)
    except (ValueError, OverflowError):
        raise _find_fault(text, path, first_line) from None
    if entries.shape[1] > _LARGEST_INDEX + 1:
        raise _find_fault(text, path, first_line)
    column = ReadColumn(target, dtype="number")
    return Batch(len(target), {}, False, csr_array(entries), column)


def _find_fault(text: bytes, path: str, first_line: int) -> DataError:
    """Return the error for the first invalid line."""
    for number, line in enumerate(text.splitlines(), first_line):
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        last = -1
        try:
            float(words[0])
        except ValueError:
            return _fault(path, number, words[0], "a target is a number")
        for word in words[1:]:
            if word.startswith(b"qid:"):
                continue
            before, colon, after = word.partition(b":")
            if not colon or not before.isdigit() or int(before) > _LARGEST_INDEX:
                return _fault(path, number, word, "an entry is written as column:value")
            if int(before) <= last:
                return _fault(path, number, word, "the columns of a line ascend")
            last = int(before)
            try:
                float(after)
            except ValueError:
                return _fault(path, number, word, "a value is a number")
    return DataError(f"{path}: lines from {first_line} on cannot be read as LibSVM.")


def _fault(path: str, line: int, word: bytes, rule: str) -> DataError:
    shown = word[:40].decode("utf-8", "replace")
    return DataError(f"{path}, line {line}: {shown!r} cannot be read; {rule}.")
