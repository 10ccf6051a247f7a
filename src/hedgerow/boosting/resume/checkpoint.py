"""Checkpoints: a stopped fit continues from its recorded rounds.

Glossary
--------
part         successive rounds (:class:`Rounds`); every write adds one, without gaps
store        location of the parts of one fit: a folder, or the memory of another process
fingerprint  everything that the result of a fit depends on
setting      a short text of a fingerprint: ``learning_rate`` is ``0.1``
content      a digest of an array or a schema: it only shows whether they are equal

::

    rounds done ---- note ----> Recorder ---- save (one part) ----> store
                                                                      |
    grown on <---- replay <---- Recorder.earlier <---- latest --------+

Parts contain what is expensive to recompute: the trees as they were grown, and the scores
of each round.  Everything else is derived from the data as before.  Raw
scores are not stored: the trees are added again, each to each row, in the same order and
with the same factors (also for DART, whose rounds subtract trees and add them
back).  These are the same additions of the same floats, so the scores have the same
bits, and so do all later trees, for any number of threads.

A fingerprint omits what does not affect the model: threads, callbacks, the progress bar, the
time budget, and ``n_estimators``, since trees do not depend on the number of later ones.  A
user-defined metric is identified by name; its code cannot be compared.
"""

from __future__ import annotations

import hashlib
import platform
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hedgerow import __version__
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.external.file_table import blocks_of
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.stopping import CLOCK_FIELDS
from hedgerow.comm.base import Communicator, count_rows
from hedgerow.data import AnyTable, Schema, Table
from hedgerow.errors import HedgerowWarning, StorageError
from hedgerow.growing.core.tree import GrownTree
from hedgerow.objectives import parameters_of
from hedgerow.objectives.own import Linked
from hedgerow.params import CHECKPOINT_SECONDS
from hedgerow.schedules import rate_text

if TYPE_CHECKING:
    from hedgerow.boosting.loop.driver import FitPlan

_BLOCK_BYTES = 1 << 22
_DIGEST_BYTES = 20
_LONGEST = 200
"""Longest text of a setting; longer texts are replaced by a digest."""

_MOST_SHARE = 0.05
"""Largest share of the time for writes: on a slow disk they become rarer."""

_SECONDS_AFTER_FAILURE = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Successive rounds of a fit.

    first        number of rounds before these
    trees        round by round, each with ``num_parallel_tree`` trees for each output, as they were
                 grown, before a mode scales them
    base_score   float64 (n_outputs,): raw score before the first tree
    scores       float64 (n_rounds, n_curves): what each curve of the history has of each round
    ended        whether the fit ended with the last of these rounds, by early stopping or a
                 callback
    """

    first: int
    trees: tuple[GrownTree, ...]
    base_score: FloatArray
    scores: FloatArray
    ended: bool = False

    @property
    def n_rounds(self) -> int:
        return len(self.scores)

    @property
    def trees_per_round(self) -> int:
        return len(self.trees) // max(1, self.n_rounds)

    @property
    def end(self) -> int:
        """Number of rounds up to the last of these."""
        return self.first + self.n_rounds

    def of_round(self, number: int) -> tuple[GrownTree, ...]:
        """Return the trees of round ``number``, counted from the first of these rounds."""
        return self.trees[number * self.trees_per_round : (number + 1) * self.trees_per_round]

    def goes_with(self, other: Rounds) -> bool:
        """Return whether both may be rounds of one fit."""
        shapes = [(len(r.base_score), r.scores.shape[1], r.trees_per_round) for r in (self, other)]
        return shapes[0] == shapes[1] and self.base_score.tobytes() == other.base_score.tobytes()

    def head(self, n_rounds: int) -> Rounds:
        """Return the first ``n_rounds`` of these rounds."""
        if n_rounds >= self.n_rounds:
            return self
        return replace(
            self,
            trees=self.trees[: n_rounds * self.trees_per_round],
            scores=self.scores[:n_rounds],
            ended=False,
        )

    def check(self, base: FloatArray, n_features: int, n_columns: int) -> None:
        """Raise ``StorageError`` unless a fit of this shape can have these rounds."""
        # The checksum detects damage, and the fingerprint detects other fits; this check keeps tree
        # traversal within the columns, for any source of the parts.
        if self.base_score.tobytes() != base.tobytes():
            raise StorageError(
                f"the checkpoint starts from {self.base_score.tolist()}, but this fit from "
                f"{base.tolist()}, with the same data and parameters: remove the checkpoint."
            )
        for tree in self.trees:
            on_bins = len(tree.column) > 0
            if (
                int(tree.feature.max()) >= n_features
                or on_bins != (n_columns > 0)
                or (on_bins and int(tree.column.max()) >= n_columns)
            ):
                raise StorageError(
                    "the checkpoint has trees that split columns which the table does not have: "
                    "remove the checkpoint."
                )


def joined(parts: Sequence[Rounds]) -> Rounds:
    """Join successive parts to one."""
    if len(parts) == 1:
        return parts[0]
    return Rounds(
        first=parts[0].first,
        trees=tuple(tree for part in parts for tree in part.trees),
        base_score=parts[0].base_score,
        scores=np.concatenate([part.scores for part in parts]),
        ended=parts[-1].ended,
    )


class CheckpointStore(Protocol):
    """Protocol of locations that keep the parts of one fit; by default nothing is claimed."""

    def open(self) -> None:
        """Claim the store before its fit is known; a second call does nothing."""
        return

    def latest(self, fit: Fingerprint) -> Rounds | None:
        """Claim the store for this fit; return all its rounds, from number 0, or None.

        Raise ``ParameterError`` if it holds another fit; the message lists the differences.
        Raise ``StorageError`` if it cannot be read or written, or if another process uses it.
        """

    def save(self, part: Rounds) -> None:
        """Store more rounds, all or none; they follow the rounds stored before.

        Raise ``StorageError`` if they cannot be stored; a later call may pass the same rounds
        with more.
        """

    def close(self) -> None:
        """Release the store; a second call does nothing."""
        return


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store and interval for recording a fit.

    every  least number of seconds between writes; 0: write after every round
    """

    store: CheckpointStore
    every: float = CHECKPOINT_SECONDS


