"""Fingerprint of a fit: all that its result depends on, in a form to store and compare.

Glossary
--------
setting  a short text that can be shown: ``learning_rate`` is ``0.1``
content  a digest of an array or a schema: it only shows whether they are equal

A fingerprint omits what does not affect the model: threads, callbacks, the progress bar, the
time budget, which is new for each run, and
``n_estimators``, since the trees of a fit do not depend on the number of later trees.  A
user-defined metric is identified by name; its code cannot be compared.

Blocks of an array have separate digests, so that threads can share the work; the
digest of an array depends neither on the number of threads nor on its strides.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import __version__
from hedgerow.arrays import AnyArray
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.stopping import CLOCK_FIELDS, StoppingParams
from hedgerow.data import AnyTable, Schema, SparseTable, Table
from hedgerow.metrics import Metric
from hedgerow.objectives import Objective, parameters_of
from hedgerow.objectives.own import Linked
from hedgerow.params import BoostParams
from hedgerow.schedules import rate_text
from hedgerow.threads import run_blocks

_BLOCK_BYTES = 1 << 22
_DIGEST_BYTES = 20
_LONGEST = 200
"""Longest text of a setting; longer texts are replaced by a digest."""

_SOURCES = (
    "boosting",
    "data",
    "growing",
    "kernels",
    "metrics",
    "objectives",
    "params.py",
    "schedules.py",
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Settings and contents that identify a fit.

    settings, contents  by the user's name for them
    """

    settings: Mapping[str, str]
    contents: Mapping[str, str]

    @property
    def digest(self) -> str:
        """One text for all entries: equal only for equal fits."""
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for part in (self.settings, self.contents):
            for name in sorted(part):
                digest.update(f"{name}\0{part[name]}\0".encode())
            digest.update(b"\n")
        return digest.hexdigest()

    def differences(self, now: Fingerprint) -> list[str]:
        """Describe the differences between this earlier fit and the current one."""
        found = []
        for name in _names(self.settings, now.settings):
            before, after = self.settings.get(name, "unset"), now.settings.get(name, "unset")
            if before != after:
                found.append(f"{name} was {before} and is {after}")
        for name in _names(self.contents, now.contents):
            one, other = self.contents.get(name), now.contents.get(name)
            if one is None or other is None:
                found.append(f"{name} {'is new' if one is None else 'is gone'}")
            elif one != other:
                found.append(f"{name} {'have' if name == 'columns' else 'has'} changed")
        return found


