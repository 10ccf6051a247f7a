"""Options of a fit other than its rows, its loss and the parameters of its trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hedgerow.argument_types import check_bool
from hedgerow.boosting.loop.callbacks import Callback
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.metrics import MetricChoice


@dataclass(frozen=True, slots=True, eq=False)
class FitOptions:
    """Options of a fit.

    Attributes
    ----------
    stopping : StoppingParams
        Without validation rows, only held-out rows, folds or ``"oob"`` can stop a fit early.
    eval_metric : str, callable, GroupedMetric or sequence of these, optional
        See :func:`hedgerow.metrics.make_metrics`.
    callbacks : callable or sequence of callables, optional
        See :mod:`hedgerow.boosting.loop.callbacks`; called on every rank.
    progress : bool, default=False
        Draw a progress bar on standard error if that is a terminal; on rank 0.
    n_jobs : int, optional
        Threads of this rank; see :func:`hedgerow.threads.resolve_threads`.
    start : Start, optional
        A model to continue; the rows are read with its columns.
    """

    stopping: StoppingParams = field(default_factory=StoppingParams)
    eval_metric: MetricChoice = None
    callbacks: Callback | Sequence[Callback] | None = None
    progress: bool = False
    n_jobs: int | None = None
    start: Start | None = None

    def __post_init__(self) -> None:
        check_bool(self.progress, "progress")