class Recorder:
    """Passes the rounds of a fit to a store.

    A failed write causes a warning, and its rounds are written with the next ones: training
    must not fail because it cannot be recorded.  Writes are at least ``every``
    seconds apart and take at most about 5% of the time, unless ``every`` is 0.

    ``earlier`` are the rounds of an earlier run.
    """

    def __init__(
        self, checkpoint: Checkpoint, fit: Fingerprint, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._every, self._clock = checkpoint.store, checkpoint.every, clock
        self._waiting: list[Rounds] = []
        self.earlier = self._store.latest(fit)
        self._due = clock() + self._every

    def note(self, done: Rounds) -> None:
        """Take completed rounds; write them, with earlier unwritten ones, if a write is due."""
        self._waiting.append(done)
        if done.ended or self._clock() >= self._due:
            self.write()

    def write(self, last: bool = False) -> None:
        """Write the unwritten rounds; ``last`` if none will follow."""
        if not self._waiting:
            return
        began = self._clock()
        pause = self._every
        try:
            # After an interrupt here they stay in the queue: writing them twice does no harm.
            self._store.save(joined(self._waiting))
            self._waiting = []
        except (OSError, MemoryError) as error:
            pause = max(pause, _SECONDS_AFTER_FAILURE)
            lost = sum(part.n_rounds for part in self._waiting)
            after = "." if last else "; training continues, and the next write includes them."
            warnings.warn(
                f"the last {lost} rounds could not be added to the checkpoint: {error}{after}",
                HedgerowWarning,
                stacklevel=2,
            )
        now = self._clock()
        if self._every > 0.0:
            pause = max(pause, (now - began) / _MOST_SHARE)
        self._due = now + pause


# -- what identifies a fit -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Settings and contents that identify a fit, by the user's name for them."""

    settings: Mapping[str, str]
    contents: Mapping[str, str]

    def differences(self, now: Fingerprint) -> list[str]:
        """Describe the differences between this earlier fit and the current one."""
        found = []
        for name in {**self.settings, **now.settings}:
            before, after = self.settings.get(name, "unset"), now.settings.get(name, "unset")
            if before != after:
                found.append(f"{name} was {before} and is {after}")
        for name in {**self.contents, **now.contents}:
            one, other = self.contents.get(name), now.contents.get(name)
            if one is None or other is None:
                found.append(f"{name} {'is new' if one is None else 'is gone'}")
            elif one != other:
                found.append(f"{name} {'have' if name == 'columns' else 'has'} changed")
        return found


def fingerprint_of(
    plan: FitPlan, rows: tuple[Sample, Sequence[Sample]], others: Communicator, with_contents: bool
) -> Fingerprint:
    """Return what identifies a fit on rows of positive weight, before any are held out."""
    train, validation = rows
    settings = _settings_of(plan)
    settings["rows"] = str(count_rows(train.n_rows, others)[1])
    sets = [one.set_name for one in validation if one.set_name is not None]
    if sets:
        settings["validation_sets"] = text_of(sets)
    for number, fold in enumerate(plan.folds):
        numbers = np.concatenate([fold.train, [-1], fold.test])
        settings[f"fold {number}"] = array_digest(numbers)
    contents: dict[str, str] = {}
    # Digests of rows in files take a pass, and depend neither on batches nor on chunks.
    if with_contents:
        contents = {"columns": schema_digest(train.table.schema)} | _contents_of(train, "")
        for number, some in enumerate(validation):
            contents |= _contents_of(some, f"_val[{number}]" if number else "_val")
    if plan.start is not None:
        contents[plan.start.name] = plan.start.digest()
    return Fingerprint(settings, contents)


def _settings_of(plan: FitPlan) -> dict[str, str]:
    """Return all settings other than data: versions, parameters, loss, metrics."""
    objective, params, stopping, start = plan.objective, plan.params, plan.stopping, plan.start
    n_rounds = params.n_estimators
    if callable(params.learning_rate) and start is not None and not start.total:
        n_rounds += start.forest.n_rounds  # callables count the rounds of the model, too
    plain = asdict(replace(params, learning_rate=1.0))  # a schedule has a separate text
    plain["random_state"] = plain.pop("seed")
    del plain["n_estimators"], plain["device"]  # a fit may continue on another device
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
        **{name: text_of(value) for name, value in plain.items()},
        "learning_rate": rate_text(params.learning_rate, n_rounds),
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
    digests = {f"{name}{suffix}": array_digest(array) for name, array in arrays.items()}
    return {f"X{suffix}": _table_digest(sample.table), **digests}


def _table_digest(table: AnyTable) -> str:
    """Return a digest of all values, however their rows are divided into blocks."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for block in blocks_of(table):
        if isinstance(block, Table):
            arrays = [block.values]
        else:  # a single block
            arrays = [block.row_start, block.column, block.value]
        for array in arrays:
            # Blocks of one column may differ in the size of their numbers.
            _add_rows(digest, array, np.int64 if array.dtype.kind in "iu" else np.float64)
    return digest.hexdigest()


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
