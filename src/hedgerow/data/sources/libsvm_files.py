"""LibSVM files: sparse rows with a target, read in batches.

::

    1 3:0.5 7:2 # comment            target 1; column 3 is 0.5, column 7 is 2
    0 qid:4 1:1                      qid is ignored with a warning: ranking is not supported

The number before a colon is the position of the column, counted from 0, as in LightGBM
and XGBoost.  In a file that counts from 1, column 0 holds only zeros.  Entries that are not
written are 0.
"""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray
from hedgerow.data.sources.base import Batch
from hedgerow.data.sources.columns import ReadColumn
from hedgerow.data.sources.paths import DataFile, check_unchanged, fingerprint
from hedgerow.data.sources.text_files import check_encoding
from hedgerow.errors import DataError, HedgerowWarning, StorageError

_BYTES_PER_BYTE = 16
"""Maximum memory per byte of text while it is read."""

_QID = re.compile(rb"(?<=\s)qid:\d+")
_COMMENT = re.compile(rb"#[^\n]*")
_SPACE, _COLON, _NEWLINE = 0x20, 0x3A, 0x0A
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
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    if b"qid:" in text:
        text = _QID.sub(b"", text)
        warnings.warn(
            f"{path} assigns rows to queries (qid), which training ignores.",
            HedgerowWarning,
            stacklevel=2,
        )
    colons, words = _counts(text)
    filled = words > 0
    try:
        if (words[filled] != colons[filled] + 1).any():
            raise ValueError("words and colons")
        numbers = np.fromstring(text.replace(b":", b" "), dtype=np.float64, sep=" ")
        if len(numbers) != int(filled.sum() + 2 * colons.sum()):
            raise ValueError("numbers")
    except ValueError:
        raise _find_fault(text, path, first_line) from None
    n_entries = colons[filled].astype(np.int64)
    start = np.concatenate(([0], np.cumsum(n_entries)))
    is_target = np.zeros(len(numbers), dtype=np.bool_)
    is_target[2 * start[:-1] + np.arange(len(n_entries))] = True
    entries = numbers[~is_target]
    index, value = entries[0::2], entries[1::2]
    wrong = (index < 0) | (index > _LARGEST_INDEX) | (index != np.floor(index))
    batch = None if wrong.any() else _batch(numbers[is_target], index, value, start)
    if batch is None or not batch.sparse.has_canonical_format:
        raise _find_fault(text, path, first_line)
    return batch


def _counts(text: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the numbers of colons and of words of each line."""
    codes = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(codes == _NEWLINE)
    is_space = (codes <= _SPACE) & ((codes == _SPACE) | ((codes >= 9) & (codes <= 13)))
    begins = ~is_space
    begins[1:] &= is_space[:-1]
    return _by_line(codes == _COLON, ends), _by_line(begins, ends)


def _by_line(marks: AnyArray, ends: AnyArray) -> npt.NDArray[np.int64]:
    upto = np.searchsorted(np.flatnonzero(marks), ends)
    return np.diff(upto, prepend=0).astype(np.int64)


def _batch(target: AnyArray, index: AnyArray, value: AnyArray, start: AnyArray) -> Batch:
    from scipy.sparse import csr_array

    width = int(index.max(initial=0)) + 1
    table = csr_array((value, index.astype(np.int32), start), shape=(len(target), width))
    table.sort_indices()
    column = ReadColumn(target, "numbers", "float", False, "number")
    return Batch(len(target), {}, False, table, column)


def _find_fault(text: bytes, path: str, first_line: int) -> DataError:
    """Return the error for the first invalid line."""
    for number, line in enumerate(text.splitlines(), first_line):
        words = line.split()
        if not words:
            continue
        seen: set[bytes] = set()
        try:
            float(words[0])
        except ValueError:
            return _fault(path, number, words[0], "a target is a number")
        for word in words[1:]:
            before, colon, after = word.partition(b":")
            if not colon or not before.isdigit() or int(before) > _LARGEST_INDEX:
                return _fault(path, number, word, "an entry is written as column:value")
            if before in seen:
                return _fault(path, number, word, "a line may name a column only once")
            seen.add(before)
            try:
                float(after)
            except ValueError:
                return _fault(path, number, word, "a value is a number")
    return DataError(f"{path}: lines from {first_line} on cannot be read as LibSVM.")


def _fault(path: str, line: int, word: bytes, rule: str) -> DataError:
    shown = word[:40].decode("utf-8", "replace")
    return DataError(f"{path}, line {line}: {shown!r} cannot be read; {rule}.")