def _names(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return [*one, *(name for name in other if name not in one)]


def contents_of(train: Sample, validation: Sequence[Sample], n_threads: int = 1) -> dict[str, str]:
    """Return digests of rows of positive weight, in memory before rows are held out.

    Those of files take a pass over them, and depend neither on batches nor on chunks.
    """
    contents = {"columns": schema_digest(train.table.schema)} | _contents_of(train, "", n_threads)
    for number, rows in enumerate(validation):
        contents |= _contents_of(rows, f"_val[{number}]" if number else "_val", n_threads)
    return contents


def settings_of(
    objective: Objective,
    params: BoostParams,
    stopping: StoppingParams,
    metrics: Sequence[Metric],
) -> dict[str, str]:
    """Return all settings other than data: versions, parameters, loss, metrics."""
    plain = asdict(replace(params, learning_rate=1.0))  # a schedule has a separate text
    # A fit may continue on another device.
    requested = {n: value for n, value in plain.items() if n not in ("n_estimators", "device")}
    named = {"random_state" if name == "seed" else name: value for name, value in requested.items()}
    if isinstance(objective, Linked):  # a loss of the user
        loss = {"loss": f"{objective.label!r} ({objective.link})"}
    else:
        loss = {name: text_of(value) for name, value in parameters_of(objective).items()}
    texts = {
        "Hedgerow": f"{__version__} ({_digest_of_sources()})",
        "NumPy": np.__version__,
        "processor": platform.machine(),
        "objective": objective.name,
        "n_outputs": str(objective.n_outputs),
        **loss,
        "eval_metric": ", ".join(
            f"{metric.name} ({'higher' if metric.higher_is_better else 'lower'} is better)"
            for metric in metrics
        ),
        **{
            field.name: text_of(getattr(stopping, field.name))
            for field in fields(stopping)
            if field.name not in CLOCK_FIELDS
        },
        **{name: text_of(value) for name, value in named.items()},
        "learning_rate": rate_text(params.learning_rate, params.n_estimators),
    }
    for name, text in texts.items():
        if len(text) > _LONGEST:
            digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
            texts[name] = f"{text[: _LONGEST // 2]}... ({digest})"
    return texts


def text_of(value: Any) -> str:
    """Return the same text for a NumPy number and a Python number."""
    item: Callable[[], Any] | None = getattr(value, "item", None)
    return repr(value if item is None else item())


@functools.cache
def _digest_of_sources() -> str:
    """Return a digest of the source files that affect fits: one version may have several."""
    digest = hashlib.blake2b(digest_size=6)
    package = Path(__file__).parents[2]
    for name in _SOURCES:
        place = package / name
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _contents_of(sample: Sample, suffix: str, n_threads: int) -> dict[str, str]:
    table = sample.table
    arrays = {
        "X": [_digest_of_blocks(table)] if isinstance(table, FileTable) else _arrays_of(table),
        "y": [sample.target],
        **{name: [array] for name, array in sample.digested().items()},
        "sets": [] if sample.sets is None else [sample.sets.codes],
    }
    found = {
        f"{name}{suffix}": " ".join(array_digest(array, n_threads) for array in given)
        for name, given in arrays.items()
        if given
    }
    if isinstance(table, FileTable):  # another digest than that of a table in memory
        found[f"X{suffix} in batches"] = found.pop(f"X{suffix}")
    return found


def _arrays_of(table: AnyTable) -> list[AnyArray]:
    if isinstance(table, Table):
        return [table.values]
    return [table.row_start, table.column, table.value]


def _digest_of_blocks(table: FileTable) -> AnyArray:
    """Return digests of all values of rows that are read in blocks, however these are divided."""
    digests = [hashlib.blake2b(digest_size=_DIGEST_BYTES) for _ in range(3)]
    for block in table.blocks():
        arrays = _arrays_of(block)
        if isinstance(block, SparseTable):
            arrays[0] = np.diff(arrays[0])
        for digest, array in zip(digests, arrays, strict=False):
            # Blocks of one column may differ in the size of their numbers.
            plain = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64, order="C")
            digest.update(plain.reshape(-1).view(np.uint8).data)
    return np.frombuffer(b"".join(digest.digest() for digest in digests), np.uint8)


def schema_digest(schema: Schema) -> str:
    """Return a digest of names, kinds and levels of all columns."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    digest.update(repr((schema.named, schema.unknown, schema.zero_missing)).encode())
    for column in schema.columns:
        known = (column.name, column.kind, tuple(column.levels))
        text = repr(known if column.temporal is None else (*known, column.temporal))
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def array_digest(array: AnyArray, n_threads: int = 1) -> str:
    """Return a digest of type, shape and elements, independent of strides."""
    length = max(1, len(array))
    n_rows = max(1, _BLOCK_BYTES // max(1, array.nbytes // length))
    n_blocks = -(-length // n_rows)
    digests = [b""] * n_blocks

    def work(start: int, stop: int) -> None:
        for block in range(start, stop):
            rows = np.ascontiguousarray(array[block * n_rows : (block + 1) * n_rows])
            digests[block] = hashlib.blake2b(
                rows.reshape(-1).view(np.uint8).data, digest_size=_DIGEST_BYTES
            ).digest()

    run_blocks(work, n_blocks, n_threads, 1)
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    digest.update(f"{array.dtype.str} {array.shape}".encode())
    for part in digests:
        digest.update(part)
    return digest.hexdigest()
