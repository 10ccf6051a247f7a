"""Fingerprint of a fit: all that its result depends on, in a form to store and compare.

Glossary
--------
setting  a short text that can be shown: ``learning_rate`` is ``0.1``
content  a digest of an array or a schema: it only shows whether they are equal

A fingerprint omits what does not affect the model: threads, callbacks, the progress bar, the
time budget, which is new for each run, and
``n_estimators``, since the trees of a fit do not depend on the number of later trees.  A
user-defined metric is identified by name; its code cannot be compared.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow import __version__
from hedgerow.arrays import AnyArray
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.stopping import CLOCK_FIELDS
from hedgerow.comm.base import Communicator, count_rows
from hedgerow.data import AnyTable, Schema, Table
from hedgerow.data.reading.mapped_table import MappedTable
from hedgerow.objectives import parameters_of
from hedgerow.objectives.own import Linked
from hedgerow.schedules import rate_text

if TYPE_CHECKING:
    from hedgerow.boosting.loop.driver import FitPlan

_BLOCK_BYTES = 1 << 22
_DIGEST_BYTES = 20
_LONGEST = 200
"""Longest text of a setting; longer texts are replaced by a digest."""


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


def fingerprint_of(
    plan: FitPlan, rows: tuple[Sample, Sequence[Sample]], others: Communicator, with_contents: bool
) -> Fingerprint:
    """Return what identifies a fit on rows of positive weight, before rows in memory are held out.

    Digests of rows in files take a pass over them, and depend neither on batches nor on chunks.
    """
    train, validation = rows
    settings = _settings_of(plan)
    settings["rows"] = str(count_rows(train.n_rows, others)[1])
    sets = [name for some in validation if some.sets for name in some.sets.names]
    if sets:
        settings["validation_sets"] = text_of(sets)
    for number, fold in enumerate(plan.folds):
        numbers = np.concatenate([fold.train, [-1], fold.test])
        settings[f"fold {number}"] = array_digest(numbers)
    contents: dict[str, str] = {}
    if with_contents:
        contents = {"columns": schema_digest(train.table.schema)} | _contents_of(train, "")
        for number, some in enumerate(validation):
            contents |= _contents_of(some, f"_val[{number}]" if number else "_val")
    found = Fingerprint(settings, contents)
    return found if plan.start is None else plan.start.identified(found, plan.params)


def _settings_of(plan: FitPlan) -> dict[str, str]:
    """Return all settings other than data: versions, parameters, loss, metrics."""
    objective, params, stopping = plan.objective, plan.params, plan.stopping
    plain = asdict(replace(params, learning_rate=1.0))  # a schedule has a separate text
    # A fit may continue on another device.
    requested = {n: value for n, value in plain.items() if n not in ("n_estimators", "device")}
    named = {"random_state" if name == "seed" else name: value for name, value in requested.items()}
    if isinstance(objective, Linked):  # a loss of the user
        loss = {"loss": f"{objective.label!r} ({objective.link})"}
    else:
        loss = {name: text_of(value) for name, value in parameters_of(objective).items()}
    texts = {
        "Hedgerow": __version__,
        "NumPy": np.__version__,
        "processor": platform.machine(),
        "objective": objective.name,
        "n_outputs": str(objective.n_outputs),
        **loss,
        "eval_metric": ", ".join(
            f"{metric.name} ({'higher' if metric.higher_is_better else 'lower'} is better)"
            for metric in (plan.metrics if plan.is_scored else ())
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


def _contents_of(sample: Sample, suffix: str) -> dict[str, str]:
    arrays = {"y": sample.target, **sample.digested()}
    if sample.sets is not None:
        arrays["sets"] = sample.sets.codes
    digests = {f"{name}{suffix}": array_digest(array) for name, array in arrays.items()}
    return {f"X{suffix}": _table_digest(sample.table), **digests}


def _table_digest(table: AnyTable) -> str:
    """Return a digest of all values, however their rows are divided into blocks."""
    digests = [hashlib.blake2b(digest_size=_DIGEST_BYTES) for _ in range(3)]
    for block in table.blocks() if isinstance(table, FileTable | MappedTable) else (table,):
        if isinstance(block, Table):
            arrays = [block.values]
        else:
            arrays = [np.diff(block.row_start), block.column, block.value]
        for digest, array in zip(digests, arrays, strict=False):
            # Blocks of one column may differ in the size of their numbers.
            _add_rows(digest, array, np.int64 if array.dtype.kind in "iu" else np.float64)
    return " ".join(digest.hexdigest() for digest in digests)


def _add_rows(digest: hashlib.blake2b, array: AnyArray, dtype: Any) -> None:
    """Add the elements to a digest, which do not depend on strides."""
    n_rows = max(1, _BLOCK_BYTES // max(1, array.nbytes // max(1, len(array))))
    for start in range(0, len(array), n_rows):
        rows = np.ascontiguousarray(array[start : start + n_rows], dtype)
        digest.update(rows.reshape(-1).view(np.uint8).data)


def schema_digest(schema: Schema) -> str:
    """Return a digest of names, kinds and levels of all columns."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    digest.update(repr((schema.named, schema.unknown, schema.zero_missing)).encode())
    for column in schema.columns:
        known = (column.name, column.kind, tuple(column.levels))
        text = repr(known if column.temporal is None else (*known, column.temporal))
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def array_digest(array: AnyArray) -> str:
    """Return a digest of type, shape and elements, independent of strides."""
    digest = hashlib.blake2b(f"{array.dtype.str} {array.shape}".encode(), digest_size=_DIGEST_BYTES)
    _add_rows(digest, array, array.dtype)
    return digest.hexdigest()
